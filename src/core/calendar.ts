// Which day it is in the configured time zone: for statistics of "today" and the names of log files.

export interface Calendar {
  /** yyyymmdd of the instant (epoch ms) */
  dayOf(epochMs: number): number;
}

/** Every zone's offset, and every change of one, is a multiple of 15 minutes: within such a slot of UTC the day is the same. */
const slotMs = 15 * 60_000;

/** `timezone` is an IANA name; another throws RangeError. */
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
