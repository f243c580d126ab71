// Reads a query string strictly. Never throws: the router calls it outside every error handler, and an exception there would
// end the process. What it cannot read it answers as a marker that no route's schema knows, so that the schema refuses it.
//
// Names and values are percent-encoded UTF-8; `+` is a blank, as URLSearchParams writes it. A repeated parameter is refused:
// proxies and libraries disagree about which one counts.

import type { FieldError } from '../../core/errors.ts';

/** No parameter is called so: it cannot be written in a query string without being an escape itself. */
export const unreadable = '%';

export type Query = Readonly<Record<string, unknown>>;

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
      return marker(name ?? piece.slice(0, 100), 'has an escape that is no %XX of UTF-8');
    if (name in query) return marker(name, 'is given twice');
    query[name] = value;
  }
  return query;
}

function decode(text: string): string | null {
  if (!text.includes('%')) return text.includes('+') ? text.replaceAll('+', ' ') : text;
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    // The one way to learn that an escape is bad or its bytes are no UTF-8; the caller refuses it by name.
    return null;
  }
}

function marker(field: string, message: string): Query {
  const error: FieldError = { field, message };
  return { [unreadable]: error };
}
