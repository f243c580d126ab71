// The text of a lease that a client holds. Opaque to clients, so that its parts can change: a later version
// may reject it. A MAC proves that a dq of this registry gave the lease to a puller: version and token follow
// the clock, so another client could guess them. The topic decides the rights, and the store whether the
// lease still holds.
// The text has the time of the pull only where the token does not tell it. So it is short, and a build that
// knows no such part reads it, too: in a reload two builds get the leases of each other.
// Rejected: random bits in the job's record. They make each record longer, and a guess costs a store call.

import { createHmac, timingSafeEqual } from 'node:crypto';
import type { Lease } from './job.ts';
import { refusesId } from './job-id.ts';
import { limits } from './limits.ts';
import { topicNamePattern } from './topic/fields.ts';

export interface PulledLease extends Lease {
  /** failed attempts before this one */
  readonly failures: number;
  /** when it was due, epoch ms */
  readonly dueAt: number;
  /** epoch ms by the storage clock */
  readonly pulledAt: number;
  /** of the job */
  readonly extension?: Buffer | undefined;
}

/** Of a job that was just pulled. */
export function pulledLeaseOf({
  job,
  pulledAt,
}: {
  readonly job: Omit<PulledLease, 'pulledAt'>;
  readonly pulledAt: number;
}): PulledLease {
  const { topic, id, version, token, failures, dueAt, extension } = job;
  return { topic, id, version, token, failures, dueAt, pulledAt, extension };
}

/** `key`: of the registry, so that each of its servers knows the leases of the others. */
export function leaseText(lease: PulledLease, key: Buffer): string {
  const { topic, id, version, token, failures, dueAt, pulledAt, extension } = lease;
  const time = Math.abs(pulledAt - toldBy(token)) < limits.leaseTimeOffMs ? [] : [pulledAt];
  const block = extension === undefined ? [] : [extension.toString('base64')];
  const all = [topic, id, version, token, failures, dueAt, ...time, ...block];
  const parts = Buffer.from(JSON.stringify(all));
  const text = Buffer.concat([macOf(parts, key), parts]).toString('base64url');
  // A command line takes a word that begins with - for an option. Decoders of base64url read both letters.
  return text.replace(/^-/, '+');
}

/** null: not the text of a lease · `forged`: no dq of this registry wrote it. */
export function readLease(text: string, key: Buffer): PulledLease | 'forged' | null {
  const bytes = Buffer.from(text, 'base64url');
  const [mac, parts] = [bytes.subarray(0, limits.leaseMacBytes), bytes.subarray(limits.leaseMacBytes)];
  const lease = leaseOf(parts);
  return lease === null || timingSafeEqual(mac, macOf(parts, key)) ? lease : 'forged';
}

function macOf(parts: Buffer, key: Buffer): Buffer {
  return createHmac('sha256', key).update(parts).digest().subarray(0, limits.leaseMacBytes);
}

function leaseOf(json: Buffer): PulledLease | null {
  let parts: unknown;
  try {
    parts = JSON.parse(json.toString());
  } catch {
    return null;
  }
  if (!Array.isArray(parts)) return null;
  const [topic, id, ...rest] = parts as readonly unknown[];
  const isTimed = typeof rest[4] === 'number';
  const numbers = rest.slice(0, isTimed ? 5 : 4);
  const [block = '', ...unknown] = rest.slice(numbers.length);
  if (typeof topic !== 'string' || !topicNamePattern.test(topic)) return null;
  if (typeof id !== 'string' || refusesId(id) !== null) return null;
  if (numbers.length < 4 || typeof block !== 'string' || unknown.length > 0) return null;
  if (!numbers.every((number) => Number.isSafeInteger(number) && (number as number) >= 0)) return null;
  const [version, token, failures, dueAt, pulledAt = toldBy(token)] = numbers as Numbers;
  if (failures > limits.failuresMax) return null;
  const extension = block === '' ? {} : { extension: Buffer.from(block, 'base64') };
  return { topic, id, version, token, failures, dueAt, pulledAt, ...extension };
}

type Numbers = [version: number, token: number, failures: number, dueAt: number, pulledAt?: number];

/** The time, epoch ms: a token is the clock in µs, unless the clock was set back. */
function toldBy(token: number): number {
  return Math.floor(token / 1_000);
}
