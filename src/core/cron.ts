// Reads a cron expression, decides which days it names, and computes its instants in a zone. Pure.
// Each item of a list stands alone, as in cron: values may repeat. A parser of the registry rejects those.
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
import { type Parsed, wrong } from './duration.ts';
import { limits } from './limits.ts';

export interface Cron {
  /** ascending, from 0 */
  readonly minutes: readonly number[];
  readonly hours: readonly number[];
  /** The hour begins with `*`: a local time that occurs twice counts twice. */
  readonly isEveryHour: boolean;
  /** month 1–12, weekday 0–6 from Sunday, `days` of this month */
  readonly names: (month: number, day: number, weekday: number, days: number) => boolean;
}

const named: Readonly<Record<string, string>> = {
  '@hourly': '0 * * * *',
  '@daily': '0 0 * * *',
  '@weekly': '0 0 * * 0',
  '@monthly': '0 0 1 * *',
  '@yearly': '0 0 1 1 *',
};

interface Field {
  readonly name: string;
  readonly min: number;
  readonly max: number;
  /** of `min` and the following values */
  readonly words?: readonly string[];
}

const minuteField: Field = { name: 'minute', min: 0, max: 59 };
const hourField: Field = { name: 'hour', min: 0, max: 23 };
const dayField: Field = { name: 'day of month', min: 1, max: 31 };
const monthField: Field = {
  name: 'month',
  min: 1,
  max: 12,
  words: ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'],
};
const weekdayField: Field = {
  name: 'day of week',
  min: 0,
  max: 7,
  words: ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'],
};

/** The expression in its stored form: single blanks. */
export function trimCron(text: string): string {
  return text.trim().replace(/\s+/g, ' ');
}

export function parseCron(text: string): Parsed<Cron> {
  const [minute, hour, day, month, weekday, ...more] = (named[text] ?? text).split(' ');
  if (
    minute === undefined ||
    hour === undefined ||
    day === undefined ||
    month === undefined ||
    weekday === undefined ||
    more.length > 0
  )
    return wrong(
      `must have 5 fields: minute hour day month weekday, such as 0 9 * * 1-5; or ${Object.keys(named).join(', ')}`,
    );
  if (text.length > limits.cronCharsMax) return wrong(`must have at most ${limits.cronCharsMax} characters`);
  try {
    const isDay = readDays(day);
    const isWeekday = readWeekdays(weekday);
    const months = readValues(monthField, month);
    // As in cron: either one is enough, unless one of them begins with a star.
    const isBoth = hasStar(day) || hasStar(weekday);
    return {
      ok: true,
      value: {
        minutes: [...readValues(minuteField, minute)].sort(ascending),
        hours: [...readValues(hourField, hour)].sort(ascending),
        isEveryHour: hasStar(hour),
        names: (m, d, w, days) => {
          if (!months.has(m)) return false;
          const [byDay, byWeekday] = [isDay(d, days), isWeekday(d, w, days)];
          return isBoth ? byDay && byWeekday : byDay || byWeekday;
        },
      },
    };
  } catch (error) {
    if (error instanceof FieldMistake) return wrong(error.message);
    throw error;
  }
}

class FieldMistake extends Error {}

const hasStar = (field: string): boolean => /^[*?]/.test(field);
const ascending = (a: number, b: number): number => a - b;

/** `L`: the last day of the month */
function readDays(text: string): (day: number, days: number) => boolean {
  const items = text.split(',');
  const others = items.filter((item) => !/^l$/i.test(item));
  const values = others.length === 0 ? new Set<number>() : readValues(dayField, others.join(','));
  const isLast = others.length < items.length;
  return (day, days) => values.has(day) || (isLast && day === days);
}

/** `5#2`: the second Friday of the month; `5L`: the last one */
function readWeekdays(text: string): (day: number, weekday: number, days: number) => boolean {
  const plain: string[] = [];
  const counted: { readonly weekday: number; readonly nth: number | 'last' }[] = [];
  for (const item of text.split(',')) {
    const [, word, nth] = /^(\w+?)(?:#([1-5])|l)$/i.exec(item) ?? [];
    if (word === undefined) plain.push(item);
    else
      counted.push({
        weekday: numberOf(weekdayField, word, item) % 7,
        nth: nth === undefined ? 'last' : Number(nth),
      });
  }
  const values = new Set<number>();
  if (plain.length > 0) for (const value of readValues(weekdayField, plain.join(','))) values.add(value % 7);
  return (day, weekday, days) =>
    values.has(weekday) ||
    counted.some(
      (one) =>
        one.weekday === weekday && (one.nth === 'last' ? day + 7 > days : Math.ceil(day / 7) === one.nth),
    );
}

/** A list of `*`, `a`, `a-b`, each also with `/n`; `a/n` is from a to the end. */
function readValues(field: Field, text: string): Set<number> {
  const values = new Set<number>();
  for (const item of text.split(',')) {
    const [, range = '', stepText] = /^([^/]+)(?:\/(\d+))?$/.exec(item) ?? [];
    const step = stepText === undefined ? 1 : Number(stepText);
    const ends = range.split('-');
    if (range === '' || step < 1 || ends.length > 2) throw mistake(field, item);
    const isStar = range === '*' || range === '?';
    const first = isStar ? field.min : numberOf(field, ends[0] ?? '', item);
    const isOpen = isStar || (ends.length === 1 && stepText !== undefined);
    // The weekday 7 is 0 again.
    const end = field === weekdayField ? 6 : field.max;
    const last = isOpen ? Math.max(first, end) : numberOf(field, ends[1] ?? ends[0] ?? '', item);
    if (first > last) throw mistake(field, item);
    for (let value = first; value <= last; value += step) values.add(value);
  }
  return values;
}

function numberOf(field: Field, text: string, item: string): number {
  const word = field.words?.indexOf(text.toLowerCase()) ?? -1;
  const value = word === -1 ? Number(/^\d{1,2}$/.test(text) ? text : Number.NaN) : field.min + word;
  if (!(value >= field.min && value <= field.max)) throw mistake(field, item);
  return value;
}

function mistake({ name, min, max, words }: Field, item: string): FieldMistake {
  const example = words === undefined ? '' : ` or ${words[0]?.toUpperCase()}-${words.at(-1)?.toUpperCase()}`;
  const shown = JSON.stringify(item.slice(0, 40));
  return new FieldMistake(
    `${name}: ${shown} is not *, a number from ${min} to ${max}${example}, or a range, with /n or not`,
  );
}

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
