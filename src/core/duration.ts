// Durations and instants as users write them: one grammar for the API, the configuration and the command
// line. Pure.

export type Parsed<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly message: string };

export const wrong = (message: string): Parsed<never> => ({ ok: false, message });

/** Smaller numbers are epoch seconds by mistake: as milliseconds they are before March 1973. */
export const smallestEpochMs = 100_000_000_000;
/** The latest instant of a record, in the year 10889: six bytes in Redis. Larger numbers are microseconds or
 *  nanoseconds by mistake. */
export const latestEpochMs = 2 ** 48 - 1;
/** Later times do not fit a Date. */
export const largestEpochMs = 8_640_000_000_000_000;
const instantPattern = /^\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?([Zz]|[+-]\d{2}:\d{2})$/;

/** Milliseconds of each unit, by all spellings. Weeks, months and years are rarely meant exactly, so they
 *  are missing. */
const unitMs: ReadonlyMap<string, number> = new Map([
  ...['ms', 'millisecond', 'milliseconds'].map((name) => [name, 1] as const),
  ...['s', 'sec', 'secs', 'second', 'seconds'].map((name) => [name, 1_000] as const),
  ...['m', 'min', 'mins', 'minute', 'minutes'].map((name) => [name, 60_000] as const),
  ...['h', 'hr', 'hrs', 'hour', 'hours'].map((name) => [name, 3_600_000] as const),
  ...['d', 'day', 'days'].map((name) => [name, 86_400_000] as const),
]);
const part = `\\d{1,12} ?(?:${[...unitMs.keys()].join('|')})`;
/** ISO 8601 without years, months, weeks and fractions. */
const iso = 'P(?=[\\dT])(?:(\\d{1,12})D)?(?:T(?=\\d)(?:(\\d{1,12})H)?(?:(\\d{1,12})M)?(?:(\\d{1,12})S)?)?';
const isoPattern = new RegExp(`^${iso}$`);

/** 30m */
const usualPattern = /^(\d{1,12})(ms|[smhd])$/;

/** The texts that parseDuration accepts, for a JSON schema. */
export const durationPattern = `^(?:0|${part}(?: ?${part})*|${iso})$`;
export const durationExamples = '"500ms", "30s", "10m", "1h30m", "2 hours", "3d", "PT30M"';
/** More than the longest useful text with all units spelled out; bounds the work of the patterns. */
const durationTextMax = 200;

/** Reads "500ms" "30s" "10m" "1h30m" "2 hours" "PT30M" to milliseconds. A number needs a unit, because some
 *  callers count in seconds and others in milliseconds; 0 is the same in both. */
export function parseDuration(input: unknown): Parsed<number> {
  if (input === 0 || input === '0') return { ok: true, value: 0 };
  if (typeof input === 'number' && Number.isSafeInteger(input) && input > 0)
    return wrong(`${input} has no unit; write "${input}s" or "${input}ms"`);
  if (typeof input !== 'string') return wrong(`must be a duration such as ${durationExamples}`);
  // Most pushes with a delay have such a one. This costs 0.3 µs, the general patterns 1 µs.
  const usual = usualPattern.exec(input);
  const usualMs = usual === null ? Number.NaN : Number(usual[1]) * (unitMs.get(usual[2] ?? '') ?? 0);
  if (Number.isSafeInteger(usualMs)) return { ok: true, value: usualMs };
  if (input.length > durationTextMax) return wrong('is too long');
  if (/^\d+$/.test(input)) return wrong(`"${input}" has no unit; write ${input}s or ${input}ms`);
  const isoParts = isoPattern.exec(input);
  const total = isoParts === null ? sumOf(input) : isoSum(isoParts);
  if (typeof total === 'string') return wrong(total);
  return Number.isSafeInteger(total) ? { ok: true, value: total } : wrong('is too long');
}

function isoSum([, days, hours, minutes, seconds]: RegExpExecArray): number {
  const whole = (digits: string | undefined) => Number(digits ?? 0);
  return (
    whole(days) * 86_400_000 + whole(hours) * 3_600_000 + whole(minutes) * 60_000 + whole(seconds) * 1_000
  );
}

/** Milliseconds, or the message. */
function sumOf(text: string): number | string {
  if (!/^\d{1,12} ?[A-Za-z]{1,20}( ?\d{1,12} ?[A-Za-z]{1,20})*$/.test(text)) return unreadable(text);
  let total = 0;
  for (const [, digits = '', unit = ''] of text.matchAll(/(\d+) ?([A-Za-z]+)/g)) {
    const size = unitMs.get(unit);
    if (size === undefined) return unknownUnit(digits, unit);
    total += Number(digits) * size;
  }
  return total;
}

function unknownUnit(digits: string, unit: string): string {
  if (unit === 'M') return `unit "M" is ambiguous; write ${digits}m for minutes, or days for months`;
  const lower = unit.toLowerCase();
  if (unitMs.has(lower)) return `unknown unit "${unit}"; write ${digits}${lower}`;
  return `unknown unit "${unit}"; write ms, s, m, h or d`;
}

function unreadable(text: string): string {
  const shown = JSON.stringify(text.length > 40 ? `${text.slice(0, 40)}…` : text);
  if (/^P[\dTYMWDHS.,]+$/.test(text))
    return `${shown} is not supported; of ISO 8601, write whole days, hours, minutes and seconds, such as P1DT12H`;
  if (/^\d+[.,]\d+ ?[A-Za-z]+$/.test(text))
    return `${shown} has a fraction; write whole numbers, such as 1h30m or 500ms`;
  if (/^(\d{1,12} ?[A-Za-z]{1,20} ?)+\d{1,12}$/.test(text))
    return `${shown} ends with a number without unit; write ${text}s or ${text}ms`;
  return `${shown} is not a duration; write one such as ${durationExamples}, without sign or fraction`;
}

/** Older figures are shown with their age. */
export const figuresNewMs = 5_000;

/** `10m20s`; `0s` of a negative one. Rounds down: the clock of a reply has lost its part of a second. */
export const wholeSeconds = (ms: number): string =>
  formatDuration(Math.max(0, Math.floor(ms / 1_000)) * 1_000);

/** How late a job is: `10m20s`, `at least 10m20s`. In whole seconds, rounded down. */
export const lateWords = (ms: number, isLeast: boolean): string =>
  `${isLeast ? 'at least ' : ''}${wholeSeconds(ms)}`;

/** `figures of 12s ago`; '' of new ones */
export const ageWords = (ms: number): string =>
  ms >= figuresNewMs ? `figures of ${wholeSeconds(ms)} ago` : '';

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

/** RFC 3339 with an offset, or epoch milliseconds as digits or a number. `fromQuery`: reads a blank before
 *  the offset as the `+` that the query string decoded. Returns whole epoch ms, never before the given
 *  instant, at most latestEpochMs; before 1970 they are negative. */
export function parseInstant(input: unknown, fromQuery = false): Parsed<number> {
  if (typeof input === 'number' || (typeof input === 'string' && /^\d+$/.test(input))) {
    const value = Number(input);
    if (!Number.isSafeInteger(value) || value < 0) return wrong('must be whole epoch milliseconds');
    if (value < smallestEpochMs) return wrong('looks like seconds; write epoch milliseconds');
    if (value > latestEpochMs) return wrong('looks like microseconds; write epoch milliseconds');
    return { ok: true, value };
  }
  if (typeof input !== 'string') return wrong('must be RFC 3339 with an offset, or epoch milliseconds');
  const text = fromQuery ? input.replace(/ (?=\d{2}:\d{2}$)/, '+') : input;
  if (!instantPattern.test(text)) {
    return wrong('must be RFC 3339 with an offset, such as 2030-01-31T09:00:00+08:00, or epoch milliseconds');
  }
  const fraction = /\.(\d+)/.exec(text)?.[1] ?? '';
  const value = Date.parse(
    text.replace(' ', 'T').replace(/\.\d+/, fraction === '' ? '' : `.${fraction.slice(0, 3).padEnd(3, '0')}`),
  );
  if (Number.isNaN(value) || !daysAgree(text)) return wrong('is not a calendar date; check day and month');
  // Digits beyond the millisecond round up, so that a job is never early.
  return { ok: true, value: /[1-9]/.test(fraction.slice(3)) ? value + 1 : value };
}

/** Date.parse turns 30 February into 2 March. */
function daysAgree(text: string): boolean {
  const [year, month, day] = text.slice(0, 10).split('-').map(Number) as [number, number, number];
  const date = new Date(Date.UTC(year, month - 1, day));
  return date.getUTCMonth() === month - 1 && date.getUTCDate() === day;
}

/** The last result of formatInstant: the pushes of one call share their due times. */
let knownMs = Number.NaN;
let knownText = '';

/** RFC 3339, UTC, with milliseconds. */
export function formatInstant(epochMs: number): string {
  if (epochMs !== knownMs) {
    knownText = new Date(epochMs).toISOString();
    knownMs = epochMs;
  }
  return knownText;
}

/** The same; null stays null. */
export const formatInstantOrNull = (epochMs: number | null): string | null =>
  epochMs === null ? null : formatInstant(epochMs);
