// What a filter of dead letters says about the death and about the last attempt. Pure; the console and both
// kinds of calls, a page and an operation, decide by it.

import { lastAttemptOf } from './earlier-attempts.ts';
import type { AttemptReason, AttemptRecord, BuryReason, JobSnapshot } from './job.ts';

export interface DeadMarks {
  readonly reason?: BuryReason | undefined;
  /** `none`: no attempt is stored */
  readonly lastReason?: AttemptReason | 'none' | undefined;
  /** of the last reply: `500`, a class `5xx`, or `none` */
  readonly status?: string | undefined;
}

/** Also the time of death, epoch ms: since ≤ deadAt < until. */
export interface DeadSelection extends DeadMarks {
  readonly since?: number;
  readonly until?: number;
}

/** Receivers also send statuses above 599, and dq records them. */
export const statusFilterPattern = '^([1-9]\\d\\d|[1-9]xx|none)$';

export function hasMarks(
  marks: DeadMarks,
  dead: Pick<JobSnapshot, 'buryReason' | 'attempts' | 'failures'>,
): boolean {
  return fitsMarks(marks, dead.buryReason, lastAttemptOf(dead));
}

/** Without a mark every dead letter matches. */
export function fitsMarks(
  { reason, lastReason, status }: DeadMarks,
  buryReason: BuryReason | null,
  last: Pick<AttemptRecord, 'reason' | 'status'> | null,
): boolean {
  return (
    (reason === undefined || buryReason === reason) &&
    (lastReason === undefined || (last?.reason ?? 'none') === lastReason) &&
    (status === undefined || isStatus(status, last?.status ?? null))
  );
}

/** `wanted`: a text of statusFilterPattern */
function isStatus(wanted: string, status: number | null): boolean {
  const text = status === null ? 'none' : String(status);
  return text === wanted || (status !== null && wanted === `${text[0]}xx`);
}
