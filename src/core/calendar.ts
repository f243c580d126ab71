// Days and clock times in the configured time zone: for statistics of "today", names of log files, and
// receivers that get times without an offset. Instants of wall times: for cron expressions, and requests and
// imports of php-delayqueue.

import { type Parsed, wrong } from './duration.ts';
import { limits } from './limits.ts';
import { unknownName } from './suggest.ts';

export interface Calendar {
  /** yyyymmdd of the instant (epoch ms) */
  dayOf(epochMs: number): number;
}

/** The instant (epoch ms) as text: `YYYY-MM-DD HH:mm:ss`, rounded down. */
export type Clock = (epochMs: number) => string;

/** Offsets of zones and their changes are multiples of 15 minutes, so the day is constant within such a slot
 *  of UTC. */
const slotMs = 15 * 60_000;
const dayMs = 86_400_000;
/** Its year has four digits in each zone. */
const lastMs = Date.UTC(9999, 11, 30);

const dayParts = { year: 'numeric', month: '2-digit', day: '2-digit' } as const;
const clockParts = {
  ...dayParts,
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  hourCycle: 'h23',
} as const;

type Parts = (type: Intl.DateTimeFormatPartTypes) => string;
type Format = (epochMs: number) => Parts;

/** A process needs the days and times of one time zone, and a format takes 0.2 ms to make. A format has no
 *  state. */
const lastFormats = new Map<object, { readonly timezone: string; readonly format: Format }>();

function formatOf(timezone: string, wanted: typeof dayParts | typeof clockParts): Format {
  const last = lastFormats.get(wanted);
  if (last?.timezone === timezone) return last.format;
  const made = new Intl.DateTimeFormat('en-u-ca-gregory-nu-latn', { timeZone: timezone, ...wanted });
  const format: Format = (epochMs) => {
    const parts = new Map(made.formatToParts(epochMs).map(({ type, value }) => [type, value]));
    return (type) => parts.get(type) ?? '';
  };
  lastFormats.set(wanted, { timezone, format });
  return format;
}

/** The name as it was written: its canonical one may be an older one, such as Asia/Calcutta. */
export function readZone(name: string): Parsed<string> {
  try {
    new Intl.DateTimeFormat('en', { timeZone: name });
    return { ok: true, value: name };
  } catch {
    const known = Intl.supportedValuesOf('timeZone');
    const remedy = 'write an IANA name such as Asia/Shanghai';
    return wrong(unknownName(`time zone "${name}"`, name, known, remedy));
  }
}

/** `timezone`: an IANA name. Throws RangeError on an unknown one. */
export function createCalendar(timezone: string): Calendar {
  const format = formatOf(timezone, dayParts);
  let knownSlot = Number.NaN;
  let knownDay = 0;
  return {
    dayOf(epochMs) {
      const slot = Math.floor(epochMs / slotMs);
      if (slot !== knownSlot) {
        const part = format(slot * slotMs);
        knownDay = Number(`${part('year')}${part('month')}${part('day')}`);
        knownSlot = slot;
      }
      return knownDay;
    },
  };
}

/** `timezone`: an IANA name. Throws RangeError on an unknown one. */
export function createClock(timezone: string): Clock {
  const format = formatOf(timezone, clockParts);
  return (epochMs) => {
    const part = format(epochMs);
    const date = `${part('year').padStart(4, '0')}-${part('month')}-${part('day')}`;
    return `${date} ${part('hour')}:${part('minute')}:${part('second')}`;
  };
}

/** ms that the zone of the clock is ahead of UTC at an instant; the clock writes years of four digits */
function offsetAt(clock: Clock, epochMs: number): number {
  const at = Math.min(epochMs, lastMs);
  return Date.parse(`${clock(at).replace(' ', 'T')}Z`) - Math.floor(at / 1_000) * 1_000;
}

/** The instant as `2030-01-31T09:00:00+08:00`, rounded down. `timezone`: an IANA name. Throws RangeError on
 *  an unknown one. */
export function createOffsetClock(timezone: string): Clock {
  const clock = createClock(timezone);
  return (epochMs) => {
    const minutes = Math.round(offsetAt(clock, epochMs) / 60_000);
    const [hour, minute] = [Math.floor(Math.abs(minutes) / 60), Math.abs(minutes) % 60];
    const offset = [hour, minute].map((part) => String(part).padStart(2, '0')).join(':');
    return `${clock(epochMs).replace(' ', 'T')}${minutes < 0 ? '-' : '+'}${offset}`;
  };
}

/** The instants at which a wall clock shows a time, epoch ms. `wall`: that time as if it were UTC. A time
 *  that occurs twice has two, the earlier one first. A time that a change of the clock skips has the instant
 *  that is later by the change. */
export interface WallTimes {
  instantsOf(wall: number): readonly [number, number?];
  /** ms ahead of UTC, the least and the most, at the instants of a wall time of this day */
  offsetsOf(wall: number): readonly [number, number];
}

interface ZoneDay {
  /** ms ahead of UTC before and after `changeAt` */
  readonly before: number;
  readonly after: number;
  /** epoch ms; null: the offset is the same */
  readonly changeAt: number | null;
}

/** `timezone`: an IANA name. Throws RangeError on an unknown one. */
function createWallTimes(timezone: string): WallTimes {
  const clock = createClock(timezone);
  const days = new Map<number, ZoneDay>();
  const read = (day: number): ZoneDay => {
    // No zone changes its clock twice within three days.
    let [from, to] = [(day - 1) * dayMs, (day + 2) * dayMs];
    const [before, after] = [offsetAt(clock, from), offsetAt(clock, to)];
    if (before === after) return { before, after, changeAt: null };
    while (to - from > 1_000) {
      const middle = Math.floor((from + to) / 2_000) * 1_000;
      if (offsetAt(clock, middle) === before) from = middle;
      else to = middle;
    }
    return { before, after, changeAt: to };
  };
  const dayOf = (number: number): ZoneDay => {
    const known = days.get(number);
    if (known !== undefined) return known;
    const day = read(number);
    if (days.size >= limits.wallDaysMax) days.clear();
    days.set(number, day);
    return day;
  };
  return {
    instantsOf(wall) {
      const { before, after, changeAt } = dayOf(Math.floor(wall / dayMs));
      const [early, late] = [wall - before, wall - after];
      if (changeAt === null || late < changeAt) return [early];
      return early < changeAt ? [early, late] : [late];
    },
    offsetsOf(wall) {
      const { before, after } = dayOf(Math.floor(wall / dayMs));
      return before < after ? [before, after] : [after, before];
    },
  };
}

const knownWallTimes = new Map<string, WallTimes>();

/** `timezone`: an IANA name. Throws RangeError on an unknown one. */
export function wallTimesOf(timezone: string): WallTimes {
  const known = knownWallTimes.get(timezone);
  if (known !== undefined) return known;
  const made = createWallTimes(timezone);
  if (knownWallTimes.size >= limits.wallZonesMax) knownWallTimes.clear();
  knownWallTimes.set(timezone, made);
  return made;
}

/** A time of the wall clock to epoch ms; month 1–12. A time that a change of the clock skips moves forward by
 *  the change; of a time that occurs twice the first one counts. */
export type LocalTime = (
  year: number,
  month: number,
  day: number,
  hour: number,
  minute: number,
  second: number,
) => number;

/** `timezone`: an IANA name. Throws RangeError on an unknown one. */
export function createLocalTime(timezone: string): LocalTime {
  const wallTimes = wallTimesOf(timezone);
  return (year, month, day, hour, minute, second) =>
    wallTimes.instantsOf(Date.UTC(year, month - 1, day, hour, minute, second))[0];
}
