// The `request` log: what the line of a push or cancel holds. Which lines are wanted is the log's own affair. Bodies and
// tokens are never in it.

import type { Log } from '../../telemetry/log.ts';

/** An alias, because an interface is no LogFields. */
export type RequestLine = {
  readonly method: 'POST' | 'DELETE';
  /** null for a batch, or an item of one, that could not be read */
  readonly topic: string | null;
  /** null when a push was refused before an id was made for it */
  readonly id: string | null;
  readonly status: number;
  /** of the catalogue; null for a success */
  readonly code: string | null;
  readonly version: string | null;
  /** RFC 3339 */
  readonly dueAt: string | null;
  /** of the body */
  readonly bytes: number;
  /** from the whole request to its answer; null when it was refused before */
  readonly ms: number | null;
};

export function logRequest(log: Log, line: RequestLine): void {
  log.request(line);
}

/** Whole microseconds are enough. */
export function elapsedMs(since: number): number {
  return Math.round((performance.now() - since) * 1000) / 1000;
}
