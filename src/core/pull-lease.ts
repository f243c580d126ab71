// The text of a lease that a client holds. Opaque to clients, so that its parts can change: a later version
// may reject it. It proves nothing: version and token decide in the store, and the topic decides the rights.

import type { Lease } from './job.ts';
import { refusesId } from './job-id.ts';
import { limits } from './limits.ts';
import { topicNamePattern } from './topic/fields.ts';

export interface PulledLease extends Lease {
  /** failed attempts before this one. Believed: with its right to ack and nack, a client can end the job at
   *  any attempt anyway. */
  readonly failures: number;
  /** when it was due, epoch ms */
  readonly dueAt: number;
}

/** When the job was handed out, epoch ms by the storage clock: tokens are that clock in µs. */
export function pulledAtOf({ token }: Lease): number {
  return Math.floor(token / 1_000);
}

export function leaseText({ topic, id, version, token, failures, dueAt }: PulledLease): string {
  return Buffer.from(JSON.stringify([topic, id, version, token, failures, dueAt])).toString('base64url');
}

/** null: not a lease of this dq */
export function readLease(text: string): PulledLease | null {
  let parts: unknown;
  try {
    parts = JSON.parse(Buffer.from(text, 'base64url').toString());
  } catch {
    return null;
  }
  if (!Array.isArray(parts) || parts.length !== 6) return null;
  const [topic, id, ...numbers] = parts as readonly unknown[];
  if (typeof topic !== 'string' || !topicNamePattern.test(topic)) return null;
  if (typeof id !== 'string' || refusesId(id) !== null) return null;
  if (!numbers.every((number) => Number.isSafeInteger(number) && (number as number) >= 0)) return null;
  const [version, token, failures, dueAt] = numbers as [number, number, number, number];
  if (failures > limits.failuresMax) return null;
  return { topic, id, version, token, failures, dueAt };
}
