// Days and clock times in the configured time zone: for statistics of "today", names of log files, and
// receivers that get times without an offset.

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

/** `timezone`: an IANA name. Throws RangeError on an unknown one. */
export function createCalendar(timezone: string): Calendar {
  const format = new Intl.DateTimeFormat('en-u-ca-gregory-nu-latn', {
    timeZone: timezone,
    year: 'numeric',
    month: '2-digit',
    day: '2-digit',
  });
  let knownSlot = Number.NaN;
  let knownDay = 0;
  return {
    dayOf(epochMs) {
      const slot = Math.floor(epochMs / slotMs);
      if (slot !== knownSlot) {
        const parts = new Map(format.formatToParts(slot * slotMs).map(({ type, value }) => [type, value]));
        knownDay = Number(`${parts.get('year')}${parts.get('month')}${parts.get('day')}`);
        knownSlot = slot;
      }
      return knownDay;
    },
  };
}

/** `timezone`: an IANA name. Throws RangeError on an unknown one. */
export function createClock(timezone: string): Clock {
  const format = new Intl.DateTimeFormat('en-u-ca-gregory-nu-latn', {
    timeZone: timezone,
    year: 'numeric',
    month: '2-digit',
    day: '2-digit',
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
    hourCycle: 'h23',
  });
  return (epochMs) => {
    const parts = new Map(format.formatToParts(epochMs).map(({ type, value }) => [type, value]));
    const part = (type: Intl.DateTimeFormatPartTypes) => parts.get(type) ?? '';
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
  const clock = createClock(timezone);
  return (year, month, day, hour, minute, second) => {
    const asUtc = Date.UTC(year, month - 1, day, hour, minute, second);
    // No zone changes its clock twice within two days.
    const before = offsetAt(clock, asUtc - dayMs);
    const after = offsetAt(clock, asUtc + dayMs);
    const [first, last] = [Math.max(before, after), Math.min(before, after)].map((offset) => asUtc - offset);
    if (first !== undefined && asUtc - first === offsetAt(clock, first)) return first;
    if (last !== undefined && asUtc - last === offsetAt(clock, last)) return last;
    return asUtc - before;
  };
}
