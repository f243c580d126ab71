// job-json.ts describes and builds what the API answers about one job: the job, its attempts, and why it is
// where it is.

import { isUtf8 } from 'node:buffer';
import type { AttemptJson, JobJson } from '../../contract/api/job.ts';
import { webhookIdOf } from '../../core/delivery.ts';
import { formatDuration, formatInstant, formatInstantOrNull } from '../../core/duration.ts';
import type { JobOptions } from '../../core/extension.ts';
import {
  type AttemptRecord,
  attemptsBeforeRequeue,
  type EndedJob,
  type FoundJob,
  firstDueAt,
  type JobSnapshot,
} from '../../core/job.ts';
import type { Why } from '../../core/job-why.ts';
import type { PlannedAttempt } from '../../core/retry-policy.ts';
import { printBackoff } from '../../core/topic/backoff.ts';
import { parentOf, type TraceContext } from '../../core/trace-context.ts';
import type { AlertEntry, JobStore } from '../../ports/job-store.ts';
import { jobHead } from '../../use-cases/find-job.ts';
import type { Sent } from '../api-context.ts';

export function traceJson(trace: TraceContext): {
  readonly traceparent: string;
  readonly tracestate?: string;
} {
  const { state } = trace;
  return { traceparent: parentOf(trace), ...(state === '' ? {} : { tracestate: state }) };
}

function optionsJson({ backoff, deadline, leaseMs, trace, again }: JobOptions) {
  return {
    ...(again === undefined ? {} : { again }),
    ...(backoff === undefined ? {} : { backoff: printBackoff(backoff) }),
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
): Sent<JobJson> {
  const head = {
    ...jobHead(job),
    ...firstDueJson(job),
    ...('endedAt' in job ? { endedAt: formatInstant(job.endedAt) } : {}),
    ...(keptUntil === null ? {} : { keptUntil: formatInstant(keptUntil) }),
    maxAttempts,
    ...optionsJson(options),
    why: whyJson(why),
    webhookId: webhookIdOf(job),
  };
  const attempts = attemptsJson(job);
  if ('endedAt' in job) return { ...head, attempts };
  const { deadAt, deadReason, strikes, contentType, body } = job;
  return {
    ...head,
    ...(deadAt === null ? {} : { deadAt: formatInstant(deadAt) }),
    ...(deadReason === null ? {} : { deadReason }),
    ...(alert === undefined ? {} : { alert }),
    strikes,
    ...(shard === undefined ? {} : { shard }),
    ...(planned === null
      ? {}
      : { nextAttempts: planned.map(({ attempt, at }) => ({ attempt, at: formatInstant(at) })) }),
    contentType,
    bytes: body.length,
    ...bodyJson(body),
    attempts,
  };
}

/** Of a job with a failed attempt. */
function firstDueJson(job: Pick<JobSnapshot, 'attempts' | 'failures' | 'dueAt'>) {
  if (job.failures === 0) return {};
  const at = firstDueAt(job);
  return { firstDueAt: formatInstantOrNull(at) };
}

/** When a job that a search found is due, and was first. */
export async function dueJson(jobs: Pick<JobStore, 'get'>, found: FoundJob) {
  const job = found.failures === 0 ? null : await jobs.get(found, 'bodiless').catch(() => null);
  const first = job === null || job.version !== found.version ? {} : firstDueJson(job);
  return { id: found.id, dueAt: formatInstant(found.dueAt), ...first };
}

function attemptsJson(job: JobSnapshot | EndedJob): Sent<JobJson>['attempts'] {
  const earlier = attemptsBeforeRequeue(job.attempts, job.failures);
  return job.attempts.map((one, n) => ({
    ...attemptJson(one, job),
    ...(n < earlier ? { beforeRequeue: true } : {}),
  }));
}

/** The bytes as a member: `body` if they are UTF-8, else `bodyBase64`. */
export function bodyJson(body: Buffer): { readonly body: string } | { readonly bodyBase64: string } {
  return isUtf8(body) ? { body: body.toString('utf8') } : { bodyBase64: body.toString('base64') };
}

function whyJson({ at, since, ahead, likelyAt, ...rest }: Why) {
  return {
    ...rest,
    ...(at === undefined ? {} : { at: formatInstant(at) }),
    ...(ahead === undefined ? {} : { ahead }),
    ...(likelyAt === undefined ? {} : { likelyAt: formatInstant(likelyAt) }),
    ...(since === undefined ? {} : { since: formatInstant(since) }),
  };
}

export function attemptJson(
  attempt: AttemptRecord,
  { dueAt }: { readonly dueAt: number },
): Sent<AttemptJson> {
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
