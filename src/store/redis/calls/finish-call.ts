// Encodes the leases of an ack, retry, bury, release or extend as one binary argument, as push-call.ts does
// for jobs, their outcome jobs as further ones, and decodes the replies. lua/shared/leases.lua and
// outcomes.lua read the arguments.

import type { Changed } from '../../../core/job-change.ts';
import { writeSafe } from '../../../core/stored-codes.ts';
import type {
  EndingLease,
  ExtendOutcome,
  FinishOutcome,
  PushedOutcome,
  PushJob,
} from '../../../ports/job-store.ts';
import { keyBytesMax, writeKey } from '../scripts/keys.ts';
import { flagsOf, liesApart, tailBytesMax, timeOf, writeTail } from '../scripts/records.ts';

import type { Arg } from '../shard/shards.ts';
import type { Placed } from './calls.ts';
import { changeBytes, readChange } from './changes.ts';

/** Sent with the lease. */
export interface Finish {
  /** delay, reason code or length of the lease, six bytes; 0 when absent */
  readonly number?: number;
  /** the attempt as the script stores it; '' when absent */
  readonly attempt?: string;
  /** of a retry, before its attempt: the new options of the job; empty: they stay */
  readonly block?: Buffer;
  /** as it is pushed here */
  readonly outcome?: PushJob | undefined;
}

/** bytes of a lease without its key, block and attempt */
const fixedBytes = 25;

export function finishArgs<I extends EndingLease>(
  batch: readonly Placed<I>[],
  finishOf: (item: I) => Finish,
): readonly Arg[] {
  const pieces = batch.map(({ item }) => {
    const { number = 0, attempt = '', block, outcome } = finishOf(item);
    return { item, number, attempt, block, outcome };
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
  const outcomes = pieces.map(({ outcome }) => outcome);
  const isPlain = outcomes.every((outcome) => outcome === undefined);
  return [text.subarray(0, at), ...(isPlain ? [] : outcomeArgs(outcomes))];
}

/** bytes of an outcome job without its key and tail */
const outcomeBytes = 11;

function outcomeArgs(outcomes: readonly (PushJob | undefined)[]): readonly Arg[] {
  let bytesMax = 0;
  for (const job of outcomes)
    if (job !== undefined) bytesMax += outcomeBytes + keyBytesMax(job) + tailBytesMax(job);
  const text = Buffer.allocUnsafe(bytesMax);
  const apart: Buffer[] = [];
  let at = 0;
  for (const [i, job] of outcomes.entries()) {
    if (job === undefined) continue;
    at = writeKey(text, text.writeUInt16BE(i + 1, at), job);
    at = text.writeUInt8(flagsOf(job), at);
    at = text.writeUIntBE(timeOf(job.when).ms, at, 6);
    const tailAt = at + 2;
    at = writeTail(text, tailAt, job);
    text.writeUInt16BE(at - tailAt, tailAt - 2);
    if (liesApart(job)) apart.push(job.body);
  }
  return [text.subarray(0, at), ...apart];
}

/** Returns the offset after it. */
function writeLease(text: Buffer, start: number, lease: EndingLease): number {
  const at = writeKey(text, start, lease);
  const end = writeSafe(text, writeSafe(text, at, lease.version), lease.token);
  return text.writeUInt8((lease.ifExpired === true ? 1 : 0) + (lease.isPulled === true ? 2 : 0), end);
}

/** `place`: null when no change follows a finished lease. `outcomes`: as they were sent */
export function readFinishes<D extends string>(
  reply: unknown,
  done: D,
  place: string | null,
  outcomes: readonly (PushJob | undefined)[],
): readonly FinishOutcome<D>[] {
  const text = reply as Buffer;
  let at = 0;
  const next = (): Changed | null => {
    if (place === null) return null;
    at += changeBytes;
    return readChange(text, at - changeBytes, place);
  };
  return outcomes.map((job) => {
    const code = text.readUInt8(at);
    at += 1;
    if (code === 0) return { kind: 'lease_lost' };
    const change = next();
    const pushed = code === 2 ? next() : null;
    return {
      kind: done,
      ...(change === null ? {} : { change }),
      ...(pushed === null || job === undefined ? {} : { pushed: pushedOf(job, pushed) }),
    };
  });
}

const pushedOf = ({ id, body }: PushJob, { version, dueAt, place }: Changed): PushedOutcome => ({
  id,
  body,
  version,
  dueAt,
  place,
});

export function readExtensions(reply: unknown): readonly ExtendOutcome[] {
  const text = reply as Buffer;
  return Array.from({ length: text.length / 7 }, (_, i) =>
    text[7 * i] === 1 ? { kind: 'extended', until: text.readUIntBE(7 * i + 1, 6) } : { kind: 'lease_lost' },
  );
}
