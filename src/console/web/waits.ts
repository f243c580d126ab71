// The waits between the attempts of a topic, from its backoff as the API prints it. The unit of 2n+1 is the
// option retry.unit, whose default the page assumes.

import { parseDuration } from '../../core/duration.ts';
import type { TopicJson } from './api/types.ts';
import { duration } from './format.ts';
import { t } from './words/words.ts';

/** "1h30m" → ms; null for another text. */
export function durationMs(text: string): number | null {
  const parsed = parseDuration(text);
  return parsed.ok ? parsed.value : null;
}

/** "3d" of the API as all times of the page: "3 d" */
export function spoken(text: string): string {
  const ms = durationMs(text);
  if (ms === null) return text;
  return ms === 0 ? `0 ${t('unit_s')}` : duration(ms);
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
