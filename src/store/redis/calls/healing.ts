// Notes and the put-back of the port, by scripts. lua/restore.lua reads the rows.

import type { Version } from '../../../core/job.ts';
import { isEnded, type JobRow } from '../../../core/journal/job-row.ts';
import { readSafe, writeSafe } from '../../../core/number-bytes.ts';
import { endCodes, reasonCodes } from '../../../core/stored-codes.ts';
import type { Healing, LossState, PutOutcome, ShippedNumbers } from '../../../ports/healing.ts';
import type { Partition } from '../../../ports/job-store.ts';
import { batchesBySize } from '../../batches.ts';
import { keyBytesMax, writeKey } from '../scripts/keys.ts';
import { flagsOf, liesApart, type TailParts, tailBytesMax, writeTail } from '../scripts/records.ts';
import type { Arg, Shards } from '../shard/shards.ts';
import { callItems, noActiveShard, type Placed } from './calls.ts';
import { changeBytes, readChange } from './changes.ts';

/** state 0 of a script's row: waiting; 3: dead; from here on 4 + code of the end */
const endedFrom = 4;
/** bytes of a row without its key and tail */
const fixedBytes = 40;

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
    async put(rows, noteId, olderOnly = false) {
      const outcomes = await callItems<JobRow, Answer>(shards, rows, {
        script: 'restore',
        args: (batch) => [noteId, ...restoreArgs(batch, olderOnly)],
        read: (reply, items, place) => readPuts(reply, items, place ?? ''),
        batches: (items) => batchesBySize(items, ({ pushed }) => pushed?.body.length ?? 0),
        isElsewhere: ({ kind }) => kind === 'absent',
      });
      const absent: PutOutcome = olderOnly ? { kind: 'kept' } : noActiveShard;
      return outcomes.map((outcome) => (outcome.kind === 'absent' ? absent : outcome));
    },
    look,
    async marks(partition) {
      const reply = (await shards.run('marks', partition, [])) as Buffer[];
      const found = new Map<number, Version>();
      for (let i = 0; i < reply.length; i += 2) found.set(Number(reply[i]), Number(reply[i + 1]));
      return { place: shards.placeOf(partition) ?? '', marks: found };
    },
    async advance({ partition, id }, to) {
      return (await shards.run('advance', partition, [id, to])) === 1;
    },
  };
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

function restoreArgs(batch: readonly Placed<JobRow>[], olderOnly: boolean): readonly Arg[] {
  let bytesMax = 0;
  for (const { item } of batch) bytesMax += fixedBytes + keyBytesMax(item) + tailBytesMax(tailOf(item));
  const text = Buffer.allocUnsafe(bytesMax);
  let at = 0;
  for (const placed of batch) at = writeRow(text, at, placed, olderOnly);
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
  ...{ priority: 'normal', contentType: null, extension: null, body: Buffer.alloc(0) },
};

/** Returns the offset after it. */
function writeRow(
  text: Buffer,
  start: number,
  { item: row, isEarlier }: Placed<JobRow>,
  olderOnly: boolean,
): number {
  const tail = tailOf(row);
  let at = writeKey(text, start, row);
  at = text.writeUInt8(stateOf(row), at);
  at = text.writeUInt8(isEarlier || (olderOnly && !isEnded(row)) ? 1 : 0, at);
  at = writeSafe(text, at, row.version);
  at = writeSafe(text, at, row.origin);
  at = text.writeUIntBE(row.dueAt, at, 6);
  at = text.writeUInt16BE(row.failures, at);
  at = text.writeUIntBE(row.pushed?.acceptedAt ?? 0, at, 6);
  at = text.writeUIntBE(row.state === 'dead' ? row.orderAt : 0, at, 6);
  at = text.writeUInt8(row.reason === null ? 0 : reasonCodes.indexOf(row.reason), at);
  at = text.writeUInt8(row.alertTold >= row.version ? 1 : 0, at);
  at = text.writeUInt8(flagsOf(tail), at);
  const tailAt = at + 2;
  at = writeTail(text, tailAt, tail);
  text.writeUInt16BE(at - tailAt, tailAt - 2);
  return at;
}

function stateOf({ state }: JobRow): number {
  if (state === 'waiting') return 0;
  if (state === 'dead') return 3;
  if (state === 'none') throw new Error('a row without a state cannot be put back');
  return endedFrom + endCodes.indexOf(state);
}

type Answer = PutOutcome | { readonly kind: 'absent' };

const kinds = ['absent', 'put', 'removed', 'kept', 'ended', 'other_note'] as const;

function readPuts(reply: unknown, rows: readonly JobRow[], place: string): readonly Answer[] {
  const text = reply as Buffer;
  let at = 0;
  return rows.map(() => {
    const kind = kinds[text.readUInt8(at)] ?? 'kept';
    at += 1;
    if (kind === 'put') {
      at += changeBytes;
      return { kind, change: readChange(text, at - changeBytes, place) };
    }
    if (kind !== 'ended') return { kind };
    at += 14;
    const end = endCodes[text.readUInt8(at - 14)] ?? 'done';
    return { kind, end, version: readSafe(text, at - 13), endedAt: text.readUIntBE(at - 6, 6) };
  });
}
