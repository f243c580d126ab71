// retry-policy.ts computes how long a failed job waits (the topic's backoff, Retry-After, jitter), and when
// the next attempts of a job are due if each of them fails. Pure: takes random numbers and times. A wait is
// whole milliseconds and never shorter than planned.

import type { JobSnapshot } from './job.ts';
import { limits } from './limits.ts';
import type { Backoff } from './topic/backoff.ts';
import type { Topic } from './topic/topic.ts';

/** The wait from the end of a failed attempt. `failures`: failed attempts before it. `random`: 0 ≤ x < 1.
 *  `atLeastMs`: Retry-After of the receiver. Jitter is a share of the longer of both, and only adds. */
export function retryDelayMs(
  policy: Pick<Topic, 'backoff' | 'jitter'>,
  failures: number,
  retryUnitMs: number,
  random: () => number,
  atLeastMs = 0,
): number {
  const delayMs = Math.max(backoffMs(policy.backoff, failures, retryUnitMs), atLeastMs);
  return Math.ceil(delayMs + delayMs * policy.jitter * random());
}

/** The wait after failed attempt `failures` + 1, without jitter and Retry-After. */
export function backoffMs(backoff: Backoff, failures: number, retryUnitMs: number): number {
  switch (backoff.type) {
    case 'odd':
      return (2 * failures + 1) * retryUnitMs;
    case 'ladder':
      return backoff.stepsMs[Math.min(failures, backoff.stepsMs.length - 1)] ?? 0;
    case 'exponential':
      // Infinity × base becomes the cap. The base is never 0, so there is no NaN.
      return Math.min(backoff.capMs, backoff.baseMs * backoff.factor ** failures);
  }
}

const httpDatePatterns = [
  /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/,
  // The two obsolete forms that RFC 9110 (5.6.7) requires a recipient to read.
  /^[A-Z][a-z]{5,8}, \d{2}-[A-Z][a-z]{2}-\d{2} \d{2}:\d{2}:\d{2} GMT$/,
  /^[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d{2}:\d{2}:\d{2} \d{4}$/,
];

/** Returns epoch ms, or null for any other text. Date.parse alone reads "-5" and "2" as dates. */
function parseHttpDate(text: string): number | null {
  if (!httpDatePatterns.some((pattern) => pattern.test(text))) return null;
  const epochMs = Date.parse(text.endsWith('GMT') ? text : `${text} GMT`);
  return Number.isNaN(epochMs) ? null : epochMs;
}

/** The wait that a Retry-After requests, at most limits.retryAfterMsMax. null: absent, negative, in the
 *  past, garbage. A date counts from the reply's own Date, because the receiver's clock can be wrong;
 *  without one, from `nowMs`. */
export function retryAfterMs(value: string | null, replyDate: string | null, nowMs: number): number | null {
  const text = value?.trim() ?? '';
  if (/^\d+$/.test(text)) return Math.min(Number(text) * 1000, limits.retryAfterMsMax);
  const untilAt = parseHttpDate(text);
  if (untilAt === null) return null;
  const waitMs = untilAt - (parseHttpDate(replyDate?.trim() ?? '') ?? nowMs);
  return waitMs < 0 ? null : Math.min(waitMs, limits.retryAfterMsMax);
}

export interface PlannedAttempt {
  readonly attempt: number;
  /** epoch ms */
  readonly at: number;
}

/** The next attempts, if each of them fails: at most limits.plannedMax, none for a dead letter. Without
 *  jitter, Retry-After and the duration of the calls, so every time but the first is the earliest one. `now`:
 *  epoch ms by the storage clock. */
export function plannedAttempts(
  job: Pick<JobSnapshot, 'state' | 'dueAt' | 'failures'>,
  topic: Pick<Topic, 'backoff' | 'maxAttempts'>,
  retryUnitMs: number,
  now: number,
): readonly PlannedAttempt[] {
  if (job.state === 'dead') return [];
  const wait = (failures: number) => backoffMs(topic.backoff, failures, retryUnitMs);
  const planned: PlannedAttempt[] = [];
  let attempt = job.failures + 1;
  let at = Math.max(job.dueAt, now);
  if (job.state === 'reserved') {
    at += wait(job.failures);
    attempt += 1;
  }
  while (attempt <= topic.maxAttempts && planned.length < limits.plannedMax) {
    planned.push({ attempt, at });
    at += wait(attempt - 1);
    attempt += 1;
  }
  return planned;
}
