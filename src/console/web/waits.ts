// The waits between the attempts of a topic, from its backoff as the API prints it. The unit of 2n+1 is the
// option retry.unit, whose default the page assumes.

import type { TopicJson } from './api/types.ts';

const unitMs: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** "1h30m" → ms; null for another text. */
export function durationMs(text: string): number | null {
  if (text === '0') return 0;
  if (!/^(\d+(ms|s|m|h|d))+$/.test(text)) return null;
  let total = 0;
  for (const [, count, unit] of text.matchAll(/(\d+)(ms|s|m|h|d)/g))
    total += Number(count) * (unitMs[unit ?? ''] ?? 0);
  return total;
}

/** One wait less than attempts: the wait after attempt 1, 2, … in ms, without jitter. */
export function waitsOf({ backoff, maxAttempts }: Pick<TopicJson, 'backoff' | 'maxAttempts'>): number[] {
  return Array.from({ length: Math.max(0, maxAttempts - 1) }, (_, failures) => waitMs(backoff, failures));
}

function waitMs(backoff: TopicJson['backoff'], failures: number): number {
  if (typeof backoff === 'string') return (2 * failures + 1) * 60_000;
  if (Array.isArray(backoff)) {
    const steps: readonly string[] = backoff;
    return durationMs(steps[Math.min(failures, steps.length - 1)] ?? '') ?? 0;
  }
  // While it is typed a formula can lack members.
  const { base = '', factor = 1, cap = '' } = backoff as { base?: string; factor?: number; cap?: string };
  return Math.min(durationMs(cap) ?? 0, (durationMs(base) ?? 0) * factor ** failures);
}
