// The text of a lease that a client holds. Opaque to clients, so that its parts can change: a later version
// may reject it. It proves nothing: version and token decide in the store, and the topic decides the rights.

import type { Lease } from './job.ts';

export interface PulledLease extends Lease {
  /** failed attempts before this one */
  readonly failures: number;
  /** when the job was handed out, epoch ms by the storage clock */
  readonly pulledAt: number;
  /** when it was due, epoch ms */
  readonly dueAt: number;
}

export function leaseText({ topic, id, version, token, failures, pulledAt, dueAt }: PulledLease): string {
  return Buffer.from(JSON.stringify([topic, id, version, token, failures, pulledAt, dueAt])).toString(
    'base64url',
  );
}

/** null: not a lease of this dq */
export function readLease(text: string): PulledLease | null {
  let parts: unknown;
  try {
    parts = JSON.parse(Buffer.from(text, 'base64url').toString());
  } catch {
    return null;
  }
  if (!Array.isArray(parts) || parts.length !== 7) return null;
  const [topic, id, ...numbers] = parts as readonly unknown[];
  if (typeof topic !== 'string' || typeof id !== 'string') return null;
  if (!numbers.every((number) => Number.isSafeInteger(number) && (number as number) >= 0)) return null;
  const [version, token, failures, pulledAt, dueAt] = numbers as [number, number, number, number, number];
  return { topic, id, version, token, failures, pulledAt, dueAt };
}
