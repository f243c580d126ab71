// Converts delays and times for the scripts: whole ms, rounded up, at most six bytes.

import { latestEpochMs } from '../../../core/duration.ts';
import type { When } from '../../../ports/job-store.ts';

export function wholeMs(delayMs: number): number {
  const ms = Math.max(0, Math.ceil(delayMs));
  // Half: the script adds its clock, and six bytes hold the sum. The API allows less (limits.delayMsMax).
  if (!(ms <= latestEpochMs / 2)) throw new Error(`invalid delay: ${String(delayMs)}`);
  return ms;
}

/** `from`: d = ms is a delay, a = ms is an epoch */
export function timeOf(when: When): { readonly from: 'd' | 'a'; readonly ms: number } {
  if ('delayMs' in when) return { from: 'd', ms: wholeMs(when.delayMs) };
  if (!(when.at <= latestEpochMs)) throw new Error(`invalid due time: ${String(when.at)}`);
  return { from: 'a', ms: Math.max(0, Math.ceil(when.at)) };
}
