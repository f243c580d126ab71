// request-headers.ts reads what a push or a batch says in its headers. dq takes bodies as they are: it
// rejects compressed ones, which would be stored and called back unread.

import type { IncomingHttpHeaders } from 'node:http';
import { DqError } from '../../core/errors.ts';

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
