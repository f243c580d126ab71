// A schedule: its record in the registry, its instants, what follows from a missed one, and what a change
// does to an instant that is due. Pure. cron.ts has the rules of cron expressions. `every` counts from the
// creation of the schedule, in real time: it knows no zone.

import { type Cron, cronAfter, cronUntil, parseCron, trimCron } from './cron.ts';
import { formatDuration, type Parsed, wrong } from './duration.ts';
import { limits } from './limits.ts';
import { tokenNamePattern } from './token.ts';

interface ScheduleTimes {
  /** null: `everyMs` */
  readonly cron: string | null;
  /** null: `cron` */
  readonly everyMs: number | null;
  /** IANA name */
  readonly timezone: string;
  /** epoch ms, from which `every` counts */
  readonly createdAt: number;
}

/** Times that a change replaced. */
interface EarlierTimes extends ScheduleTimes {
  readonly isPaused: boolean;
  /** of the jobs of their instants */
  readonly topic: string;
  /** epoch ms of the change: their last instant is at or before it */
  readonly until: number;
}

/** The times of a schedule, with earlier ones, the oldest first. */
interface TimesInForce extends ScheduleTimes {
  readonly isPaused: boolean;
  readonly earlier: readonly EarlierTimes[];
  /** the latest instant whose job was made; null: none was */
  readonly madeAt: number | null;
}

export type MissedTicks = 'skip' | 'last';

/** The expression in its stored form. `now`: an instant must follow. */
export function readCron(text: string, now: number): Parsed<string> {
  const cron = trimCron(text);
  const parsed = parseCron(cron);
  if (!parsed.ok) return parsed;
  return cronAfter(parsed.value, 'UTC', now) === null
    ? wrong('has no instant in the next 8 years')
    : { ok: true, value: cron };
}

/** The first instant after this one, epoch ms; null: none. Throws on times that dq cannot compute. */
export function nextTick(
  { cron, everyMs, timezone, createdAt }: ScheduleTimes,
  after: number,
): number | null {
  if (everyMs === null) return cronAfter(cronOf(cron), timezone, after);
  // Also before the creation: a clock that was ahead may have written its time.
  return createdAt + everyMs * (Math.floor((after - createdAt) / everyMs) + 1);
}

/** The last instant at or before this one; null: none. Throws on times that dq cannot compute. */
export function lastTick(
  { cron, everyMs, timezone, createdAt }: ScheduleTimes,
  until: number,
): number | null {
  if (everyMs === null) return cronUntil(cronOf(cron), timezone, until);
  return createdAt + everyMs * Math.floor((until - createdAt) / everyMs);
}

function cronOf(text: string | null): Cron {
  const parsed = parseCron(text ?? '');
  if (parsed.ok) return parsed.value;
  throw new RangeError(`cron: ${parsed.message}`);
}

/** The next instants after this one. */
export function nextTicks(times: ScheduleTimes, after: number, count: number): readonly number[] {
  const ticks: number[] = [];
  for (let at = nextTick(times, after); at !== null && ticks.length < count; at = nextTick(times, at))
    ticks.push(at);
  return ticks;
}

export interface TickPlan {
  /** the instant whose job is to be made now; null: none */
  readonly make: number | null;
  /** the next one to wait for; null: none follows */
  readonly nextAt: number | null;
  /** the instant was made long ago: none was missed */
  readonly wasMade?: true;
}

/** What follows at `now` from `dueAt`, the instant that was waited for. An instant more than
 *  limits.tickLateMs ago was missed. */
export function planTick(times: TimesInForce, missed: MissedTicks, dueAt: number, now: number): TickPlan {
  if (dueAt > now) return { make: null, nextAt: dueAt };
  const parts = partsOf(times, now);
  if (now - dueAt <= limits.tickLateMs) return { make: dueAt, nextAt: nextOf(parts, dueAt) };
  // A clock that was behind led back to instants that are made, or older than the schedule. Their jobs may be
  // forgotten by now.
  const known = [times.madeAt, times.createdAt].filter((at) => at !== null && at <= now) as number[];
  const settled = Math.max(...known, Number.NEGATIVE_INFINITY);
  if (dueAt <= settled) {
    const nextAt = nextOf(parts, settled);
    return nextAt === null || nextAt > now
      ? { make: null, nextAt, wasMade: true }
      : planTick(times, missed, nextAt, now);
  }
  const last = Math.max(dueAt, lastOf(parts, now) ?? dueAt);
  const isMade = missed === 'last' || now - last <= limits.tickLateMs;
  return { make: isMade ? last : null, nextAt: nextOf(parts, last) };
}

/** The right next instant, where the stored one is further ahead than the times allow at `now`, by more than
 *  limits.tickLateMs: a clock that was ahead computed it. null: the stored one is right, as is one that is
 *  due. */
export function misplacedTick(
  times: TimesInForce & { readonly nextAt: number | null },
  now: number,
): { readonly nextAt: number | null } | null {
  if (times.nextAt === null || times.nextAt <= now) return null;
  const right = nextOf(partsOf(times, now), now);
  return right !== null && times.nextAt <= right + limits.tickLateMs ? null : { nextAt: right };
}

/** Its instants are after `from` and at or before `until`. */
interface Part {
  /** null: paused */
  readonly times: ScheduleTimes | null;
  readonly from: number;
  readonly until: number;
}

/** `now`: a change of a later time was written by a clock that has gone back since. */
function partsOf({ isPaused, earlier, ...times }: TimesInForce, now: number): readonly Part[] {
  const parts: Part[] = [];
  let from = Number.NEGATIVE_INFINITY;
  for (const part of earlier) {
    const until = Math.min(part.until, now);
    parts.push({ times: part.isPaused ? null : part, from, until });
    from = until;
  }
  return [...parts, { times: isPaused ? null : times, from, until: Number.POSITIVE_INFINITY }];
}

function nextOf(parts: readonly Part[], after: number): number | null {
  for (const { times, from, until } of parts) {
    if (times === null || until <= after) continue;
    const at = nextTick(times, Math.max(after, from));
    if (at !== null && at <= until) return at;
  }
  return null;
}

function lastOf(parts: readonly Part[], at: number): number | null {
  for (const { times, from, until } of parts.toReversed()) {
    const last = times === null ? null : lastTick(times, Math.min(at, until));
    if (last !== null && last > from) return last;
  }
  return null;
}

export function readEvery(ms: number): Parsed<number> {
  const { scheduleEveryMsMin: min, delayMsMax: max } = limits;
  return ms >= min && ms <= max
    ? { ok: true, value: ms }
    : wrong(`must be from ${formatDuration(min)} to ${formatDuration(max)}`);
}

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
