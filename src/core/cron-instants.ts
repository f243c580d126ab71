// Computes the instants of a cron expression in a zone. Pure.
//
// Rules, by the wall clock of the zone. Each local time that the expression names has its instants:
//   it occurs once: that one.
//   it does not occur, because clocks are set forward: as long after midnight as without the change (02:30
//   becomes 03:30). The day of the local time counts, also where the instant is on the next one.
//   it occurs twice, because clocks are set back: the first one; both where the hour begins with `*`.
// Instants of several local times that are equal are one.
//
// Bounded: a search looks at limits.cronSearchDays days, and computes the instants of a few of them.

import { type WallTimes, wallTimesOf } from './calendar.ts';
import type { Cron } from './cron.ts';
import { limits } from './limits.ts';

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;
/** The instants of a local day are less than this before its midnight as UTC, or after its end: an offset,
 *  and a change of at most a day. */
const reachDays = 2;

/** The first instant after this one; null: none within the search. Throws RangeError on an unknown zone. */
export function cronAfter(cron: Cron, timezone: string, after: number): number | null {
  const wallTimes = wallTimesOf(timezone);
  const from = Math.floor(after / dayMs) - reachDays - 1;
  let found = Number.POSITIVE_INFINITY;
  const isWanted = (first: number, last: number): boolean => last > after && first < found;
  for (let day = from; day < from + limits.cronSearchDays; day++) {
    if ((day - reachDays) * dayMs >= found) break;
    if (!namesDay(cron, day)) continue;
    for (const at of instantsOf(cron, wallTimes, day, isWanted)) if (isWanted(at, at)) found = at;
  }
  return Number.isFinite(found) ? found : null;
}

/** The last instant at or before this one; null: none within the search. Throws RangeError on an unknown
 *  zone. */
export function cronUntil(cron: Cron, timezone: string, until: number): number | null {
  const wallTimes = wallTimesOf(timezone);
  const from = Math.floor(until / dayMs) + reachDays;
  let found = Number.NEGATIVE_INFINITY;
  const isWanted = (first: number, last: number): boolean => first <= until && last > found;
  for (let day = from; day > from - limits.cronSearchDays; day--) {
    if ((day + 1 + reachDays) * dayMs <= found) break;
    if (!namesDay(cron, day)) continue;
    for (const at of instantsOf(cron, wallTimes, day, isWanted)) if (isWanted(at, at)) found = at;
  }
  return Number.isFinite(found) ? found : null;
}

/** `day`: since 1970-01-01 */
function namesDay({ names }: Cron, day: number): boolean {
  const date = new Date(day * dayMs);
  const month = date.getUTCMonth();
  const days = new Date(Date.UTC(date.getUTCFullYear(), month + 1, 0)).getUTCDate();
  return names(month + 1, date.getUTCDate(), date.getUTCDay(), days);
}

/** `isWanted`: whether an instant from the first to the last one counts. Hours without one are left out. */
function* instantsOf(
  { minutes, hours, isEveryHour }: Cron,
  wallTimes: WallTimes,
  day: number,
  isWanted: (first: number, last: number) => boolean,
): Iterable<number> {
  for (const hour of hours) {
    const wall = day * dayMs + hour * hourMs;
    const [least, most] = wallTimes.offsetsOf(wall);
    if (!isWanted(wall - most, wall + hourMs - least)) continue;
    for (const minute of minutes) {
      const [first, second] = wallTimes.instantsOf(wall + minute * minuteMs);
      yield first;
      if (second !== undefined && isEveryHour) yield second;
    }
  }
}
