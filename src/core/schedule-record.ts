// A schedule as the registry stores it, its work between two instants, and what a change does to an instant
// that is due.

import { limits } from './limits.ts';
import { type EarlierTimes, type MissedTicks, nextTick, type ScheduleTimes } from './schedule.ts';
import { tokenNamePattern } from './token.ts';

export const scheduleNamePattern = tokenNamePattern;

export interface ScheduleRecord extends ScheduleTimes {
  /** 1–64 characters of A-Z a-z 0-9 . _ - */
  readonly name: string;
  readonly topic: string;
  /** text, or base64 with `isBase64` */
  readonly body: string;
  readonly isBase64: boolean;
  readonly contentType: string | null;
  readonly missed: MissedTicks;
  readonly isPaused: boolean;
  /** rises with each change */
  readonly revision: number;
  readonly updatedAt: number;
}

export interface StoredSchedule extends ScheduleRecord {
  /** epoch ms; null: none follows, or paused. A paused one keeps the instant that was due before. */
  readonly nextAt: number | null;
  /** replaced while an instant of them was due, the oldest first; at most limits.earlierTimesMax */
  readonly earlier: readonly EarlierTimes[];
  /** the latest instant whose job was made, in the future where the clock was ahead; null: none was */
  readonly madeAt: number | null;
  /** why the last job was not made; null: it was */
  readonly problem: string | null;
}

/** An instant that is due, for the process that claimed it. */
export interface DueTick {
  readonly schedule: StoredSchedule;
  /** of `schedule.nextAt` */
  readonly dueAt: number;
  /** it was claimed before, or its schedule was changed: its job may exist already */
  readonly wasClaimed: boolean;
  /** epoch ms: the end of this claim */
  readonly claimedUntil: number;
}

/** The end of a claimed instant. */
export interface TickEnd {
  readonly name: string;
  readonly dueAt: number;
  readonly revision: number;
  /** of the claim; null: ends no claim */
  readonly claimedUntil: number | null;
  readonly nextAt: number | null;
  /** null: nothing was made; the earlier one stays */
  readonly madeAt: number | null;
  readonly problem: string | null;
}

interface ChangedTimes {
  readonly nextAt: number | null;
  readonly earlier: readonly EarlierTimes[];
  /** `nextAt` is the old one, with its claim */
  readonly isKept: boolean;
}

/** What a change at `now` does to the next instant. An instant that is due stays: only dq-upkeep can tell
 *  whether its job exists, and an instant that is dropped here would never get one. Its schedule keeps the
 *  earlier times for the instants before the change, and the earlier topic, where its job may be.
 *  `nextAt`: of the new times. null: instants of too many earlier times are due. */
export function changedTimes(
  old: StoredSchedule,
  record: ScheduleRecord,
  nextAt: number | null,
  now: number,
): ChangedTimes | null {
  const due = old.nextAt;
  // The others have no instant left.
  const earlier = due === null ? [] : old.earlier.filter(({ until }) => until >= due);
  const { cron, everyMs, timezone, createdAt, isPaused, topic } = old;
  const hasSameTimes =
    cron === record.cron &&
    everyMs === record.everyMs &&
    timezone === record.timezone &&
    isPaused === record.isPaused;
  const isDue = due !== null && due <= now;
  if (!isDue && hasSameTimes) return { nextAt: due, earlier, isKept: true };
  if (!isDue) return { nextAt: afterMade(old.madeAt, record, nextAt, now), earlier: [], isKept: false };
  if (hasSameTimes && topic === record.topic) return { nextAt: due, earlier, isKept: true };
  if (earlier.length >= limits.earlierTimesMax) return null;
  const replaced = { cron, everyMs, timezone, createdAt, isPaused, topic, until: now };
  return { nextAt: due, earlier: [...earlier, replaced], isKept: true };
}

/** `nextAt`, or the instant that follows the made one: the job of that may be in the replaced topic. A clock
 *  that was ahead made one that is far from `now`, which does not count. */
function afterMade(
  madeAt: number | null,
  record: ScheduleRecord,
  nextAt: number | null,
  now: number,
): number | null {
  if (madeAt === null || nextAt === null || nextAt > madeAt || madeAt > now + limits.tickLateMs)
    return nextAt;
  return nextTick(record, madeAt);
}
