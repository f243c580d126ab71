// query.ts parses query strings strictly: percent-encoded UTF-8, `+` is a space (as URLSearchParams writes
// it), no repeated parameter (proxies and libraries disagree about which one counts). Never throws: the
// router calls it outside every error handler, and an exception there would end the process. A bad query
// becomes a marker that no route's schema allows, so validation rejects it.
// Reads times, and the parameters of lists: their pages.

import { contractLimits } from '../../contract/api/limits.ts';
import { parseInstant } from '../../core/duration.ts';
import { type FieldError, invalidField } from '../../core/errors.ts';
import { StoreError } from '../../ports/store-error.ts';

/** Key of the marker. No parameter has this name: a literal % in a query must itself be escaped. */
export const unreadable = '%';

type Query = Readonly<Record<string, unknown>>;

const nothing: Query = Object.freeze(Object.create(null));

export function parseQuery(text: string): Query {
  if (text === '') return nothing;
  const query: Record<string, unknown> = Object.create(null);
  for (const piece of text.split('&')) {
    if (piece === '') continue;
    const equals = piece.indexOf('=');
    const name = decode(equals < 0 ? piece : piece.slice(0, equals));
    const value = decode(equals < 0 ? '' : piece.slice(equals + 1));
    if (name === null || value === null)
      return marker(name ?? piece.slice(0, 100), 'invalid percent-encoding; write %XX of UTF-8');
    if (name in query) return marker(name, 'given twice; give it once');
    query[name] = value;
  }
  return query;
}

/** null for an invalid escape. */
function decode(text: string): string | null {
  if (!text.includes('%')) return text.includes('+') ? text.replaceAll('+', ' ') : text;
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    // The only way to detect a bad escape or bytes that are not UTF-8; the caller reports the name.
    return null;
  }
}

function marker(field: string, message: string): Query {
  const error: FieldError = { field, message };
  return { [unreadable]: error };
}

/** Epoch ms of a parameter. Throws DqError invalid. */
export function readInstant(field: string, text: string): number {
  const parsed = parseInstant(text, true);
  if (!parsed.ok) throw invalidField(field, parsed.message);
  return parsed.value;
}

/** Throws DqError invalid. */
export function readLimit(
  limit: string | undefined,
  max: number = contractLimits.pageItemsMax,
  byDefault: number = contractLimits.pageItems,
): number {
  if (limit === undefined) return byDefault;
  const items = /^[1-9]\d{0,8}$/.test(limit) ? Number(limit) : Number.NaN;
  if (items <= max) return items;
  throw invalidField('limit', `must be a whole number from 1 to ${max}`);
}

/** Rejection handler of a list call: turns an invalid cursor into DqError invalid, and throws other errors
 *  unchanged. */
export function rejectBadCursor(error: unknown): never {
  if (error instanceof StoreError && error.failure.code === 'bad_cursor') throw invalidCursor();
  throw error;
}

export function invalidCursor() {
  return invalidField('cursor', 'must be the nextCursor of a page; leave it out for the first page');
}
