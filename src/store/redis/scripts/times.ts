// Delays and times as the scripts take them: whole ms, never before what was said, and small enough for their six bytes.

import type { When } from '../../../ports/job-store.ts';

/** Six bytes, in the year 10889; the API refuses less (limits.delayMsMax). */
const dueMax = 2 ** 48 - 1;

export function wholeMs(delayMs: number): number {
  const ms = Math.max(0, Math.ceil(delayMs));
  if (!(ms <= dueMax / 2)) throw new Error(`no delay: ${String(delayMs)}`);
  return ms;
}

/** `from`: ms count from now (d), or are epoch ms (a). */
export function timeOf(when: When): { readonly from: 'd' | 'a'; readonly ms: number } {
  if ('delayMs' in when) return { from: 'd', ms: wholeMs(when.delayMs) };
  if (!(when.at <= dueMax)) throw new Error(`no time to be due at: ${String(when.at)}`);
  return { from: 'a', ms: Math.max(0, Math.ceil(when.at)) };
}
