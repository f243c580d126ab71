// Reads the arguments and replies of scripts, as a second reader beside the code that writes them. layout.md
// and the first lines of each script describe the bytes.

import type { JobKey, Lease, Owner, ReservedJob, VersionedKey } from '../../../src/core/job.ts';
import { deadReasonCodes, endCodes, readSafe } from '../../../src/core/stored-codes.ts';
import type { PushJob, PushOutcome } from '../../../src/ports/job-store.ts';
import { idOf } from '../../../src/store/redis/scripts/keys.ts';
import { readRecord, readStateRecord } from '../../../src/store/redis/scripts/records.ts';
import type { RestoredRow } from '../ledger.ts';
import type { Ran } from './redis-machine.ts';
import type { Reply } from './resp.ts';

/** Arguments of every script before its own: marker, list number, switches. */
const common = 3;
const changeBytes = 29;
/** By kind of a restored row: what follows it in the reply. */
const restoreBytes: Readonly<Record<number, number>> = {
  ...{ 1: changeBytes, 2: 7, 4: 14, 5: 7, 7: changeBytes, 8: 7, 9: 7 },
};
const replaceCode = 114;
const keepCode = 107;
/** Of the letter of a mode without a window. */
const smallLetters = 97;

const numberOf = (bytes: Buffer | undefined): number => Number(String(bytes));
const textOf = (reply: Reply | undefined): string => String(reply);

class Cursor {
  readonly bytes: Buffer;
  at = 0;

  constructor(bytes: Buffer) {
    this.bytes = bytes;
  }

  get isAtEnd(): boolean {
    return this.at >= this.bytes.length;
  }

  uint(size: number): number {
    const n = size === 7 ? readSafe(this.bytes, this.at) : this.bytes.readUIntBE(this.at, size);
    this.at += size;
    return n;
  }

  slice(length: number): Buffer {
    this.at += length;
    return this.bytes.subarray(this.at - length, this.at);
  }

  key(): JobKey {
    const topic = this.slice(this.uint(1)).toString('latin1');
    return { topic, id: idOf(this.slice(this.uint(2))) };
  }
}

/** Whether history-forget examines young entries, too. */
export const sparesTicks = (args: readonly Buffer[]): boolean => args.length > common + 2;

export function readSettle(args: readonly Buffer[]) {
  const [as, ...versions] = args.slice(common).map(numberOf);
  return { as: (['owed', '', 'sent', 'nobody'] as const)[as ?? 0] || 'owed', versions };
}

/** The members of a push that the ledger needs. */
export type ReadPush = Pick<PushJob, 'topic' | 'id' | 'body' | 'mode'>;

/** The jobs of a push, each with its outcome; null: the job lives in no place that the script may change. */
export function readPushes(
  args: readonly Buffer[],
  reply: Reply,
): readonly (readonly [ReadPush, PushOutcome | null])[] {
  const [text = Buffer.alloc(0), ...apart] = args.slice(common);
  const cursor = new Cursor(text);
  const answers = new Cursor(reply as Buffer);
  const found: (readonly [ReadPush, PushOutcome | null])[] = [];
  while (!cursor.isAtEnd) {
    const key = cursor.key();
    const letter = cursor.uint(1);
    const hasWindow = letter < smallLetters;
    const code = hasWindow ? letter + 32 : letter;
    const mode = code === replaceCode ? 'replace' : code === keepCode ? 'keep' : 'reject';
    cursor.slice(1 + 7);
    const flags = cursor.uint(1);
    cursor.slice(1 + 6);
    const tail = cursor.slice(cursor.uint(2));
    if ((flags & 64) !== 0) cursor.slice(8);
    if (hasWindow) cursor.slice(6);
    // A record without its numbers, so that the reader of records reads the tail.
    const record = Buffer.concat([Buffer.from([flags & ~64]), Buffer.alloc(13), tail]);
    const body = (flags & 32) === 0 ? readRecord(record, tail).body : (apart.shift() ?? tail);
    found.push([{ ...key, mode, body }, readPushed(answers, mode)]);
  }
  return found;
}

function readPushed(answer: Cursor, mode: PushJob['mode']): PushOutcome | null {
  const [kind, state, bits] = [answer.uint(1), answer.uint(1), answer.uint(1)];
  const [version, dueAt] = [answer.uint(7), answer.uint(6)];
  if (kind === 1) {
    const [replaced, inFlight] = [(bits & 1) !== 0, (bits & 2) !== 0];
    return { kind: 'stored', version, dueAt, state: state === 0 ? 'delayed' : 'ready', replaced, inFlight };
  }
  if (kind === 5)
    return { kind: 'ended', version, dueAt, state: endCodes[state] ?? 'dead', endedAt: answer.uint(6) };
  if (kind === 2) return { kind: mode === 'keep' ? 'kept' : 'job_exists', version, dueAt, state: 'ready' };
  return null;
}

export interface ReadFinish extends Lease {
  /** delay or code of a reason */
  readonly number: number;
  /** null: none was sent */
  readonly attempt: string | null;
  /** of a retry: the new options of the job; undefined: they stay */
  readonly extension: Buffer | undefined;
  readonly isDone: boolean;
  /** null: none was sent */
  readonly outcome: ReadOutcome | null;
  /** A pull client shows it. */
  readonly isPulled: boolean;
  readonly ifExpired: boolean;
}

/** Whether the caller writes a journal: the reply names the changes. */
const isRecorded = (args: readonly Buffer[]): boolean => String(args[common - 1]).includes(' ');

/** The keys of a cancel, each with its code, and the number that the end of an absent job drew. */
export function readCancels({ args, reply }: Ran) {
  const text = reply as Buffer;
  const hasChanges = isRecorded(args);
  let at = 0;
  return readVerbs(args, 1, 3).map((key) => {
    const code = text.readUInt8(at);
    const number = hasChanges && code === 3 ? readSafe(text, at + 1) : 0;
    at += hasChanges && code > 0 && code < 128 ? 1 + changeBytes : 1;
    return { key, code, number };
  });
}

/** Rows that a restore put back, and keys of jobs that it removed. */
export function readRestores({ args, reply }: Ran): {
  readonly put: readonly RestoredRow[];
  readonly removed: readonly JobKey[];
  /** of a jobs.db, not of the journal */
  readonly isMove: boolean;
} {
  const [text = Buffer.alloc(0), move = text, ...apart] = args.slice(common + 2);
  const cursor = new Cursor(text);
  const answers = new Cursor(reply as Buffer);
  const [put, removed]: [RestoredRow[], JobKey[]] = [[], []];
  while (!cursor.isAtEnd) {
    const key = cursor.key();
    const state = cursor.uint(1);
    cursor.slice(1);
    const [version, origin] = [cursor.uint(7), cursor.uint(7)];
    const [dueAt, failures] = [cursor.uint(6), cursor.uint(2)];
    cursor.slice(6);
    const deathAt = cursor.uint(6);
    cursor.slice(7 + 1);
    const isTold = cursor.uint(1) === 1;
    const flags = cursor.uint(1);
    const tail = cursor.slice(cursor.uint(2));
    cursor.slice(cursor.uint(4));
    const record = Buffer.concat([Buffer.from([flags]), Buffer.alloc(13), tail]);
    const body = (flags & 32) === 0 ? readRecord(record, tail).body : (apart.shift() ?? tail);
    const kind = answers.uint(1);
    const namesChange = kind === 1 || kind === 7;
    if (!namesChange || isRecorded(args)) answers.slice(restoreBytes[kind] ?? 0);
    const deadAt = state === 3 ? deathAt : null;
    if (kind === 1) put.push({ ...key, version, origin, dueAt, failures, body, deadAt, isTold });
    else if (kind === 2) removed.push(key);
  }
  return { put, removed, isMove: move.length > 0 };
}

/** The own argument `at` of a script. */
export const readInstance = (args: readonly Buffer[], at: number): number => numberOf(args[common + at]);

/** The leases that a call names. `hasBlocks`: new options of the job stand before its attempt. */
function readShown(
  args: readonly Buffer[],
  hasBlocks = false,
): readonly Omit<ReadFinish, 'isDone' | 'outcome'>[] {
  const cursor = new Cursor(args[common] ?? Buffer.alloc(0));
  const found: Omit<ReadFinish, 'isDone' | 'outcome'>[] = [];
  while (!cursor.isAtEnd) {
    const key = cursor.key();
    const [version, token] = [cursor.uint(7), cursor.uint(7)];
    const flags = cursor.uint(1);
    const number = cursor.uint(6);
    const last = new Cursor(cursor.slice(cursor.uint(4)));
    const block = hasBlocks ? last.slice(last.uint(2)) : null;
    const extension = block === null || block.length === 0 ? undefined : block;
    const text = last.slice(last.bytes.length - last.at).toString();
    const attempt = text === '' ? null : text;
    const shown = { isPulled: (flags & 2) !== 0, ifExpired: (flags & 1) !== 0 };
    found.push({ ...key, version, token, ...shown, number, attempt, extension });
  }
  return found;
}

/** The leases of an ack, retry, bury or release. */
export function readFinishes(
  verb: 'ack' | 'retry' | 'bury' | 'release',
  { args, reply }: Ran,
): readonly ReadFinish[] {
  const hasChanges = isRecorded(args) && verb !== 'release';
  const answers = new Cursor(reply as Buffer);
  const outcomes = verb === 'ack' || verb === 'bury' ? readOutcomes(args) : new Map<number, ReadOutcome>();
  return readShown(args, verb === 'retry').map((lease, n) => {
    const code = answers.uint(1);
    if (hasChanges) answers.slice(code * changeBytes);
    return { ...lease, isDone: code > 0, outcome: outcomes.get(n + 1) ?? null };
  });
}

export type ReadOutcome = JobKey & { readonly body: Buffer };

/** The outcome jobs of an ack or bury, by the numbers of their leases. */
function readOutcomes(args: readonly Buffer[]): ReadonlyMap<number, ReadOutcome> {
  const [text = Buffer.alloc(0), ...apart] = args.slice(common + 1);
  const cursor = new Cursor(text);
  const found = new Map<number, ReadOutcome>();
  while (!cursor.isAtEnd) {
    const number = cursor.uint(2);
    const key = cursor.key();
    const flags = cursor.uint(1);
    cursor.slice(6);
    const tail = cursor.slice(cursor.uint(2));
    const record = Buffer.concat([Buffer.from([flags]), Buffer.alloc(13), tail]);
    const body = (flags & 32) === 0 ? readRecord(record, tail).body : (apart.shift() ?? tail);
    found.set(number, { ...key, body });
  }
  return found;
}

/** The leases of an extend; `until`: null for a lost one. */
export function readExtends({ args, reply }: Ran) {
  const answers = new Cursor(reply as Buffer);
  return readShown(args).map(({ number: leaseMs, ...lease }) => {
    const [code, until] = [answers.uint(1), answers.uint(6)];
    return { ...lease, leaseMs, until: code === 1 ? until : null };
  });
}

export const reasonOfCode = (code: number): string => deadReasonCodes[code] ?? '?';

/** Of a bulk call on dead letters: those that died at or after this number do not match; null: all do. */
export function readBelow(args: readonly Buffer[]): number | null {
  const below = numberOf(args[common + 4]);
  return below < 0 ? null : below;
}

/** Keys of a cancel, run, reschedule or requeue; `size`: arguments of one. */
export function readVerbs(args: readonly Buffer[], first: number, size: number): readonly VersionedKey[] {
  const found: VersionedKey[] = [];
  for (let i = common + first; i < args.length; i += size) {
    const key = { topic: String(args[i]), id: idOf(args[i + 1] as Buffer) };
    const version = String(args[i + 2]);
    found.push(version === '' ? key : { ...key, version: Number(version) });
  }
  return found;
}

/** The items of an edit that the ledger needs. */
export function readEdits(args: readonly Buffer[]) {
  return readVerbs(args, 0, 8).map((key, n) => {
    const [requeue, flags, tail = Buffer.alloc(0), apart = tail] = args.slice(common + 8 * n + 4);
    const code = numberOf(flags);
    const record = Buffer.concat([Buffer.from([code]), Buffer.alloc(13), tail]);
    const body = (code & 32) === 0 ? readRecord(record, tail).body : apart;
    return { ...key, body, requeue: String(requeue) === '1' };
  });
}

/** A reserve: the owner and the leased jobs. */
export function readReserve(
  args: readonly Buffer[],
  reply: Reply,
): { readonly owner: Owner; readonly jobs: readonly ReservedJob[] } {
  const [instance, incarnation, , , , othersMs, mode] = args.slice(common);
  const first = common + (String(mode) === 'ring' ? 7 : 13);
  const lengths = new Map<string, number>();
  for (let i = first; i < args.length; i += 4) lengths.set(String(args[i]), numberOf(args[i + 2]));
  const [kind, , , , , ...leased] = reply as readonly Reply[];
  // Kind 5 names topics instead.
  const [named = [], text, ...bodies] = (kind === 5 ? [] : leased) as [Reply[]?, Buffer?, ...Buffer[]];
  const bytes = new Cursor(text ?? Buffer.alloc(0));
  const jobs: ReservedJob[] = [];
  while (!bytes.isAtEnd) {
    const [fieldBytes, recordBytes] = [bytes.uint(2), bytes.uint(4)];
    const topic = textOf(named[named.indexOf(bytes.uint(3)) + 1]);
    const key = { topic, id: idOf(bytes.slice(fieldBytes - 3)) };
    const { failures, strikes, token } = readStateRecord(bytes.slice(28));
    const record = bytes.slice(recordBytes);
    const apart = ((record[0] ?? 0) & 32) === 0 ? record : (bodies.shift() as Buffer);
    const { version, origin, dueAt, acceptedAt, contentType, body, extension } = readRecord(record, apart);
    const leaseMs = lengths.get(topic) ?? numberOf(othersMs);
    const numbers = { version, token, origin, dueAt, acceptedAt, failures, strikes, leaseMs };
    jobs.push({ ...key, ...numbers, contentType, body, ...(extension === undefined ? {} : { extension }) });
  }
  return { owner: { instance: numberOf(instance), incarnation: numberOf(incarnation) }, jobs };
}
