// What a filter of dead letters says about the death and about the last attempt. Pure; the console and both
// kinds of calls, a page and an operation, decide by it.

import { lastAttemptOf } from './earlier-attempts.ts';
import type { AttemptReason, BuryReason, JobSnapshot } from './job.ts';

export interface DeadMarks {
  readonly reason?: BuryReason | undefined;
  readonly lastReason?: AttemptReason | undefined;
  /** of the last reply: `500`, a class `5xx`, or `none` */
  readonly status?: string | undefined;
}

/** Receivers also send statuses above 599, and dq records them. */
export const statusFilterPattern = '^([1-9]\\d\\d|[1-9]xx|none)$';

/** Without a mark every dead letter matches. */
export function hasMarks(
  { reason, lastReason, status }: DeadMarks,
  dead: Pick<JobSnapshot, 'buryReason' | 'attempts' | 'failures'>,
): boolean {
  const last = lastAttemptOf(dead);
  return (
    (reason === undefined || dead.buryReason === reason) &&
    (lastReason === undefined || last?.reason === lastReason) &&
    (status === undefined || isStatus(status, last?.status ?? null))
  );
}

/** `wanted`: a text of statusFilterPattern */
export function isStatus(wanted: string, status: number | null): boolean {
  const text = status === null ? 'none' : String(status);
  return text === wanted || (status !== null && wanted === `${text[0]}xx`);
}
