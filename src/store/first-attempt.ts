// The only attempt of a job that was delivered at once, as both stores keep it. Nearly every job is: nothing is kept that is the same
// of all of them, neither names of fields nor number nor outcome (some 60 bytes in place of 190; a JSON list takes 70).

import type { AttemptRecord } from '../core/job.ts';

/** A line each for startedAt, durationMs, status ('' = none), notifier and host, and what follows them is replyExcerpt. */
export function packFirstAttempt(attempt: AttemptRecord): string {
  const { startedAt, durationMs, status, notifier, host, replyExcerpt } = attempt;
  return `${startedAt}\n${durationMs}\n${status ?? ''}\n${notifier}\n${host}\n${replyExcerpt}`;
}

export function readFirstAttempt(lines: string): AttemptRecord {
  const [startedAt, durationMs, status = '', notifier = '', host = '', ...reply] = lines.split('\n');
  return {
    attempt: 1,
    startedAt: Number(startedAt),
    durationMs: Number(durationMs),
    outcome: 'delivered',
    reason: null,
    status: status === '' ? null : Number(status),
    replyExcerpt: reply.join('\n'),
    notifier,
    host,
  };
}
