// How both stores and the journal write words and numbers, and the attempt of most jobs. A word is its
// position in its list of job.ts. Versions and other numbers of up to 53 bits are seven bytes, big endian.
// Nearly every job is delivered by its first attempt, so constant parts of that attempt are not stored: field
// names, number, outcome (60 bytes instead of 190; a JSON list takes 70).

import type { AttemptRecord } from './job.ts';
import { limits } from './limits.ts';

export {
  alertStates as alertCodes,
  deadReasons as deadReasonCodes,
  endStates as endCodes,
  jobStates as stateCodes,
  priorities as priorityCodes,
} from './job.ts';

/** Reads a number of at most 2^53. */
export function readSafe(bytes: Buffer, at: number): number {
  return bytes.readUInt8(at) * 2 ** 48 + bytes.readUIntBE(at + 1, 6);
}

/** Writes such a number, and returns the offset after it. */
export function writeSafe(bytes: Buffer, at: number, number: number): number {
  const high = Math.floor(number / 2 ** 48);
  return bytes.writeUIntBE(number - high * 2 ** 48, bytes.writeUInt8(high, at), 6);
}

/** A delivered first attempt: one line each for startedAt, durationMs, status (empty: null) and traceparent
 *  after a blank, notifier,  host; the rest is replyExcerpt. */
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
