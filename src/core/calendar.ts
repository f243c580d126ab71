// Days and clock times in the configured time zone: for statistics of "today", names of log files, and
// receivers that get times without an offset.

export interface Calendar {
  /** yyyymmdd of the instant (epoch ms) */
  dayOf(epochMs: number): number;
}

/** The instant (epoch ms) as `YYYY-MM-DD HH:mm:ss`, rounded down. */
export type Clock = (epochMs: number) => string;

/** Offsets of zones and their changes are multiples of 15 minutes, so the day is constant within such a slot
 *  of UTC. */
const slotMs = 15 * 60_000;

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
