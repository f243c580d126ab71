// Reads what a request says before its body: whether it changes anything, its encoding, its trace, and the
// state that its caller has read. dq takes bodies as they are: it rejects compressed ones, which would be
// stored and called back unread.

import type { IncomingHttpHeaders } from 'node:http';
import type { FastifyRequest } from 'fastify';
import { DqError, invalidField } from '../../core/errors.ts';

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
