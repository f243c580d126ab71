// Reads the stored records, and writes those parts that a push sends. lua/shared/jobs.lua and alerts.lua pack
// and unpack the same bytes; layout.md explains them. Codes are stored: only add at the end.

import { latestEpochMs } from '../../../core/duration.ts';
import { optionsIn } from '../../../core/extension.ts';
import type {
  AttemptRecord,
  EndedJob,
  FoundJob,
  JobKey,
  JobSnapshot,
  ReservedJob,
} from '../../../core/job.ts';
import {
  alertCodes,
  deadReasonCodes,
  endCodes,
  priorityCodes,
  readSafe,
  stateCodes,
  withFirstAttempt,
} from '../../../core/stored-codes.ts';
import type { AlertEntry, PushJob, When } from '../../../ports/job-store.ts';
import { redisLimits } from '../limits.ts';
import { idOf } from './keys.ts';

/** Frequent content types, stored in three bits; null = none given. */
const typeCodes: readonly (string | null)[] = [
  null,
  'application/json',
  'application/json; charset=utf-8',
  'application/octet-stream',
  'application/x-www-form-urlencoded',
  'text/plain',
  'text/plain; charset=utf-8',
];
const otherType = 7;
const bodyApart = 32;
/** in a stored record: origin and acceptedAt follow; in a push: its past follows */
const movedOn = 64;
/** the tail begins with the length and the bytes of the extension block */
const extended = 128;

/** The part of a job that a push or a row of the journal brings, without numbers. */
export interface TailParts extends Pick<PushJob, 'priority' | 'contentType' | 'body'> {
  readonly extension: Buffer | null;
}

/** Whether the body is stored outside the record. */
export function liesApart({ body }: Pick<PushJob, 'body'>): boolean {
  return body.length > redisLimits.inlineBodyBytesMax;
}

export function flagsOf(job: PushJob | TailParts): number {
  const known = typeCodes.indexOf(job.contentType);
  const type = known < 0 ? otherType : known;
  return (
    priorityCodes.indexOf(job.priority) +
    4 * type +
    (liesApart(job) ? bodyApart : 0) +
    ('mode' in job && hasPast(job) ? movedOn : 0) +
    ((job.extension ?? null) === null ? 0 : extended)
  );
}

/** Whether the push of an imported job brings its past. */
export function hasPast({ acceptedAt, failures }: PushJob): boolean {
  return acceptedAt !== undefined || failures !== undefined;
}

/** Upper bound for writeTail. */
export function tailBytesMax(job: PushJob | TailParts): number {
  const { contentType, body, extension } = job;
  return (
    4 +
    (extension?.length ?? 0) +
    3 * (contentType?.length ?? 0) +
    Math.min(body.length, redisLimits.inlineBodyBytesMax)
  );
}

/** Writes the part of a record after the numbers: extension block, content type and body. Returns the offset
 *  after it. */
export function writeTail(bytes: Buffer, start: number, job: PushJob | TailParts): number {
  const { contentType, body, extension = null } = job;
  let at = start;
  if (extension !== null) {
    at = bytes.writeUInt16BE(extension.length, at);
    at += extension.copy(bytes, at);
  }
  if (contentType !== null && !typeCodes.includes(contentType)) {
    const length = bytes.write(contentType, at + 2);
    bytes.writeUInt16BE(length, at);
    at += 2 + length;
  }
  return liesApart(job) ? at : at + body.copy(bytes, at);
}

/** Whether the body of a stored record lies outside it. */
export const isApart = (record: Buffer): boolean => (record.readUInt8(0) & bodyApart) !== 0;

/** The extension block of a stored record. */
export function readExtension(record: Buffer): Buffer | null {
  const flags = record.readUInt8(0);
  if ((flags & extended) === 0) return null;
  const at = (flags & movedOn) === 0 ? 14 : 27;
  return record.subarray(at + 2, at + 2 + record.readUInt16BE(at));
}

/** Reads the record of a job. `apart`: its body, if it is stored outside the record */
export function readRecord(record: Buffer, apart: Buffer) {
  const flags = record.readUInt8(0);
  const version = readSafe(record, 7);
  const moved = (flags & movedOn) !== 0;
  let at = moved ? 27 : 14;
  const extension = readExtension(record);
  if (extension !== null) at += 2 + extension.length;
  const code = (flags >> 2) & 7;
  let contentType = typeCodes[code] ?? null;
  if (code === otherType) {
    const length = record.readUInt16BE(at);
    contentType = record.toString('utf8', at + 2, at + 2 + length);
    at += 2 + length;
  }
  return {
    version,
    origin: moved ? readSafe(record, 14) : version,
    dueAt: record.readUIntBE(1, 6),
    acceptedAt: moved ? record.readUIntBE(21, 6) : Math.floor(version / 1000),
    priority: priorityCodes[flags & 3] ?? 'low',
    contentType,
    body: (flags & bodyApart) === 0 ? record.subarray(at) : apart,
    ...(extension === null ? {} : { extension }),
  };
}

const stateBytes = 28;

/** Reads the state record of a job; an empty buffer = none yet. */
export function readStateRecord(stateRecord: Buffer) {
  if (stateRecord.length === 0)
    return { state: 0, failures: 0, strikes: 0, token: 0, instance: 0, incarnation: 0, deadAt: 0, reason: 0 };
  return {
    state: stateRecord.readUInt8(0),
    failures: stateRecord.readUInt16BE(1),
    strikes: stateRecord.readUInt8(3),
    token: readSafe(stateRecord, 4),
    instance: stateRecord.readUInt32BE(11),
    incarnation: stateRecord.readUIntBE(15, 6),
    deadAt: stateRecord.readUIntBE(21, 6),
    reason: stateRecord.readUInt8(27),
  };
}

export function readAttempts(lines: Buffer): readonly AttemptRecord[] {
  if (lines.length === 0) return [];
  return lines
    .toString()
    .split('\n')
    .flatMap((line) => readAttempt(line) ?? []);
}

/** null: unreadable; the job or alert stays usable without it. */
function readAttempt(line: string): AttemptRecord | null {
  try {
    return JSON.parse(line) as AttemptRecord;
  } catch {
    return null;
  }
}

/** The reply of lua/shared/whole.lua: topic, tag+id, state, record, state record, attempts, body apart. */
export type WholeReply = readonly [Buffer, Buffer, number, Buffer, Buffer, Buffer, Buffer];

export function readWhole([
  topic,
  tid,
  state,
  record,
  stateRecord,
  attempts,
  apart,
]: WholeReply): JobSnapshot {
  const { priority, ...kept } = readRecord(record, apart);
  const { failures, strikes, deadAt, reason } = readStateRecord(stateRecord);
  const isDead = stateCodes[state] === 'dead';
  return {
    topic: topic.toString(),
    id: idOf(tid),
    ...kept,
    state: stateCodes[state] ?? 'dead',
    failures,
    strikes,
    attempts: readAttempts(attempts),
    deadAt: isDead ? deadAt : null,
    deadReason: isDead ? (deadReasonCodes[reason] ?? null) : null,
  };
}

/** Reads the jobs of the reply of reserve. `apart`: the bodies outside their records, in the order of the
 *  jobs; `topics`: by number; `isPulled`: a job's own lease counts */
export function readReserved(
  text: Buffer,
  apart: readonly Buffer[],
  topics: ReadonlyMap<number, { readonly name: string; readonly leaseMs: number }>,
  isPulled: boolean,
): ReservedJob[] {
  const jobs: ReservedJob[] = [];
  let bodies = 0;
  for (let at = 0; at < text.length; ) {
    const state = at + 6 + text.readUInt16BE(at);
    const start = state + stateBytes;
    const end = start + text.readUInt32BE(at + 2);
    const { name, leaseMs } = topics.get(text.readUIntBE(at + 6, 3)) as { name: string; leaseMs: number };
    // A copy: a view would keep the whole text in memory during the callback.
    const record = Buffer.from(text.subarray(start, end));
    const outside = isApart(record) ? (apart[bodies++] as Buffer) : record;
    const { version, origin, dueAt, acceptedAt, contentType, body, extension } = readRecord(record, outside);
    // A literal: rests and spreads make slow objects, and the notifier reads each member several times.
    const job = {
      topic: name,
      id: idOf(text.subarray(at + 9, state)),
      version,
      token: readSafe(text, state + 4),
      origin,
      dueAt,
      acceptedAt,
      failures: text.readUInt16BE(state + 1),
      strikes: text.readUInt8(state + 3),
      leaseMs: (isPulled ? optionsIn(extension).leaseMs : undefined) ?? leaseMs,
      contentType,
      body,
    };
    jobs.push(extension === undefined ? job : { ...job, extension });
    at = end;
  }
  return jobs;
}

/** topic, tag+id, state, record, state record */
export type FoundReply = readonly [Buffer, Buffer, number, Buffer, Buffer];

export function readFound([topic, tid, state, record, stateRecord]: FoundReply): FoundJob {
  const { version, origin, dueAt, acceptedAt } = readRecord(record, record);
  const { failures, deadAt } = readStateRecord(stateRecord);
  const name = stateCodes[state] ?? 'dead';
  return {
    topic: topic.toString(),
    id: idOf(tid),
    version,
    origin,
    state: name,
    dueAt,
    acceptedAt,
    failures,
    deadAt: name === 'dead' ? deadAt : null,
    endedAt: null,
  };
}

/** Attempts of a history entry; `lines`: those stored outside it, which are older */
export function readEndedAttempts(record: Buffer, lines: Buffer): readonly AttemptRecord[] {
  const follows = record.length > endedBytes && record.readUInt8(endedBytes) !== closedBy;
  return follows
    ? withFirstAttempt(readAttempts(lines), record.toString('utf8', endedBytes))
    : readAttempts(lines);
}

/** bytes of an entry before its first attempt, or the number of its cancel or purge (healing.lua) */
const endedBytes = 35;
const closedBy = 255;

/** Reads a history entry. */
export function readEnded(key: JobKey, record: Buffer): Omit<EndedJob, 'attempts'> {
  return {
    topic: key.topic,
    id: key.id,
    version: readSafe(record, 9),
    origin: readSafe(record, 16),
    state: endCodes[record.readUInt8(0)] ?? 'done',
    endedAt: record.readUIntBE(29, 6),
    dueAt: record.readUIntBE(3, 6),
    acceptedAt: record.readUIntBE(23, 6),
    failures: record.readUInt16BE(1),
  };
}

/** `now`: the storage clock (ms); an alert with an expired claim is owed. */
export function readAlert(topic: string, version: number, record: Buffer, now: number): AlertEntry {
  const state = record.readUInt8(0);
  const claimedUntil = record.readUIntBE(10, 6);
  const end = 21 + record.readUInt16BE(19);
  const attempt = record.toString('utf8', end);
  const hasExpired = alertCodes[state] === 'claimed' && claimedUntil <= now;
  return {
    topic,
    id: idOf(record.subarray(21, end)),
    version,
    deadAt: record.readUIntBE(1, 6),
    reason: deadReasonCodes[record.readUInt8(7)] ?? 'attempts_exhausted',
    failures: record.readUInt16BE(8),
    attempt: readAttempt(attempt),
    state: hasExpired ? 'owed' : (alertCodes[state] ?? 'owed'),
  };
}

/** A delay for the scripts: whole ms, rounded up, at most six bytes. */
export function wholeMs(delayMs: number): number {
  const ms = Math.max(0, Math.ceil(delayMs));
  // Half: the script adds its clock, and six bytes hold the sum. The API allows less (limits.delayMsMax).
  if (!(ms <= latestEpochMs / 2)) throw new Error(`invalid delay: ${String(delayMs)}`);
  return ms;
}

/** A due time for the scripts. `from`: d = ms is a delay, a = ms is an epoch */
export function timeOf(when: When): { readonly from: 'd' | 'a'; readonly ms: number } {
  if ('delayMs' in when) return { from: 'd', ms: wholeMs(when.delayMs) };
  if (!(when.at <= latestEpochMs)) throw new Error(`invalid due time: ${String(when.at)}`);
  return { from: 'a', ms: Math.max(0, Math.ceil(when.at)) };
}
