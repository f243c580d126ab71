// CompatJobs pushes, cancels and reads jobs for the protocols of other queues: access, counters and request
// log are those of the HTTP API.
// Invariant: a push or cancel gets one result, and an unknown one is neither a success nor a failure.

import { elapsedMs, logRequest } from '../../api/http/request-log.ts';
import { finishPush, rejectionOf } from '../../api/routes/push-result.ts';
import type { CompatProtocol } from '../../config/options.ts';
import { catalogue, DqError } from '../../core/errors.ts';
import type { JobKey, JobSnapshot } from '../../core/job.ts';
import { refusesId } from '../../core/job-id.ts';
import { topicNamePattern } from '../../core/topic/fields.ts';
import type { PlainTopic } from '../../core/topic/topic.ts';
import type { PushOutcome } from '../../ports/job-store.ts';
import { StoreError } from '../../ports/store-error.ts';
import type { RoleContext } from '../../process/role.ts';
import { acceptJob, type PushRequest } from '../../use-cases/accept-job.ts';
import { topicNotFound } from '../../use-cases/change-topic.ts';
import { cancelJob } from '../../use-cases/move-job.ts';
import type { PushQueue } from '../../use-cases/push-queue.ts';
import { topicOfPush } from '../../use-cases/topic-of-push.ts';
import type { CompatAccess } from './compat-access.ts';

/** `unknown`: the store may have done it · `failed`: it has surely not */
export type CompatResult<T> =
  | { readonly kind: 'ok'; readonly value: T }
  | { readonly kind: 'failed' | 'unknown'; readonly error: DqError };

/** A push as its protocol wrote it, for this topic. Throws DqError for an invalid one. */
export type ReadPush = (
  topic: PlainTopic,
) => Pick<PushRequest, 'id' | 'delay' | 'at' | 'contentType' | 'body'>;

export interface CompatJobsOptions {
  readonly role: RoleContext;
  readonly pushes: PushQueue;
  readonly access: CompatAccess;
  readonly via: CompatProtocol;
}

export class CompatJobs {
  readonly #options: CompatJobsOptions;

  constructor(options: CompatJobsOptions) {
    this.#options = options;
  }

  /** Calls `done` once, perhaps before it returns. No promise where the topic is known: this is the hot path.
   *  `id`: for the log, null if it is unreadable. */
  push(name: string, id: string | null, read: ReadPush, done: (result: CompatResult<null>) => void): void {
    const { role, access } = this.#options;
    const since = performance.now();
    const reject = (thrown: unknown): void => {
      const error = this.#errorOf(thrown);
      role.metrics.count('dq_pushes_total', 1, rejectionOf(error.code));
      this.#log('POST', { topic: name, id }, since, error);
      done(failure(error));
    };
    try {
      access.require('push', name);
      const topic = role.topics.get(name);
      if (topic !== undefined) this.#store(topic, read, since, done);
      else
        topicOfPush(role.topics, name)
          .then((found) => this.#store(found, read, since, done))
          .catch(reject);
    } catch (error) {
      reject(error);
    }
  }

  #store(topic: PlainTopic, read: ReadPush, since: number, done: (result: CompatResult<null>) => void): void {
    const { role, pushes, via } = this.#options;
    const request = { mode: 'replace', inQuery: false, isLiteral: true, ...read(topic) } as const;
    const job = acceptJob(request, topic, role.clock.now());
    pushes.add({
      job,
      settle(outcome: PushOutcome) {
        const reply = finishPush({ role }, job, outcome, since, via);
        done(reply.ok ? { kind: 'ok', value: null } : failure(reply.error));
      },
    });
  }

  /** ok with false: no such job. Never rejects. */
  async cancel({ topic, id }: JobKey): Promise<CompatResult<boolean>> {
    const { role, access } = this.#options;
    const since = performance.now();
    try {
      checkKey({ topic, id });
      access.require('push', topic);
      const cancelled = await cancelJob(role.store.jobs, { topic, id });
      if (cancelled !== null) role.counters.add(topic, 'cancelled');
      const absent = new DqError('job_not_found', 'no such job, or the job has ended');
      this.#log('DELETE', { topic, id }, since, cancelled === null ? absent : null);
      return { kind: 'ok', value: cancelled !== null };
    } catch (thrown) {
      const error = this.#errorOf(thrown);
      this.#log('DELETE', { topic, id }, since, error);
      return failure(error);
    }
  }

  /** ok with null: no such job. Never rejects. */
  async get({ topic, id }: JobKey): Promise<CompatResult<JobSnapshot | null>> {
    const { role, access } = this.#options;
    try {
      checkKey({ topic, id });
      access.require('read', topic);
      return { kind: 'ok', value: await role.store.jobs.get({ topic, id }) };
    } catch (thrown) {
      return failure(this.#errorOf(thrown));
    }
  }

  #errorOf(thrown: unknown): DqError {
    if (thrown instanceof DqError) return thrown;
    if (thrown instanceof StoreError)
      return new DqError('unavailable', 'the job store does not answer; send the request again', {
        cause: thrown,
      });
    this.#options.role.log.error(`${this.#options.via}: unhandled error in a request`, thrown);
    return new DqError('unknown', 'dq failed; its error log has the cause');
  }

  #log(method: 'POST' | 'DELETE', key: RequestKey, since: number, error: DqError | null): void {
    const { role, via } = this.#options;
    const { code = null, message = null } = error ?? {};
    logRequest(role.log, {
      method,
      ...key,
      status: code === null ? 200 : catalogue[code].status,
      code,
      version: null,
      dueAt: null,
      bytes: 0,
      ms: elapsedMs(since),
      via,
      ...(message === null ? {} : { reason: message }),
    });
  }
}

type RequestKey = { readonly topic: string; readonly id: string | null };

/** Throws DqError for a name or id that no job has. */
function checkKey({ topic, id }: JobKey): void {
  if (!topicNamePattern.test(topic)) throw topicNotFound(topic);
  const wrong = refusesId(id);
  if (wrong !== null) throw new DqError('invalid', `id: ${wrong}`);
}

function failure(error: DqError): { readonly kind: 'failed' | 'unknown'; readonly error: DqError } {
  return { kind: error.code === 'unknown' ? 'unknown' : 'failed', error };
}
