// job-json.ts describes and builds what the API answers about one job: the job, its attempts, and why it is
// where it is.

import { isUtf8 } from 'node:buffer';
import { Type } from 'typebox';
import { capacityCodes } from '../../core/capacity-reasons.ts';
import { webhookIdOf } from '../../core/delivery.ts';
import { formatDuration, formatInstant } from '../../core/duration.ts';
import type { JobOptions } from '../../core/extension.ts';
import { type AttemptRecord, type EndedJob, endStates, type JobSnapshot, jobStates } from '../../core/job.ts';
import { type Why, whyCodes } from '../../core/job-why.ts';
import { limits } from '../../core/limits.ts';
import type { PlannedAttempt } from '../../core/planned-attempts.ts';
import { topicFields } from '../../core/topic/fields.ts';
import { parentOf, type TraceContext } from '../../core/trace-context.ts';
import type { AlertEntry } from '../../ports/job-store.ts';
import {
  CreatedAt,
  count,
  DeadReason,
  DueAt,
  FinishedAttempts,
  instant,
  JobId,
  nullable,
  TopicName,
  text,
  Version,
} from '../http/schemas.ts';
import { jobHead } from './job-head.ts';

const number = Type.Integer({ description: 'number of the attempt, from 1', examples: [1] });
export const Attempt = Type.Object(
  {
    attempt: number,
    startedAt: instant('when the attempt began'),
    durationMs: Type.Number({ description: 'from DNS to the last byte of the reply', examples: [41.5] }),
    latenessMs: Type.Optional(count('milliseconds from the due time to the start', 5)),
    outcome: Type.Enum(['delivered', 'failed'], { description: 'how the attempt ended' }),
    status: nullable('integer', { description: 'HTTP status; null without a reply', examples: [500] }),
    reason: nullable('string', { description: 'why it failed; null: delivered', examples: ['status'] }),
    replyExcerpt: text('start of the reply', 'internal error'),
    notifier: text('process that made the attempt', 'dq-notifier-0'),
    host: text('machine of that process', 'worker-1'),
    traceparent: Type.Optional(
      text(
        'trace context that the request carried; absent: the push brought none',
        '00-4bf92f3577b34da6a3ce929d0e0e4736-53995c3f42cd8ad8-01',
      ),
    ),
    detail: Type.Optional(
      text('the failure of a call without a whole reply', 'connect ECONNREFUSED 10.0.0.8:80'),
    ),
    ruleValues: Type.Optional(
      Type.Record(Type.String(), Type.String(), {
        description: 'reason `rule`: references of the retry rule, each with its value as JSON, shortened',
        examples: [{ '{res.code}': '500' }],
      }),
    ),
    replyHeaders: Type.Optional(
      Type.Array(Type.String(), {
        description: 'headers of the reply of a failed attempt, shortened, without cookies',
        examples: [['server: nginx/1.24.0']],
      }),
    ),
    nextDelayMs: Type.Optional(count('the wait that follows; absent: no attempt follows', 60_000)),
    nextBy: Type.Optional(Type.Enum(['backoff', 'retry_after'], { description: 'what decided nextDelayMs' })),
  },
  { title: 'Attempt' },
);

const Reason = Type.Object({
  code: Type.Enum([...capacityCodes], { description: 'as in the capacity of the topic' }),
  message: text('what holds the job', '64 of 64 calls run'),
  remedy: text('what to do', 'answer faster, or raise concurrency'),
});
const held = ['topic_paused', 'topic_offline', 'not_registered'];
const WhyJson = Type.Object(
  {
    code: Type.Enum([...whyCodes], {
      description:
        '`held`: another rule of the notifiers · `unknown`: no answer in time · `ahead`: other jobs go first',
    }),
    at: Type.Optional(instant('waits_until_due, waits_to_retry: when it is due; dead, ended: since when')),
    held: Type.Optional(Type.Enum(held, { description: 'it will be held when it is due' })),
    ahead: Type.Optional(
      nullable('integer', {
        description: 'ready jobs of its topic and priority that go first, at most 1,000; null: not counted',
        examples: [12],
      }),
    ),
    since: Type.Optional(
      nullable('string', { description: 'start of the running attempt', examples: [null] }),
    ),
    notifier: Type.Optional(
      nullable('string', {
        description: 'process that makes it; null: not known',
        examples: ['dq-notifier-0'],
      }),
    ),
    reasons: Type.Optional(Type.Array(Reason, { description: 'what the notifiers say' })),
  },
  { title: 'Why' },
);

/** Given with the push in place of the topic's; absent without one. */
const JobOptionsJson = {
  backoff: Type.Optional(
    Type.Unknown({ description: 'its own backoff, as of a topic', examples: [['15s', '3m']] }),
  ),
  deadline: Type.Optional(instant('no attempt starts later; the job is buried as `expired`')),
  lease: Type.Optional(text('its own lease, for a pull topic', '5m')),
  traceparent: Type.Optional(
    text('trace context of the push', '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'),
  ),
  tracestate: Type.Optional(text('with traceparent', 'vendor=value')),
};

export const Job = Type.Object(
  {
    topic: TopicName,
    id: JobId,
    version: Version,
    state: Type.Enum([...jobStates, ...endStates], {
      description: `state of the job; for the time of the option history.retention also ${endStates.join(', ')}`,
    }),
    dueAt: DueAt,
    createdAt: CreatedAt,
    deadAt: Type.Optional(instant('when the job died; only for dead jobs')),
    buryReason: Type.Optional(DeadReason),
    alert: Type.Optional(
      nullable('string', {
        description: 'state of the mail about its death, as in /v1/alerts; null: none; only for dead jobs',
        examples: ['sent'],
      }),
    ),
    endedAt: Type.Optional(instant('when the job ended; absent while it is stored')),
    keptUntil: Type.Optional(
      instant('dead: dead.retention, ended: history.retention; dq removes the job later than this'),
    ),
    attempt: FinishedAttempts,
    maxAttempts: nullable('integer', {
      description: 'maxAttempts of the job, or of the topic; null without the topic',
      examples: [10],
    }),
    ...JobOptionsJson,
    why: WhyJson,
    webhookId: text('header webhook-id of each of its callbacks', 'msg_0123456789abcdefghijklmno'),
    strikes: Type.Optional(count('leases that dead or silent notifiers lost since the last attempt', 0)),
    shard: Type.Optional(
      nullable('string', {
        description: 'id of its shard; null: one of several; absent: the embedded store',
        examples: ['0f1e2d3c4b5a6978'],
      }),
    ),
    nextAttempts: Type.Optional(
      Type.Array(Type.Object({ attempt: number, at: instant('the earliest time, if those before fail') }), {
        maxItems: limits.plannedMax,
        description: `the next ${limits.plannedMax} attempts at most; absent without the topic`,
      }),
    ),
    contentType: Type.Optional(
      nullable('string', {
        description: 'content type of the body; null: the push had none',
        examples: ['application/json'],
      }),
    ),
    bytes: Type.Optional(count('bytes of the body', 14)),
    body: Type.Optional(text('the body, if it is UTF-8; absent after the end of the job', '{"order":4711}')),
    bodyBase64: Type.Optional(text('the body in base64, if it is not UTF-8', '/w==')),
    attempts: Type.Array(Attempt, {
      maxItems: limits.attemptsKept,
      description: `the last ${limits.attemptsKept} attempts`,
    }),
  },
  { title: 'Job' },
);

export function traceJson(trace: TraceContext): {
  readonly traceparent: string;
  readonly tracestate?: string;
} {
  const { state } = trace;
  return { traceparent: parentOf(trace), ...(state === '' ? {} : { tracestate: state }) };
}

const backoffField = topicFields.backoff;

function optionsJson({ backoff, deadline, leaseMs, trace }: JobOptions): object {
  return {
    ...(backoff === undefined ? {} : { backoff: backoffField.print?.(backoff) ?? backoff }),
    ...(deadline === undefined ? {} : { deadline: formatInstant(deadline) }),
    ...(leaseMs === undefined ? {} : { lease: formatDuration(leaseMs) }),
    ...(trace === undefined ? {} : traceJson(trace)),
  };
}

/** What belongs to the job, beside its record. */
export interface JobFacts {
  /** of a dead letter; null: none; undefined: not read */
  readonly alert: AlertEntry['state'] | null | undefined;
  readonly maxAttempts: number | null;
  readonly options: JobOptions;
  readonly why: Why;
  /** null: the topic is not registered */
  readonly planned: readonly PlannedAttempt[] | null;
  /** undefined: the embedded store */
  readonly shard: string | null | undefined;
  /** of a dead or ended job; null: of another one */
  readonly keptUntil: number | null;
}

export function jobJson(
  job: JobSnapshot | EndedJob,
  { alert, maxAttempts, options, why, planned, shard, keptUntil }: JobFacts,
): object {
  const head = {
    ...jobHead(job),
    ...('endedAt' in job ? { endedAt: formatInstant(job.endedAt) } : {}),
    ...(keptUntil === null ? {} : { keptUntil: formatInstant(keptUntil) }),
    maxAttempts,
    ...optionsJson(options),
    why: whyJson(why),
    webhookId: webhookIdOf(job),
  };
  if ('endedAt' in job) return { ...head, attempts: job.attempts.map((one) => attemptJson(one, job)) };
  const { deadAt, buryReason, strikes, contentType, body } = job;
  return {
    ...head,
    ...(deadAt === null ? {} : { deadAt: formatInstant(deadAt) }),
    ...(buryReason === null ? {} : { buryReason }),
    ...(alert === undefined ? {} : { alert }),
    strikes,
    ...(shard === undefined ? {} : { shard }),
    ...(planned === null
      ? {}
      : { nextAttempts: planned.map(({ attempt, at }) => ({ attempt, at: formatInstant(at) })) }),
    contentType,
    bytes: body.length,
    ...bodyJson(body),
    attempts: job.attempts.map((one) => attemptJson(one, job)),
  };
}

/** The bytes as a member: `body` if they are UTF-8, else `bodyBase64`. */
export function bodyJson(body: Buffer): { readonly body: string } | { readonly bodyBase64: string } {
  return isUtf8(body) ? { body: body.toString('utf8') } : { bodyBase64: body.toString('base64') };
}

function whyJson({ at, since, ahead, ...rest }: Why): object {
  return {
    ...rest,
    ...(at === undefined ? {} : { at: formatInstant(at) }),
    ...(ahead === undefined ? {} : { ahead }),
    ...(since === undefined ? {} : { since: since === null ? null : formatInstant(since) }),
  };
}

export function attemptJson(attempt: AttemptRecord, { dueAt }: { readonly dueAt: number }): object {
  // A successful attempt ends the job, so the due time is still the one that it started for.
  const latenessMs =
    attempt.outcome === 'delivered' ? Math.max(0, attempt.startedAt - dueAt) : attempt.latenessMs;
  return {
    attempt: attempt.attempt,
    startedAt: formatInstant(attempt.startedAt),
    durationMs: attempt.durationMs,
    latenessMs,
    outcome: attempt.outcome,
    status: attempt.status,
    reason: attempt.reason,
    replyExcerpt: attempt.replyExcerpt,
    notifier: attempt.notifier,
    host: attempt.host,
    traceparent: attempt.traceparent,
    detail: attempt.detail,
    ruleValues: attempt.ruleValues,
    replyHeaders: attempt.replyHeaders,
    nextDelayMs: attempt.nextDelayMs,
    nextBy: attempt.nextBy,
  };
}
