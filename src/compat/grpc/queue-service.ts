// QueueService is dq.v1.Queue: the calls of the HTTP API that producers and pull clients need, by the same
// use cases.

import { PushBatch } from '../../api/routes/batch-route.ts';
import { attemptJson } from '../../api/routes/job-json.ts';
import { contractLimits } from '../../contract/api/limits.ts';
import { webhookIdOf } from '../../core/delivery.ts';
import { formatInstant, formatInstantOrNull } from '../../core/duration.ts';
import { type DqError, invalidField } from '../../core/errors.ts';
import { optionsIn, withOptions } from '../../core/extension.ts';
import type { JobKey } from '../../core/job.ts';
import { limits } from '../../core/limits.ts';
import { reaches } from '../../core/token.ts';
import { topicNamePattern } from '../../core/topic/fields.ts';
import { PullCalls, readLeaseLength, readWait } from '../../intake/pull/pull-calls.ts';
import type { PulledJob, Puller, PullRequest } from '../../intake/pull/puller.ts';
import type { PushJob } from '../../ports/job-store.ts';
import type { RoleContext } from '../../process/role.ts';
import { monotonicNow } from '../../runtime/time.ts';
import { acceptJob, type PushRequest, pushTerms, readBackoff } from '../../use-cases/accept-job.ts';
import { topicNotFound } from '../../use-cases/change-topic.ts';
import { absentJob, checkedKey, findJob, jobHead } from '../../use-cases/find-job.ts';
import { lookUpTopics } from '../../use-cases/find-topics.ts';
import type { PushQueue } from '../../use-cases/push-queue.ts';
import type { BatchPush } from '../../use-cases/read-batch.ts';
import type { CompatAccess } from '../compat-access.ts';
import { CompatJobs } from '../compat-jobs.ts';
import type { CompatParts } from '../compat-listener.ts';
import { grpcLimits } from '../limits.ts';
import { detailOf, fieldOf, type GrpcCall, type GrpcMethods, type Message } from './messages.ts';

export class QueueService {
  readonly #role: RoleContext;
  readonly #access: CompatAccess;
  readonly #jobs: CompatJobs;
  readonly #pulls: PullCalls;
  readonly #puller: Puller;
  readonly #pushes: PushQueue;

  constructor({ role, pushes, access, puller, leases }: CompatParts) {
    this.#role = role;
    this.#access = access;
    this.#jobs = new CompatJobs({ role, pushes, access, via: 'grpc' });
    this.#pulls = new PullCalls(role, leases);
    this.#puller = puller;
    this.#pushes = pushes;
  }

  readonly methods: GrpcMethods = {
    Push: { verb: 'push', execute: (request, call) => this.#push(request, call) },
    PushBatch: { verb: 'batch', execute: (request, call) => this.#pushBatch(request, call) },
    Get: { verb: 'get', execute: (request, call) => this.#get(keyOf(request), call) },
    Cancel: { verb: 'del', execute: (request, call) => this.#cancel(keyOf(request), call) },
    Pull: { verb: 'pull', execute: (request, call) => this.#pull(request, call) },
    Ack: {
      verb: 'ack',
      execute: (request, call) =>
        this.#answer(call, (mayTouch) => this.#pulls.ack(leasesOf(request), mayTouch)),
    },
    Nack: {
      verb: 'nack',
      execute: (request, call) =>
        this.#answer(call, (mayTouch) => {
          const { delay, reason = '', dead = false, release = false } = request as NackMessage;
          if (reason.length > contractLimits.nackReasonCharsMax)
            throw invalidField('reason', `must be at most ${contractLimits.nackReasonCharsMax} characters`);
          return this.#pulls.nack(leasesOf(request), mayTouch, { delay, reason, dead, release });
        }),
    },
    Extend: {
      verb: 'extend',
      execute: (request, call) =>
        this.#answer(call, (mayTouch) =>
          this.#pulls.extend(leasesOf(request), mayTouch, request['duration'], 'duration'),
        ),
    },
  };

  async #push(request: Message, call: GrpcCall): Promise<object> {
    const { topic, request: push } = readPush(request, call);
    const result = await this.#jobs.pushed(topic, push.id ?? null, () => withBackoff(push), {
      rights: call.rights,
    });
    if (result.kind === 'ok') return JSON.parse(`{${result.value}}`);
    throw result.error;
  }

  async #pushBatch(request: Message, call: GrpcCall): Promise<object> {
    this.#access.requireScope('push', call.rights);
    const { topics } = this.#role;
    const messages = (request['jobs'] ?? []) as readonly Message[];
    if (messages.length > limits.batchItemsMax)
      throw invalidField('jobs', `must be at most ${limits.batchItemsMax}; send several batches`);
    const items = messages.map((message) => readPush(message, call));
    const lookUpError = await lookUpTopics(topics, items);
    const batch = new PushBatch<object>({
      role: this.#role,
      items,
      via: 'grpc',
      jobOf: (item) => this.#jobOf(item, call, lookUpError),
      accepted: ({ members }) => ({ job: JSON.parse(`{${members}}`) }),
      rejected: (error) => ({ error: errorJson(error) }),
    });
    this.#pushes.addBatch(() => batch.next());
    const { accepted, results } = await batch.settled;
    return { accepted, failed: results.length - accepted, results };
  }

  /** Never throws. */
  #jobOf(
    { topic: name, request }: BatchPush,
    call: GrpcCall,
    lookUpError: DqError | null,
  ): PushJob | DqError {
    const { topics } = this.#role;
    try {
      this.#access.require('push', name, call.rights);
      const topic = topics.get(name);
      if (topic === undefined)
        return lookUpError !== null && topicNamePattern.test(name) ? lookUpError : topicNotFound(name);
      return acceptJob(withBackoff(request), topic, pushTerms(this.#role));
    } catch (error) {
      return this.#jobs.errorOf(error);
    }
  }

  async #get(key: JobKey, { rights }: GrpcCall): Promise<object> {
    this.#access.require('read', key.topic, rights);
    const { store, topics } = this.#role;
    const found = await findJob(store, checkedKey(key));
    if (found === null) throw await absentJob(this.#role, key);
    const topic = topics.get(key.topic);
    const options = 'endedAt' in found ? {} : optionsIn(found.extension);
    const common = {
      ...jobHead(found),
      maxAttempts: topic === undefined ? 0 : withOptions(topic, options).maxAttempts,
      webhookId: webhookIdOf(found),
      attempts: found.attempts.map((one) => attemptJson(one, found)),
    };
    if ('endedAt' in found) return { ...common, endedAt: formatInstant(found.endedAt) };
    const { deadAt, deadReason, contentType, body } = found;
    return {
      ...common,
      deadAt: formatInstantOrNull(deadAt),
      deadReason,
      contentType,
      body,
    };
  }

  async #cancel(key: JobKey, { rights }: GrpcCall): Promise<object> {
    const result = await this.#jobs.cancel(key, rights);
    if (result.kind !== 'ok') throw result.error;
    if (result.value === null) throw await absentJob(this.#role, key);
    return result.value;
  }

  async #pull(request: Message, call: GrpcCall): Promise<object> {
    const { topics: names = [], max = 1, wait, lease } = request as PullMessage;
    this.#access.requireScope('pull', call.rights);
    if (names.length < 1 || names.length > contractLimits.pullTopicsMax)
      throw invalidField('topics', `must be 1 to ${contractLimits.pullTopicsMax} pull topics`);
    if (max < 1 || max > contractLimits.pullJobsMax)
      throw invalidField('max', `must be a whole number from 1 to ${contractLimits.pullJobsMax}`);
    for (const name of names) this.#access.require('pull', name, call.rights);
    const until = monotonicNow() + Math.min(readWait(wait), call.leftMs - grpcLimits.deadlineSpareMs);
    const leaseMs = readLeaseLength(lease);
    const topics = [...new Set(names)];
    await Promise.all(topics.map((name) => this.#pulls.checkTopic(name)));
    const refusal = () => this.#access.refusal(call.admit, 'pull', names);
    const pulled = await this.#pullFor(call, {
      topics,
      max,
      waitMs: Math.max(0, until - monotonicNow()),
      leaseMs,
      client: call.client,
      refusal,
    });
    return this.#puller.answer(pulled, (jobs) => ({
      jobs: jobs.map((one) => ({
        ...this.#pulls.pulled(one),
        body: one.job.body,
      })),
    }));
  }

  /** A client that has left gets no job; those that would make the reply too large are released. */
  async #pullFor(call: GrpcCall, request: PullRequest): Promise<readonly PulledJob[]> {
    const asked = this.#puller.pull(request);
    call.onCancelled(asked.cancel);
    const pulled = await asked.jobs;
    const sent = fitting(pulled);
    this.#puller.release(pulled.slice(sent.length));
    if (sent.length > 0) call.onUnsent(() => this.#puller.release(sent));
    return sent;
  }

  /** Ack, nack or extend. */
  async #answer(
    { rights }: GrpcCall,
    act: (mayTouch: (topic: string) => boolean) => Promise<readonly object[]>,
  ): Promise<object> {
    this.#access.requireScope('pull', rights);
    return { results: await act((topic) => reaches(rights, topic)) };
  }
}

interface PullMessage {
  readonly topics?: readonly string[];
  readonly max?: number;
  readonly wait?: string;
  readonly lease?: string;
}

interface NackMessage {
  readonly delay?: string;
  readonly reason?: string;
  readonly dead?: boolean;
  readonly release?: boolean;
}

interface PushMessage {
  readonly topic?: string;
  readonly id?: string;
  readonly body?: Uint8Array;
  readonly contentType?: string;
  readonly delay?: string;
  readonly at?: string;
  /** its number, if dq does not know it */
  readonly mode?: string | number;
  readonly idempotency?: string;
  readonly lease?: string;
  readonly maxAttempts?: number;
  readonly backoff?: string;
  readonly deadline?: string;
  readonly traceparent?: string;
  readonly tracestate?: string;
}

/** Its backoff is text. */
function readPush(message: Message, { metadata }: GrpcCall): BatchPush {
  const { topic = '', body, contentType, maxAttempts, mode = 'REPLACE', ...given } = message as PushMessage;
  const { id, delay, at, idempotency, lease, backoff, deadline } = given;
  const text = (name: string) => metadata.get(name).map(String)[0];
  const { traceparent, tracestate } =
    given.traceparent === undefined
      ? { traceparent: text('traceparent'), tracestate: text('tracestate') }
      : given;
  const request: PushRequest = {
    id,
    delay,
    at,
    idempotency,
    lease,
    backoff,
    deadline,
    traceparent,
    tracestate,
    mode: String(mode).toLowerCase(),
    maxAttempts: maxAttempts === undefined ? undefined : String(maxAttempts),
    contentType: contentType ?? null,
    // A copy: the job must not keep the whole batch.
    body: Buffer.from(body ?? []),
    inQuery: false,
    isLiteral: true,
  };
  return { topic, request };
}

/** Throws DqError. */
function withBackoff(push: PushRequest): PushRequest {
  return typeof push.backoff === 'string' ? { ...push, backoff: readBackoff(push.backoff) } : push;
}

function errorJson(error: DqError): object {
  const [first] = error.errors;
  const { id } = error.extra;
  return {
    code: error.code,
    message: detailOf(error),
    ...(first === undefined ? {} : { field: fieldOf(first.field) }),
    ...(typeof id === 'string' ? { id } : {}),
  };
}

function keyOf({ topic = '', id = '' }: Message): JobKey {
  return { topic: String(topic), id: String(id) };
}

/** Throws DqError. */
function leasesOf({ leases }: Message): readonly string[] {
  const given = (leases ?? []) as readonly string[];
  if (given.length >= 1 && given.length <= contractLimits.pullCallLeasesMax) return given;
  throw invalidField('leases', `must be 1 to ${contractLimits.pullCallLeasesMax} leases of pulled jobs`);
}

/** The first ones, within grpcLimits.replyBytesMax; at least one. */
function fitting(pulled: readonly PulledJob[]): readonly PulledJob[] {
  let bytes = 0;
  const end = pulled.findIndex(({ job }, n) => {
    bytes += job.body.length;
    return n > 0 && bytes > grpcLimits.replyBytesMax;
  });
  return end < 0 ? pulled : pulled.slice(0, end);
}
