// fix-time.ts reads the due time of a php-delayqueue request. Pure. php-delayqueue calls at once when it
// cannot read a time; dq rejects such a push.

import type { LocalTime } from '../../core/calendar.ts';

const date = '(\\d{4})([-/])(\\d{2})\\2(\\d{2})';
const time = '[ T](\\d{2}):(\\d{2})(?::(\\d{2}))?';
const offset = ' ?(?:(Z)|([+-])(\\d{2}):?(\\d{2}))';
const pattern = new RegExp(`^${date}(?:${time})?(?:${offset})?$`);
const unixSeconds = /^@(-?\d{1,11})$/;

/** Epoch ms; null for any other text. */
export function readFixTime(text: string, localTime: LocalTime): number | null {
  const seconds = unixSeconds.exec(text)?.[1];
  if (seconds !== undefined) return Number(seconds) * 1_000;
  const match = pattern.exec(text);
  if (match === null) return null;
  const part = (n: number) => Number(match[n] ?? 0);
  const [year, month, day, hour, minute, second] = [part(1), part(3), part(4), part(5), part(6), part(7)];
  const asUtc = Date.UTC(year, month - 1, day, hour, minute, second);
  if (!isSame(asUtc, [year, month, day, hour, minute, second])) return null;
  if (match[8] !== undefined) return asUtc;
  if (match[9] === undefined) return localTime(year, month, day, hour, minute, second);
  if (part(10) > 23 || part(11) > 59) return null;
  const ahead = (part(10) * 60 + part(11)) * 60_000;
  return match[9] === '+' ? asUtc - ahead : asUtc + ahead;
}

/** Date.UTC turns 30 February into 2 March, 24:00 into the next day, and the year 30 into 1930. */
function isSame(asUtc: number, parts: readonly number[]): boolean {
  const at = new Date(asUtc);
  const read = [
    at.getUTCFullYear(),
    at.getUTCMonth() + 1,
    at.getUTCDate(),
    at.getUTCHours(),
    at.getUTCMinutes(),
    at.getUTCSeconds(),
  ];
  return read.every((value, n) => value === parts[n]);
}
