// Durations and times as users write them (http-api.md, "Durations"). One grammar for the API, the configuration and the
// command line. Owns no clock.

const unitMs: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

export type Parsed<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly message: string };

/** Numbers below this are epoch seconds by mistake: as milliseconds they lie before March 1973. */
const smallestEpochMs = 100_000_000_000;
const instantPattern = /^\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?([Zz]|[+-]\d{2}:\d{2})$/;

/** "500ms" "30s" "10m" "1h30m" "3d", or whole milliseconds as digits or a number. */
export function parseDuration(input: unknown): Parsed<number> {
  const text = typeof input === 'number' ? String(input) : input;
  if (typeof text !== 'string')
    return { ok: false, message: 'must be milliseconds or a duration such as "30s", "10m", "1h30m"' };
  if (/^\d{1,15}$/.test(text)) return { ok: true, value: Number(text) };
  if (!/^(\d{1,12}(ms|s|m|h|d))+$/.test(text)) {
    return {
      ok: false,
      message:
        'must be whole milliseconds or a duration such as "500ms", "30s", "10m", "1h30m", "3d" (no sign, no fraction)',
    };
  }
  let total = 0;
  for (const [, digits, unit] of text.matchAll(/(\d+)(ms|s|m|h|d)/g))
    total += Number(digits) * (unitMs[unit ?? ''] ?? 0);
  if (!Number.isSafeInteger(total)) return { ok: false, message: 'is too long' };
  return { ok: true, value: total };
}

/** 5400000 → "1h30m"; the shortest text that parses back. */
export function formatDuration(ms: number): string {
  if (ms === 0) return '0s';
  let rest = ms;
  let text = '';
  for (const [unit, size] of [
    ['d', 86_400_000],
    ['h', 3_600_000],
    ['m', 60_000],
    ['s', 1_000],
    ['ms', 1],
  ] as const) {
    const n = Math.floor(rest / size);
    if (n > 0) text += `${n}${unit}`;
    rest -= n * size;
  }
  return text;
}

/** RFC 3339 with an offset, or epoch milliseconds as digits or a number. `fromQuery`: the blank that a query string makes
 *  of the `+` before an offset is read as `+`. Answers epoch ms, whole, never before the instant given. */
export function parseInstant(input: unknown, fromQuery = false): Parsed<number> {
  if (typeof input === 'number' || (typeof input === 'string' && /^\d+$/.test(input))) {
    const value = Number(input);
    if (!Number.isSafeInteger(value) || value < 0)
      return { ok: false, message: 'must be whole epoch milliseconds' };
    if (value < smallestEpochMs)
      return { ok: false, message: 'looks like seconds; epoch milliseconds are expected' };
    return { ok: true, value };
  }
  if (typeof input !== 'string')
    return { ok: false, message: 'must be RFC 3339 with an offset, or epoch milliseconds' };
  const text = fromQuery ? input.replace(/ (?=\d{2}:\d{2}$)/, '+') : input;
  if (!instantPattern.test(text)) {
    return {
      ok: false,
      message: 'must be RFC 3339 with an offset, such as 2030-01-31T09:00:00+08:00, or epoch milliseconds',
    };
  }
  const fraction = /\.(\d+)/.exec(text)?.[1] ?? '';
  const value = Date.parse(
    text.replace(' ', 'T').replace(/\.\d+/, fraction === '' ? '' : `.${fraction.slice(0, 3).padEnd(3, '0')}`),
  );
  if (Number.isNaN(value) || !daysAgree(text)) return { ok: false, message: 'is no date of the calendar' };
  // What was cut off the fraction would make it early by less than a millisecond; round up.
  return { ok: true, value: /[1-9]/.test(fraction.slice(3)) ? value + 1 : value };
}

/** Date.parse turns 30 February into 2 March; a producer would rather hear of it. */
function daysAgree(text: string): boolean {
  const [year, month, day] = text.slice(0, 10).split('-').map(Number) as [number, number, number];
  const date = new Date(Date.UTC(year, month - 1, day));
  return date.getUTCMonth() === month - 1 && date.getUTCDate() === day;
}

/** RFC 3339, UTC, with milliseconds. */
export function formatInstant(epochMs: number): string {
  return new Date(epochMs).toISOString();
}
