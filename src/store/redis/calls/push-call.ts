// Encodes the jobs of a push as one binary argument, and decodes the reply, another one; lua/push.lua does
// the reverse. One argument per field cost the client library a tenth of a server process's time, and Redis
// the same.

import { latestEpochMs } from '../../../core/duration.ts';
import { endCodes, readSafe, stateCodes, writeSafe } from '../../../core/stored-codes.ts';
import type { PushJob, PushOutcome } from '../../../ports/job-store.ts';
import { keyBytesMax, writeKey } from '../scripts/keys.ts';
import { flagsOf, hasPast, liesApart, tailBytesMax, timeOf, writeTail } from '../scripts/records.ts';
import type { Arg } from '../shard/shards.ts';
import type { Placed } from './calls.ts';

const codeOf = (letter: string): number => letter.charCodeAt(0);
const modes = { replace: codeOf('r'), keep: codeOf('k'), reject: codeOf('j') } as const;
/** added to the letter of the mode, which becomes a capital: the window follows */
const windowFollows = codeOf('R') - codeOf('r');
const froms = { d: codeOf('d'), a: codeOf('a') } as const;
/** most bytes of a job without its key and tail */
const fixedBytes = 33;

export function pushArgs(batch: readonly Placed<PushJob>[]): readonly Arg[] {
  let bytesMax = 0;
  for (const { item } of batch) bytesMax += fixedBytes + keyBytesMax(item) + tailBytesMax(item);
  const text = Buffer.allocUnsafe(bytesMax);
  let at = 0;
  for (const placed of batch) at = writePush(text, at, placed);
  const apart = batch.filter(({ item }) => liesApart(item)).map(({ item }) => item.body);
  return [text.subarray(0, at), ...apart];
}

/** Returns the offset after it. */
function writePush(text: Buffer, start: number, { item: job, isEarlier, above }: Placed<PushJob>): number {
  const { windowMs } = job;
  let at = writeKey(text, start, job);
  // No job can have a generated id yet.
  const mode = job.anotherId === undefined ? modes[job.mode] : modes.replace;
  at = text.writeUInt8(mode + (windowMs === undefined ? 0 : windowFollows), at);
  at = text.writeUInt8(isEarlier ? 1 : 0, at);
  at = writeSafe(text, at, above);
  at = text.writeUInt8(flagsOf(job), at);
  const { from, ms } = timeOf(job.when);
  at = text.writeUInt8(froms[from], at);
  at = text.writeUIntBE(ms, at, 6);
  const tailAt = at + 2;
  at = writeTail(text, tailAt, job);
  text.writeUInt16BE(at - tailAt, tailAt - 2);
  if (hasPast(job)) {
    // Of the latest instant the script makes now.
    const { acceptedAt = latestEpochMs, failures = 0 } = job;
    at = text.writeUInt16BE(failures, text.writeUIntBE(acceptedAt, at, 6));
  }
  return windowMs === undefined ? at : text.writeUIntBE(windowMs, at, 6);
}

const replyBytes = 16;
/** of an outcome `ended`, whose end follows */
const endedBytes = 22;

/** The bucket has lost changes, and the job of the id may be among them. */
export const restoring = { kind: 'not_stored', code: 'restoring' } as const;

export function readPushes(
  reply: unknown,
  jobs: readonly PushJob[],
  place: string | null,
): readonly (PushOutcome | { readonly above: number })[] {
  const text = reply as Buffer;
  let at = 0;
  return jobs.map((job) => {
    const outcome = readPush(text, at, job, place);
    at += 'endedAt' in outcome ? endedBytes : replyBytes;
    return outcome;
  });
}

function readPush(
  text: Buffer,
  at: number,
  job: PushJob,
  place: string | null,
): PushOutcome | { readonly above: number } {
  const state = text.readUInt8(at + 1);
  const version = readSafe(text, at + 3);
  const dueAt = text.readUIntBE(at + 10, 6);
  switch (text.readUInt8(at)) {
    case 1: {
      const bits = text.readUInt8(at + 2);
      return {
        kind: 'stored',
        version,
        dueAt,
        state: state === 0 ? 'delayed' : 'ready',
        replaced: (bits & 1) !== 0,
        inFlight: (bits & 2) !== 0,
        ...(place === null ? {} : { place }),
      };
    }
    case 3:
      return { above: version };
    case 4:
      return restoring;
    case 5: {
      const endedAt = text.readUIntBE(at + replyBytes, 6);
      return { kind: 'ended', version, dueAt, state: endCodes[state] ?? 'dead', endedAt };
    }
    default: {
      const kind = job.mode === 'keep' ? 'kept' : 'job_exists';
      const found = { kind, version, dueAt, state: stateCodes[state] ?? 'dead' } as const;
      return kind === 'kept' && place !== null ? { ...found, kind, place } : found;
    }
  }
}
