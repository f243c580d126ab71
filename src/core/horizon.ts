// The classes of the horizon: how waiting jobs are counted by their due times.

import { parseDuration } from './duration.ts';

/** Names of the classes, in order: overdue, then due within this time (and not within the one before), then
 *  later. The console labels its bars with them. */
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
