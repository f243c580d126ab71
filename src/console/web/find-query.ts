// The query language of the console: `topic:vip.recall state:dead id:vip-2026* body:"88120" due:-1h..+3h
// lastReason:timeout status:5xx`. The text of the find box, the chips of a screen and the query of its
// address are one query. Pure.

import { parseDuration, parseInstant } from '../../core/duration.ts';

/** Members of the address of /jobs and /dead, by their names there; '' or absent: any. */
export type FindQuery = Readonly<Partial<Record<QueryName, string>>>;
export type QueryName =
  | 'topic'
  | 'state'
  | 'id'
  | 'idPrefix'
  | 'body'
  | 'due'
  | 'lastReason'
  | 'deadReason'
  | 'status';

interface Found {
  /** filters; words without a key are in `text` */
  readonly query: FindQuery;
  readonly text: string;
}

const keys = new Set(['topic', 'state', 'id', 'body', 'due', 'deadReason', 'lastReason', 'status']);

/** A search of bodies takes a text of 3 bytes or more. */
export const isSearchable = (text: string): boolean => new TextEncoder().encode(text).length >= 3;

/** Splits at spaces outside of quotes. */
export function readQuery(input: string): Found {
  const query: Partial<Record<QueryName, string>> = {};
  const words: string[] = [];
  for (const [word, key = '', quoted, plain = ''] of input.matchAll(
    /(?:([A-Za-z]+):)?(?:"((?:[^"\\]|\\.)*)"|(\S+))/g,
  )) {
    const value = quoted === undefined ? plain : quoted.replace(/\\(.)/g, '$1');
    if (key === 'id' && quoted === undefined && value.endsWith('*')) query.idPrefix = value.slice(0, -1);
    else if (keys.has(key)) query[key as QueryName] = value;
    else words.push(key === '' && quoted !== undefined ? value : word);
  }
  return { query, text: words.join(' ') };
}

const quote = (value: string): string =>
  /[\s"\\]|\*$/.test(value) ? `"${value.replace(/["\\]/g, '\\$&')}"` : value;

/** readQuery reads it back. */
export function writeQuery({ idPrefix = '', body = '', ...rest }: FindQuery): string {
  const names = ['topic', 'state', 'id', 'due', 'deadReason', 'lastReason', 'status'] as const;
  const parts = names.map((name) => {
    const value = rest[name] ?? '';
    return value === '' ? '' : `${name}:${quote(value)}`;
  });
  return [
    ...parts,
    idPrefix === '' ? '' : `id:${idPrefix}*`,
    body === '' ? '' : `body:"${body.replace(/["\\]/g, '\\$&')}"`,
  ]
    .filter((part) => part !== '')
    .join(' ');
}

/** Dead letters are listed by what their last attempt said; all others are on the screen of jobs. */
export function screenOf({ deadReason, lastReason, status }: FindQuery): 'jobs' | 'dead' {
  return [deadReason, lastReason, status].some((value) => value !== undefined && value !== '')
    ? 'dead'
    : 'jobs';
}

/** Begin and end of the day, in the time zone of the browser; epoch ms. */
export function dayOf(now: number): readonly [number, number] {
  const day = new Date(now);
  const at = (days: number) => new Date(day.getFullYear(), day.getMonth(), day.getDate() + days).getTime();
  return [at(0), at(1)];
}

/** `today`, `-1h..+3h`, `..30m`, `2026-11-22T00:00:00Z..`: since and until as epoch ms, '' where open.
 *  null: invalid. Durations count from `now`, epoch ms. One time alone is the range between now and it:
 *  `30m`, `-1h`. */
export function readDue(
  text: string,
  now: number,
): { readonly since: string; readonly until: string } | null {
  if (text === 'today') {
    const [since, until] = dayOf(now);
    return { since: String(since), until: String(until) };
  }
  if (!text.includes('..')) {
    const alone = text === '' ? '' : (momentOf(text, now) ?? '');
    if (alone === '') return null;
    const [since, until] = Number(alone) < now ? [alone, String(now)] : [String(now), alone];
    return { since, until };
  }
  const [, from, to] = /^(.*?)\.\.(.*)$/.exec(text) ?? [];
  if (from === undefined || to === undefined || (from === '' && to === '')) return null;
  const [since, until] = [momentOf(from, now), momentOf(to, now)];
  return since === null || until === null ? null : { since, until };
}

function momentOf(text: string, now: number): string | null {
  if (text === '') return '';
  if (text === 'now') return String(now);
  const [, sign = '+', span = ''] = /^([+-]?)(\d.*)$/.exec(text) ?? [];
  const duration = parseDuration(span);
  if (duration.ok) return String(sign === '-' ? now - duration.value : now + duration.value);
  const instant = parseInstant(text);
  return instant.ok ? String(instant.value) : null;
}
