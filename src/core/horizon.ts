// The classes of the horizon: how waiting jobs are counted by their due times.

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
export type HorizonClass = (typeof horizonClasses)[number];

const minute = 60_000;
const hour = 60 * minute;
const day = 24 * hour;

/** Ends of all classes but the last, ms from now: a class holds end of the one before < dueAt ≤ its end. A
 *  job that is due now is overdue: promote moves it. */
export const horizonEndsMs: readonly number[] = [
  0,
  minute,
  5 * minute,
  15 * minute,
  hour,
  3 * hour,
  6 * hour,
  12 * hour,
  day,
  3 * day,
  7 * day,
  30 * day,
];
