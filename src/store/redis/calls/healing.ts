// Notes and the put-back of the port, by scripts. lua/restore.lua reads the rows.

import type { JobKey, Version } from '../../../core/job.ts';
import { isEnded, type JobRow } from '../../../core/job-change.ts';
import { limits } from '../../../core/limits.ts';
import { inBatches } from '../../../core/lists.ts';
import { deadReasonCodes, endCodes, readSafe, writeSafe } from '../../../core/stored-codes.ts';
import type {
  AllowedNote,
  Healing,
  LossState,
  OpenRows,
  PutOutcome,
  ShippedNumbers,
  WalkedJob,
} from '../../../ports/healing.ts';
import type { Partition } from '../../../ports/job-store.ts';
import type { Arrivals, Arrived, LeavingJob } from '../../../ports/leaving.ts';
import { isFailure } from '../../../ports/store-error.ts';
import { randomBytes } from '../../../runtime/time.ts';
import { batchesBySize } from '../../batches.ts';
import { redisLimits } from '../limits.ts';
import { idOf, keyBytesMax, writeKey } from '../scripts/keys.ts';
import {
  flagsOf,
  isApart,
  liesApart,
  readExtension,
  readRecord,
  readStateRecord,
  type TailParts,
  tailBytesMax,
  type WholeReply,
  writeTail,
} from '../scripts/records.ts';
import type { Arg, Shards } from '../shard/shards.ts';
import { callItems, noActiveShard, type Placed } from './calls.ts';
import { changeBytes, readChange } from './changes.ts';

/** state 0 of a script's row: waiting; 3: dead; from here on 4 + code of the end */
const endedFrom = 4;
/** bytes of a row without its key and tail */
const fixedBytes = 51;

export function healingCalls(shards: Shards): Healing {
  const look = async (partition: Partition, shipped: ShippedNumbers): Promise<LossState> => {
    const text = String(await shards.run('look', partition, lookArgs(shipped)));
    const [from = '', id, phase] = text.split(' ');
    const place = shards.placeOf(partition) ?? '';
    if (id === undefined) return { place, note: null, healed: Number(from) };
    const note = { partition, place, from: Number(from), id: Number(id) };
    return { place, note: { ...note, phase: phase === 'jobs' ? 'jobs' : 'ends' }, healed: 0 };
  };
  return {
    put: (rows, allowed = noNote, open = 'put') => putRows(shards, rows, { allowed, open, move: '' }),
    look,
    async marks(partition) {
      const reply = (await shards.run('marks', partition, [])) as Buffer[];
      const marks = inBatches(reply, 2).map(
        ([instance, number]) => [Number(instance), Number(number)] as const,
      );
      return { place: shards.placeOf(partition) ?? '', marks: new Map(marks) };
    },
    async advance({ partition, id }, to) {
      return (await shards.run('advance', partition, [id, to])) === 1;
    },
    async hold({ partition, id }, ms) {
      return (await shards.run('advance', partition, [id, 'ends', ms])) === 1;
    },
    async lacks(jobs) {
      const answers = await callItems<Versioned, { readonly kind: 'has' | 'lacks' }>(shards, jobs, {
        script: 'lacks',
        args: (batch) => [versionsOf(batch)],
        read: (reply) => [...(reply as Buffer)].map((code) => ({ kind: code === 0 ? 'has' : 'lacks' })),
        isElsewhere: ({ kind }) => kind === 'lacks',
      });
      return answers.map(({ kind }) => kind === 'lacks');
    },
    async walk(partition, cursor, take) {
      const args = [cursor ?? '0', redisLimits.walkPiece];
      const [next, ...rows] = (await shards.run('walk', partition, args)) as [Buffer, ...WalkReply[]];
      const place = shards.placeOf(partition) ?? '';
      let jobs: WalkedJob[] = [];
      let bytes = 0;
      for (const row of rows) {
        const job = isApart(row[3]) ? await readApart(shards, partition, row, place) : walkedOf(row, place);
        if (job === null) continue;
        if (jobs.length > 0 && bytes + job.body.length > limits.pushBatchBytesMax) {
          await take(jobs);
          [jobs, bytes] = [[], 0];
        }
        jobs.push(job);
        bytes += job.body.length;
      }
      if (jobs.length > 0) await take(jobs);
      return next.toString() === '0' ? null : next.toString();
    },
  };
}

interface Put {
  readonly allowed: (place: string) => AllowedNote;
  readonly open: OpenRows;
  /** '': the rows are the journal's */
  readonly move: string;
}

async function putRows(
  shards: Shards,
  rows: readonly RowToPut[],
  { allowed, open, move }: Put,
): Promise<readonly PutOutcome[]> {
  const outcomes = await callItems<RowToPut, Answer>(shards, rows, {
    script: 'restore',
    args: (batch, place) => {
      const { note, healed } = allowed(place ?? '');
      const [text, ...bodies] = restoreArgs(batch, open, place ?? '');
      return [note, healed, text ?? '', move, ...bodies];
    },
    read: readPuts,
    batches: (items) =>
      batchesBySize(items, ({ pushed, attempts }) => (pushed?.body.length ?? 0) + (attempts?.length ?? 0)),
    isElsewhere: ({ kind }) => kind === 'absent',
  });
  const absent: PutOutcome = open === 'put' ? noActiveShard : { kind: 'kept' };
  return outcomes.map((outcome) => (outcome.kind === 'absent' ? absent : outcome));
}

/** The store as the target of moves. A job that arrives is put as a row of the journal would be: live jobs
 *  and ends of this version, or of a higher one, stay. */
export function arrivalCalls(shards: Shards): Arrivals {
  let mark: string | undefined;
  const tell = async (move: number, what: 'prepare' | 'open' | 'close') => {
    mark ??= randomBytes(8).toString('hex');
    const states = new Set<unknown>();
    for (const partition of shards.partitions)
      states.add(await shards.run('moving', partition, [move, what, mark]));
    return states.has(2) ? 'healing' : states.has(0) ? 'closed' : 'open';
  };
  return {
    prepare: (move) => tell(move, 'prepare'),
    open: async (move) => (await tell(move, 'open')) === 'open',
    close: async (move) => void (await tell(move, 'close')),
    async put(move, jobs) {
      const rows = jobs.map(rowOfLeaving);
      const outcomes = await putRows(shards, rows, { allowed: noNote, open: 'put', move: String(move) });
      return outcomes.map((outcome): Arrived => {
        if (isFailure(outcome)) return outcome;
        if (outcome.kind === 'other_note') return { kind: 'closed' };
        const isNamed = outcome.kind === 'put' || outcome.kind === 'found';
        return isNamed ? { kind: 'here', change: outcome.change } : { kind: 'here' };
      });
    },
    async losses() {
      const { partitions } = shards;
      await Promise.all(partitions.map((partition) => shards.has(partition, 'n')));
      return partitions.reduce((sum, partition) => sum + shards.lossesOf(partition), 0);
    },
    isNearlyFull: () => shards.openPartitions.some((partition) => shards.isNearlyFull(partition)),
  };
}

/** Its alert is mailed from the jobs.db, so it counts as settled here. */
function rowOfLeaving({ attempts, ...job }: LeavingJob): RowToPut {
  const { version, death, acceptedAt, priority, contentType, extension, body } = job;
  return {
    topic: job.topic,
    id: job.id,
    version,
    origin: job.origin,
    number: version,
    dueAt: job.dueAt,
    failures: job.failures,
    place: '',
    state: death === null ? 'waiting' : 'dead',
    orderAt: death === null ? job.dueAt : death.at,
    reason: death?.reason ?? null,
    endedOrigin: 0,
    alertTold: version,
    bodyOrigin: job.origin,
    pushed: { acceptedAt, priority, contentType, extension, body },
    attempts: Buffer.from(attempts.map((attempt) => JSON.stringify(attempt)).join('\n')),
  };
}

/** `attempts`: as P:p stores them; absent: none are known */
type RowToPut = JobRow & { readonly attempts?: Buffer };

type Versioned = JobKey & { readonly version: Version };

function versionsOf(batch: readonly Placed<Versioned>[]): Buffer {
  let bytesMax = 0;
  for (const { item } of batch) bytesMax += keyBytesMax(item) + 7;
  const text = Buffer.allocUnsafe(bytesMax);
  let at = 0;
  for (const { item } of batch) at = writeSafe(text, writeKey(text, at, item), item.version);
  return text.subarray(0, at);
}

/** topic, tag+id, 1 = its alert is settled, record, state record */
type WalkReply = readonly [Buffer, Buffer, number, Buffer, Buffer];

const none: Buffer = Buffer.alloc(0);

function walkedOf([topic, tid, told, record, more]: WalkReply, place: string, apart = none): WalkedJob {
  const { version, origin, dueAt, acceptedAt, priority, contentType, body } = readRecord(record, apart);
  const { state, failures, deadAt, reason } = readStateRecord(more);
  return {
    topic: topic.toString(),
    id: idOf(tid),
    place,
    version,
    origin,
    dueAt,
    failures,
    acceptedAt,
    priority,
    contentType,
    body,
    extension: readExtension(record),
    death:
      state === 3
        ? { at: deadAt, reason: deadReasonCodes[reason] ?? 'attempts_exhausted', isTold: told === 1 }
        : null,
  };
}

/** The job as it is now; null: it has ended meanwhile, or its body is missing. */
async function readApart(
  shards: Shards,
  partition: Partition,
  [topic, tid, told, found]: WalkReply,
  place: string,
): Promise<WalkedJob | null> {
  const { list } = shards.routeOf({ topic: topic.toString(), id: idOf(tid) });
  const reply = (await shards.run('get', partition, [topic, tid], list)) as WholeReply | readonly [];
  if (reply.length === 0) return null;
  const [, , , record, more, , body] = reply;
  if (isApart(record) && body.length === 0) return null;
  const isSame = readRecord(record, body).version === readRecord(found, none).version;
  return walkedOf([topic, tid, isSame ? told : 0, record, more], place, body);
}

function lookArgs({ writers, marks, forget }: ShippedNumbers): readonly Arg[] {
  const compared = [
    ...[...writers].map(([name, number]) => [`w${name}`, number] as const),
    ...[...marks].map(([instance, { known }]) => [`r${instance}`, known] as const),
  ];
  const raised = [...marks].map(([instance, { next }]) => [`r${instance}`, next] as const);
  return [
    compared.length,
    ...compared.flat(),
    raised.length,
    ...raised.flat(),
    ...(forget === null ? [] : [forget.instance, forget.below]),
  ];
}

const noNote = (): AllowedNote => ({ note: 0, healed: Number.MAX_SAFE_INTEGER });

function restoreArgs(batch: readonly Placed<RowToPut>[], open: OpenRows, place: string): readonly Arg[] {
  let bytesMax = 0;
  for (const { item } of batch) {
    const { attempts } = item;
    bytesMax += fixedBytes + keyBytesMax(item) + tailBytesMax(tailOf(item)) + (attempts?.length ?? 0);
  }
  const text = Buffer.allocUnsafe(bytesMax);
  let at = 0;
  for (const placed of batch) at = writeRow(text, at, placed, howOf(placed, open, place));
  const apart = batch.map(({ item }) => tailOf(item)).filter(liesApart);
  return [text.subarray(0, at), ...apart.map(({ body }) => body)];
}

/** Of an ended row nothing is put back. */
function tailOf(row: JobRow): TailParts {
  if (row.pushed === null || isEnded(row)) return emptyTail;
  const { priority, contentType, extension, body } = row.pushed;
  return { priority, contentType, extension, body };
}
const emptyTail: TailParts = {
  priority: 'normal',
  contentType: null,
  extension: null,
  body: Buffer.alloc(0),
};

function howOf({ item: row, isEarlier }: Placed<JobRow>, open: OpenRows, place: string): number {
  if (isEnded(row)) return Number(isEarlier);
  const only = Math.max(Number(isEarlier), openCodes[open]);
  if (row.place === place) return only;
  return only + 4 + (isEarlier ? 8 : 0);
}

/** Returns the offset after it. */
function writeRow(text: Buffer, start: number, { item: row }: Placed<RowToPut>, how: number): number {
  const tail = tailOf(row);
  let at = writeKey(text, start, row);
  at = text.writeUInt8(stateOf(row), at);
  at = text.writeUInt8(how, at);
  at = writeSafe(text, at, row.version);
  at = writeSafe(text, at, row.origin);
  at = text.writeUIntBE(row.dueAt, at, 6);
  at = text.writeUInt16BE(row.failures, at);
  at = text.writeUIntBE(row.pushed?.acceptedAt ?? 0, at, 6);
  at = text.writeUIntBE(row.state === 'dead' ? row.orderAt : 0, at, 6);
  at = writeSafe(text, at, row.number);
  at = text.writeUInt8(row.reason === null ? 0 : deadReasonCodes.indexOf(row.reason), at);
  at = text.writeUInt8(row.alertTold >= row.version ? 1 : 0, at);
  at = text.writeUInt8(flagsOf(tail), at);
  const tailAt = at + 2;
  at = writeTail(text, tailAt, tail);
  text.writeUInt16BE(at - tailAt, tailAt - 2);
  const { attempts } = row;
  at = text.writeUInt32BE(attempts?.length ?? 0, at);
  return at + (attempts?.copy(text, at) ?? 0);
}

function stateOf({ state }: JobRow): number {
  if (state === 'waiting') return 0;
  if (state === 'dead') return 3;
  if (state === 'none') throw new Error('a row without a state cannot be put back');
  return endedFrom + endCodes.indexOf(state);
}

/** `number`: an older version is removed */
type Answer = PutOutcome | { readonly kind: 'absent'; readonly number?: Version };

const kinds = ['absent', 'put', 'removed', 'kept', 'ended', 'other_note', 'older', 'found'] as const;
/** codes after those of the kinds */
const [displaced, entryLeft] = [8, 9];
const openCodes: Readonly<Record<OpenRows, number>> = { put: 0, replace: 1, compare: 2 };

/** `place`: null: changes are not named */
function readPuts(reply: unknown, rows: readonly JobRow[], place: string | null): readonly Answer[] {
  const text = reply as Buffer;
  let at = 0;
  return rows.map((): Answer => {
    const code = text.readUInt8(at);
    at += 1;
    if (code === displaced || code === entryLeft) {
      at += 7;
      return { kind: code === displaced ? 'absent' : 'kept', number: readSafe(text, at - 7) };
    }
    const kind = kinds[code] ?? 'kept';
    if (kind === 'removed') {
      at += 7;
      return { kind, place: place ?? '', number: readSafe(text, at - 7) };
    }
    if (place === null && (kind === 'put' || kind === 'found')) return { kind: 'kept' };
    if (kind === 'put' || kind === 'found') {
      at += changeBytes;
      return { kind, change: readChange(text, at - changeBytes, place ?? '') };
    }
    if (kind === 'other_note') {
      at += 7;
      return { kind, place: place ?? '', note: readSafe(text, at - 7) };
    }
    if (kind !== 'ended') return { kind };
    at += 14;
    const end = endCodes[text.readUInt8(at - 14)] ?? 'done';
    return { kind, end, version: readSafe(text, at - 13), endedAt: text.readUIntBE(at - 6, 6) };
  });
}
