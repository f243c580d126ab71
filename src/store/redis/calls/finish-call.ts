// Encodes the leases of an ack, retry, bury, release or extend as one binary argument, as push-call.ts does
// for jobs, and decodes the replies. lua/shared/leases.lua reads the argument.

import { writeSafe } from '../../../core/stored-codes.ts';
import type { EndingLease, ExtendOutcome, FinishOutcome } from '../../../ports/job-store.ts';
import { keyBytesMax, writeKey } from '../scripts/keys.ts';

import type { Arg } from '../shard/shards.ts';
import type { Placed } from './calls.ts';
import { readCodes } from './changes.ts';

/** Sent with the lease. */
export interface Finish {
  /** delay, reason code or length of the lease, six bytes; 0 when absent */
  readonly number?: number;
  /** the attempt as the script stores it; '' when absent */
  readonly attempt?: string;
  /** of a retry, before its attempt: the new options of the job; empty: they stay */
  readonly block?: Buffer;
}

/** bytes of a lease without its key, block and attempt */
const fixedBytes = 25;

export function finishArgs<I extends EndingLease>(
  batch: readonly Placed<I>[],
  finishOf: (item: I) => Finish,
): readonly Arg[] {
  const pieces = batch.map(({ item }) => {
    const { number = 0, attempt = '', block } = finishOf(item);
    return { item, number, attempt, block };
  });
  let bytesMax = 0;
  for (const { item, attempt, block } of pieces) {
    bytesMax += fixedBytes + keyBytesMax(item) + 3 * attempt.length;
    if (block !== undefined) bytesMax += 2 + block.length;
  }
  const text = Buffer.allocUnsafe(bytesMax);
  let at = 0;
  for (const { item, number, attempt, block } of pieces) {
    at = writeLease(text, at, item);
    const lengthAt = text.writeUIntBE(number, at, 6);
    at = lengthAt + 4;
    if (block !== undefined) {
      at = text.writeUInt16BE(block.length, at);
      at += block.copy(text, at);
    }
    at += text.write(attempt, at);
    text.writeUInt32BE(at - lengthAt - 4, lengthAt);
  }
  return [text.subarray(0, at)];
}

/** Returns the offset after it. */
function writeLease(text: Buffer, start: number, lease: EndingLease): number {
  const at = writeKey(text, start, lease);
  const end = writeSafe(text, writeSafe(text, at, lease.version), lease.token);
  return text.writeUInt8((lease.ifExpired === true ? 1 : 0) + (lease.isPulled === true ? 2 : 0), end);
}

/** `place`: null when no change follows a finished lease */
export function readFinishes<D extends string>(
  reply: unknown,
  done: D,
  place: string | null,
): readonly FinishOutcome<D>[] {
  return readCodes(reply, place).map(({ code, ...change }) =>
    code === 1 ? { kind: done, ...change } : { kind: 'lease_lost' },
  );
}

export function readExtensions(reply: unknown): readonly ExtendOutcome[] {
  const text = reply as Buffer;
  return Array.from({ length: text.length / 7 }, (_, i) =>
    text[7 * i] === 1 ? { kind: 'extended', until: text.readUIntBE(7 * i + 1, 6) } : { kind: 'lease_lost' },
  );
}
