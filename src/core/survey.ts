// What surveys and filters of jobs decide by: the marks of a death and of its last attempt, and the classes
// of due times. Pure: a page of dead letters, an operation and a survey decide alike.

import { parseDuration } from './duration.ts';
import {
  type AttemptReason,
  type AttemptRecord,
  type DeadReason,
  type JobSnapshot,
  lastAttemptOf,
} from './job.ts';

/** What a filter says about a death and about its last attempt. */
export interface DeadMarks {
  readonly deadReason?: DeadReason | undefined;
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
  dead: Pick<JobSnapshot, 'deadReason' | 'attempts' | 'failures'>,
): boolean {
  return fitsMarks(marks, dead.deadReason, lastAttemptOf(dead));
}

/** Without a mark every dead letter matches. */
export function fitsMarks(
  { deadReason, lastReason, status }: DeadMarks,
  died: DeadReason | null,
  last: Pick<AttemptRecord, 'reason' | 'status'> | null,
): boolean {
  return (
    (deadReason === undefined || died === deadReason) &&
    (lastReason === undefined || (last?.reason ?? 'none') === lastReason) &&
    (status === undefined || isStatus(status, last?.status ?? null))
  );
}

/** `wanted`: a text of statusFilterPattern */
function isStatus(wanted: string, status: number | null): boolean {
  const text = status === null ? 'none' : String(status);
  return text === wanted || (status !== null && wanted === `${text[0]}xx`);
}

/** The horizon counts waiting jobs by their due times. Names of its classes, in order: overdue, then due
 *  within this time (and not within the one before), then later. The console labels its bars with them. */
export const horizonClasses = [
  'overdue',
  '1m',
  '5m',
  '15m',
  '1h',
  '3h',
  '6h',
  '12h',
  '1d',
  '3d',
  '7d',
  '30d',
  'later',
] as const;

/** Ends of all classes but the last, ms from now: a class holds end of the one before < dueAt ≤ its end. A
 *  job that is due now is overdue: promote moves it. */
export const horizonEndsMs: readonly number[] = horizonClasses.slice(0, -1).map((name) => {
  const parsed = parseDuration(name === 'overdue' ? 0 : name);
  return parsed.ok ? parsed.value : Number.NaN;
});
