// Encodes the attempt of a job that its first attempt delivered, for both stores. Nearly every job is such a
// job, so constant parts are not stored: field names, number, outcome (60 bytes instead of 190; a JSON list
// takes 70).

import type { AttemptRecord } from '../core/job.ts';
import { limits } from '../core/limits.ts';

/** One line each for startedAt, durationMs, status (empty: null) and traceparent after a blank, notifier,
 *  host; the rest is replyExcerpt. */
export function packFirstAttempt(attempt: AttemptRecord): string {
  const { startedAt, durationMs, status, traceparent, notifier, host, replyExcerpt } = attempt;
  const trace = traceparent === undefined ? '' : ` ${traceparent}`;
  return `${startedAt}\n${durationMs}\n${status ?? ''}${trace}\n${notifier}\n${host}\n${replyExcerpt}`;
}

/** Attempts of a job that its first attempt delivered: those before its requeue, then this one. */
export const withFirstAttempt = (
  earlier: readonly AttemptRecord[],
  lines: string,
): readonly AttemptRecord[] => [...earlier, readFirstAttempt(lines)].slice(-limits.attemptsKept);

function readFirstAttempt(lines: string): AttemptRecord {
  const [startedAt, durationMs, third = '', notifier = '', host = '', ...reply] = lines.split('\n');
  const [status, traceparent] = third.split(' ');
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
    ...(traceparent === undefined ? {} : { traceparent }),
  };
}
