// How long a failed job waits (callback.md, "Retries"): the topic's backoff, Retry-After, jitter; and how a user writes a
// backoff. Pure: takes random numbers and times, owns no clock. A wait is whole milliseconds, and never shorter than planned.

import { formatDuration, type Parsed, parseDuration } from './duration.ts';
import { limits } from './limits.ts';
import type { Backoff, Topic } from './topic/topic.ts';

/** The wait from the end of an attempt that failed. `failures`: failed attempts before it. `random`: 0 ≤ x < 1.
 *  `atLeastMs`: what the receiver asked for. Jitter is a share of the longer of both, and only ever adds. */
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

function backoffMs(backoff: Backoff, failures: number, retryUnitMs: number): number {
  switch (backoff.type) {
    case 'odd':
      return (2 * failures + 1) * retryUnitMs;
    case 'ladder':
      return backoff.stepsMs[Math.min(failures, backoff.stepsMs.length - 1)] ?? 0;
    case 'exponential':
      // Infinity × base is still cut to the cap; base is never 0, so no NaN comes of it.
      return Math.min(backoff.capMs, backoff.baseMs * backoff.factor ** failures);
  }
}

const httpDatePatterns = [
  /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/,
  // The two obsolete forms, which RFC 9110 (5.6.7) still asks a recipient to read.
  /^[A-Z][a-z]{5,8}, \d{2}-[A-Z][a-z]{2}-\d{2} \d{2}:\d{2}:\d{2} GMT$/,
  /^[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d{2}:\d{2}:\d{2} \d{4}$/,
];

/** Epoch ms, or null. Date.parse alone takes "-5" and "2" for dates. */
function parseHttpDate(text: string): number | null {
  if (!httpDatePatterns.some((pattern) => pattern.test(text))) return null;
  const epochMs = Date.parse(text.endsWith('GMT') ? text : `${text} GMT`);
  return Number.isNaN(epochMs) ? null : epochMs;
}

/** What a Retry-After asks for, at most limits.retryAfterMsMax; null where it asks for nothing that can be used: absent,
 *  negative, in the past, garbage. A date counts from the reply's own Date, so the receiver's clock may be wrong; only
 *  without one from `nowMs`. */
export function retryAfterMs(value: string | null, replyDate: string | null, nowMs: number): number | null {
  const text = value?.trim() ?? '';
  if (/^\d+$/.test(text)) return Math.min(Number(text) * 1000, limits.retryAfterMsMax);
  const untilAt = parseHttpDate(text);
  if (untilAt === null) return null;
  const waitMs = untilAt - (parseHttpDate(replyDate?.trim() ?? '') ?? nowMs);
  return waitMs < 0 ? null : Math.min(waitMs, limits.retryAfterMsMax);
}

const refuse = (message: string) => ({ ok: false, message }) as const;

/** `"2n+1"`, a list of durations, or `{"type":"exponential","base","factor","cap"}`. */
export function parseBackoff(input: unknown): Parsed<Backoff> {
  if (input === '2n+1') return { ok: true, value: { type: 'odd' } };
  if (Array.isArray(input)) return parseLadder(input);
  if (typeof input === 'object' && input !== null) return parseExponential(input);
  return refuse(
    'must be "2n+1", a list of durations such as ["15s","3m","1h"], or {"type":"exponential","base":"10s","factor":2,"cap":"1h"}',
  );
}

function parseLadder(input: readonly unknown[]): Parsed<Backoff> {
  if (input.length < 1 || input.length > limits.backoffStepsMax)
    return refuse(`must have 1 to ${limits.backoffStepsMax} steps`);
  const stepsMs: number[] = [];
  for (const [index, step] of input.entries()) {
    const parsed = parseWait(step);
    if (!parsed.ok) return refuse(`step ${index + 1} ${parsed.message}`);
    stepsMs.push(parsed.value);
  }
  return { ok: true, value: { type: 'ladder', stepsMs } };
}

function parseExponential(input: object): Parsed<Backoff> {
  const { type, base, factor, cap, ...unknown } = input as Record<string, unknown>;
  const [stranger] = Object.keys(unknown);
  if (stranger !== undefined) return refuse(`has an unknown member ${JSON.stringify(stranger)}`);
  if (type !== 'exponential') return refuse('must have "type":"exponential"');
  const baseMs = parseWait(base);
  if (!baseMs.ok) return refuse(`base ${baseMs.message}`);
  if (baseMs.value === 0) return refuse('base must be at least 1ms');
  const capMs = parseWait(cap);
  if (!capMs.ok) return refuse(`cap ${capMs.message}`);
  if (capMs.value < baseMs.value) return refuse('cap must not be shorter than base');
  if (typeof factor !== 'number' || !(factor >= 1 && factor <= limits.backoffFactorMax))
    return refuse(`factor must be a number from 1 to ${limits.backoffFactorMax}`);
  return { ok: true, value: { type: 'exponential', baseMs: baseMs.value, factor, capMs: capMs.value } };
}

function parseWait(input: unknown): Parsed<number> {
  const parsed = parseDuration(input);
  if (parsed.ok && parsed.value > limits.backoffStepMsMax)
    return refuse(`must not be longer than ${formatDuration(limits.backoffStepMsMax)}`);
  return parsed;
}

/** As the API shows it; parseBackoff reads it back. */
export function formatBackoff(backoff: Backoff): unknown {
  switch (backoff.type) {
    case 'odd':
      return '2n+1';
    case 'ladder':
      return backoff.stepsMs.map(formatDuration);
    case 'exponential':
      return {
        type: 'exponential',
        base: formatDuration(backoff.baseMs),
        factor: backoff.factor,
        cap: formatDuration(backoff.capMs),
      };
  }
}
