// Reads what a request says before its body: whether it changes anything, its encoding, its trace, the state
// that its caller has read, and its query. dq takes bodies as they are: it rejects compressed ones, which
// would be stored and called back unread.
// Query strings are parsed strictly: percent-encoded UTF-8, `+` is a space (as URLSearchParams writes it), no
// repeated parameter (proxies and libraries disagree about which one counts). parseQuery never throws: the
// router calls it outside every error handler, and an exception there would end the process. A bad query
// becomes a marker that no route's schema allows, so validation rejects it.

import type { IncomingHttpHeaders } from 'node:http';
import type { FastifyRequest } from 'fastify';
import { contractLimits } from '../../contract/api/limits.ts';
import { parseInstant } from '../../core/duration.ts';
import { DqError, type FieldError, invalidField } from '../../core/errors.ts';
import { StoreError } from '../../ports/store-error.ts';

/** Whether the call changes nothing. Every GET route answers HEAD, too, with the same headers and without a
 *  body. */
export const isRead = (method: string | undefined): boolean => method === 'GET' || method === 'HEAD';

/** `what`: body or batch. `identity` means no encoding (RFC 9110 12.5.3). */
export function rejectEncoding(headers: IncomingHttpHeaders, what: string): void {
  const encoding = headers['content-encoding'];
  if (encoding === undefined || encoding.trim().toLowerCase() === 'identity') return;
  throw new DqError(
    'unsupported_media_type',
    `content-encoding: not supported; send the ${what} uncompressed`,
  );
}

/** The trace context as the client library sent it, unchecked; without members for a request without a
 *  trace. */
export function traceOf({ traceparent, tracestate }: IncomingHttpHeaders): {
  readonly traceparent?: string;
  readonly tracestate?: string | readonly string[];
} {
  // Node joins a repeated traceparent with a comma, which makes it invalid.
  if (typeof traceparent !== 'string') return {};
  return { traceparent, ...(tracestate === undefined ? {} : { tracestate }) };
}

/** If-Match: the revision or version that the caller has read (RFC 9110, 13.1.1); null: any. `what`: for the
 *  message, such as `version of the job`. Throws DqError invalid. */
export function readIfMatch(request: FastifyRequest, what: string): number | null {
  const given = request.headers['if-match'];
  if (given === undefined || given === '*') return null;
  // Both numbers are safe integers; 16 digits hold the largest one.
  const digits = /^"?(\d{1,16})"?$/.exec(given)?.[1];
  if (digits === undefined) throw invalidField('if-match', `must be the ${what}, such as "17"`);
  return Number(digits);
}

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
