// request-log.ts defines the line of the request log for a push or cancel. The log's own configuration
// selects the lines. A line never holds a body or a token.

import { monotonicNow } from '../../runtime/time.ts';
import type { Log } from '../../telemetry/log.ts';

/** A type alias, because an interface is not assignable to LogFields. */
export type RequestLine = {
  readonly method: 'POST' | 'DELETE';
  /** null for a batch, or an item of a batch, that is unreadable */
  readonly topic: string | null;
  /** null when dq rejected the push before it made an id */
  readonly id: string | null;
  readonly status: number;
  /** of the catalogue; null for a success */
  readonly code: string | null;
  readonly version: string | null;
  /** RFC 3339 */
  readonly dueAt: string | null;
  /** size of the body */
  readonly bytes: number;
  /** from the complete request to its answer; null for an earlier rejection */
  readonly ms: number | null;
  /** of a push with a trace: the producer's */
  readonly traceparent?: string;
  /** protocol of another queue; absent: the HTTP API */
  readonly via?: string;
  /** one sentence, where the reply has none; of such a protocol only */
  readonly reason?: string;
};

export function logRequest(log: Log, line: RequestLine): void {
  log.request(line);
}

/** Milliseconds since `since`, rounded to whole microseconds. */
export function elapsedMs(since: number): number {
  return Math.round((monotonicNow() - since) * 1000) / 1000;
}
