// What ack, retry, bury and release send and what their answers say: all leases of a call in one text, as a push sends its jobs
// (push-call.ts). lua/shared/leases.lua reads it.

import type { Lease } from '../../../core/job.ts';
import type { FinishOutcome } from '../../../ports/job-store.ts';
import { keyBytesMax, writeKey } from '../scripts/keys.ts';
import { writeSafe } from '../scripts/records.ts';
import type { Arg } from '../shard/shards.ts';
import type { Placed } from './calls.ts';

/** What is shown beside the lease. */
export interface Shown {
  /** of the verb's own, six bytes; 0 when absent */
  readonly number?: number;
  /** as the verb keeps it; '' when absent */
  readonly attempt?: string;
}

/** Of a lease, beside its key and attempt. */
const fixedBytes = 24;

export function finishArgs<I extends Lease>(
  batch: readonly Placed<I>[],
  shownOf: (item: I) => Shown,
): readonly Arg[] {
  const pieces = batch.map(({ item }) => {
    const { number = 0, attempt = '' } = shownOf(item);
    return { item, number, attempt };
  });
  let bytesMax = 0;
  for (const { item, attempt } of pieces) bytesMax += fixedBytes + keyBytesMax(item) + 3 * attempt.length;
  const text = Buffer.allocUnsafe(bytesMax);
  let at = 0;
  for (const { item, number, attempt } of pieces) {
    at = writeLease(text, at, item);
    at = text.writeUIntBE(number, at, 6);
    const length = text.write(attempt, at + 4);
    at = text.writeUInt32BE(length, at) + length;
  }
  return [text.subarray(0, at)];
}

/** Answers where it ends. */
function writeLease(text: Buffer, start: number, lease: Lease): number {
  const at = writeKey(text, start, lease);
  return writeSafe(text, writeSafe(text, at, lease.version), lease.token);
}

export function readFinishes<D extends string>(reply: unknown, done: D): readonly FinishOutcome<D>[] {
  return Array.from(reply as Buffer, (byte) => (byte === 1 ? { kind: done } : { kind: 'lease_lost' }));
}
