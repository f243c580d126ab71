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
  /** of the job; believed, too */
  readonly extension?: Buffer | undefined;
}

/** When the job was handed out, epoch ms by the storage clock: tokens are that clock in µs. */
export function pulledAtOf({ token }: Lease): number {
  return Math.floor(token / 1_000);
}

export function leaseText({ topic, id, version, token, failures, dueAt, extension }: PulledLease): string {
  const more = extension === undefined ? [] : [extension.toString('base64')];
  const parts = [topic, id, version, token, failures, dueAt, ...more];
  return Buffer.from(JSON.stringify(parts)).toString('base64url');
}

/** null: not a lease of this dq */
export function readLease(text: string): PulledLease | null {
  let parts: unknown;
  try {
    parts = JSON.parse(Buffer.from(text, 'base64url').toString());
  } catch {
    return null;
  }
  if (!Array.isArray(parts) || parts.length < 6 || parts.length > 7) return null;
  const [topic, id, ...rest] = parts as readonly unknown[];
  const numbers = rest.slice(0, 4);
  const block = rest[4] ?? '';
  if (typeof topic !== 'string' || !topicNamePattern.test(topic)) return null;
  if (typeof id !== 'string' || refusesId(id) !== null) return null;
  if (!numbers.every((number) => Number.isSafeInteger(number) && (number as number) >= 0)) return null;
  const [version, token, failures, dueAt] = numbers as [number, number, number, number];
  if (failures > limits.failuresMax) return null;
  if (typeof block !== 'string') return null;
  const extension = block === '' ? {} : { extension: Buffer.from(block, 'base64') };
  return { topic, id, version, token, failures, dueAt, ...extension };
}
