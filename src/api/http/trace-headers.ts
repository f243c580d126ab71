// Reads the trace context of a request, as its client library sent it.

import type { IncomingHttpHeaders } from 'node:http';

/** Unchecked; without members for a request without a trace. */
export function traceOf({ traceparent, tracestate }: IncomingHttpHeaders): {
  readonly traceparent?: string;
  readonly tracestate?: string | readonly string[];
} {
  // Node joins a repeated traceparent with a comma, which makes it invalid.
  if (typeof traceparent !== 'string') return {};
  return { traceparent, ...(tracestate === undefined ? {} : { tracestate }) };
}
