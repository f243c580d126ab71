// Computes the instants of a schedule, and what follows from a missed one. Pure. cron-parser reads cron
// expressions.
//
// Rules, with the local time of the schedule's zone:
//   a cron expression has 5 fields (minute hour day month weekday), or is @hourly @daily @weekly @monthly
//   @yearly. If day and weekday are both given, either one is enough, as in cron.
//   spring, a local time that does not exist: the instant is as long after midnight as without the change
//   (02:30 becomes 03:30).
//   autumn, a local time that exists twice: the first one. With `*` or `*/n` as the hour, both.
//   `every` counts from the creation of the schedule, in real time: it knows no zone.

import { CronExpressionParser } from 'cron-parser';
import { formatDuration, type Parsed } from './duration.ts';
import { limits } from './limits.ts';

export interface ScheduleTimes {
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
export interface EarlierTimes extends ScheduleTimes {
  readonly isPaused: boolean;
  /** of the jobs of their instants */
  readonly topic: string;
  /** epoch ms of the change: their last instant is at or before it */
  readonly until: number;
}

/** The times of a schedule, with earlier ones, the oldest first. */
export interface TimesInForce extends ScheduleTimes {
  readonly isPaused: boolean;
  readonly earlier: readonly EarlierTimes[];
}

export type MissedTicks = 'skip' | 'last';

const day = 86_400_000;
const names = ['@hourly', '@daily', '@weekly', '@monthly', '@yearly'];

/** The expression in its stored form. */
export function readCron(text: string): Parsed<string> {
  const cron = text.trim().replace(/\s+/g, ' ');
  if (!names.includes(cron) && cron.split(' ').length !== 5)
    return wrong(
      'must have 5 fields: minute hour day month weekday, such as 0 9 * * 1-5; or @hourly, @daily, @weekly, @monthly, @yearly',
    );
  // `H` is random, and the same text would be another schedule after a restart.
  if (/(^|[ ,])H/i.test(cron)) return wrong('must not contain H');
  try {
    const times = { cron, everyMs: null, timezone: 'UTC', createdAt: 0 };
    return nextTick(times, Date.UTC(2024, 0, 1)) === null
      ? wrong('has no instant in the next years')
      : { ok: true, value: cron };
  } catch (error) {
    return wrong(`is not a cron expression: ${(error as Error).message}`);
  }
}

/** The first instant after this one, epoch ms; null: none. */
export function nextTick(times: ScheduleTimes, after: number): number | null {
  const { cron, everyMs, createdAt } = times;
  if (everyMs !== null)
    return createdAt + everyMs * Math.max(1, Math.floor((after - createdAt) / everyMs) + 1);
  // On the day on which Lord Howe sets its clocks back by half an hour, cron-parser finds nothing, or an
  // instant before `after`. A later start finds the next one.
  for (let from = after; from <= after + day; from += day / 8) {
    const at = cronTick(cron ?? '', times.timezone, from, 'next');
    if (at !== null && at > after) return at;
  }
  return null;
}

/** The last instant at or before this one; null: none. */
export function lastTick(times: ScheduleTimes, until: number): number | null {
  const { cron, everyMs, createdAt } = times;
  if (everyMs === null) return cronTick(cron ?? '', times.timezone, until + 1, 'prev');
  const count = Math.floor((until - createdAt) / everyMs);
  return count < 1 ? null : createdAt + everyMs * count;
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
}

/** What follows at `now` from `dueAt`, the instant that was waited for. An instant more than
 *  limits.tickLateMs ago was missed. */
export function planTick(times: TimesInForce, missed: MissedTicks, dueAt: number, now: number): TickPlan {
  if (dueAt > now) return { make: null, nextAt: dueAt };
  const parts = partsOf(times, now);
  if (now - dueAt <= limits.tickLateMs) return { make: dueAt, nextAt: nextOf(parts, dueAt) };
  const last = Math.max(dueAt, lastOf(parts, now) ?? dueAt);
  const isMade = missed === 'last' || now - last <= limits.tickLateMs;
  return { make: isMade ? last : null, nextAt: nextOf(parts, last) };
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

export function readZone(name: string): Parsed<string> {
  try {
    return { ok: true, value: new Intl.DateTimeFormat('en', { timeZone: name }).resolvedOptions().timeZone };
  } catch {
    return wrong(`unknown time zone "${name}"; write an IANA name such as Asia/Shanghai`);
  }
}

function cronTick(cron: string, tz: string, from: number, way: 'next' | 'prev'): number | null {
  const expression = CronExpressionParser.parse(cron, { tz, currentDate: new Date(from) });
  try {
    return expression[way]().getTime();
  } catch {
    // No instant within the years that it searches.
    return null;
  }
}

const wrong = (message: string) => ({ ok: false, message }) as const;
