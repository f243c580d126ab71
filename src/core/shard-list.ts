// The shard list, and which shard is the home of a job. Pure: the registry stores the list, and every
// process places jobs by its copy.
// Invariants: the number rises with every change of the active shards, above every number that a shard
// knows. Ids of shards decide a home, never addresses. The list keeps the active shards of every earlier
// list that may have placed a stored job. When such lists are lost (a registry restored from a backup), dq
// looks for each id on every shard.

import { crc32 } from 'node:zlib';
import type { JobKey } from './job.ts';

export interface ShardRecord {
  /** 16 hexadecimal digits, drawn at the first use of the server and stored in its marker */
  readonly id: string;
  /** current address; may contain a password */
  readonly url: string;
  /** fixed at the first use */
  readonly buckets: number;
  /** false: it drains; it gets no new ids and is served until it is empty */
  readonly active: boolean;
  /** number of a list under which it held no job with another home: earlier lists have no stored jobs left
   *  here */
  readonly settled: number;
  readonly addedAt: number;
}

export interface ShardList {
  /** 0 = there was never a shard */
  readonly number: number;
  /** by age, so that every process numbers partitions alike */
  readonly shards: readonly ShardRecord[];
  /** earlier lists, oldest first, with the ids of their active shards */
  readonly earlier: readonly { readonly number: number; readonly active: readonly string[] }[];
}

export const noShards: ShardList = { number: 0, shards: [], earlier: [] };

interface Places {
  /** shard for an id that is stored nowhere; null = no shard accepts new ids */
  readonly home: string | null;
  /** other shards that may hold the id because of an earlier list; newest list first */
  readonly earlier: readonly string[];
}

const nowhereElse: readonly string[] = [];

export function placesOf(list: ShardList, key: JobKey): Places {
  const [only, another] = list.shards;
  // Every earlier list names this shard, or shards that were removed: the same for all keys.
  if (only?.active === true && another === undefined) return { home: only.id, earlier: nowhereElse };
  const hash = hashOf(key);
  const home = highest(hash, activeOf(list));
  const places: string[] = [];
  for (const { number, active } of list.earlier.toReversed()) {
    const id = highest(hash, active);
    if (id === null || id === home || places.includes(id)) continue;
    const shard = list.shards.find((one) => one.id === id);
    // A shard that was removed was empty.
    if (shard !== undefined && shard.settled <= number) places.push(id);
  }
  return { home, earlier: places };
}

export function activeOf({ shards }: ShardList): readonly string[] {
  return shards.filter(({ active }) => active).map(({ id }) => id);
}

function highest(hash: number, ids: readonly string[]): string | null {
  return ids.reduce<string | null>(
    (best, id) => (best === null || isBefore(hash, id, best) ? id : best),
    null,
  );
}

/** The id, with a suffix that makes look-ups by the list find it in this bucket of the shard. Of a draining
 *  shard, which is the home of no id, the newest earlier list in which it was active counts. */
export function idAt(list: ShardList, shard: ShardRecord, bucket: number, { topic, id }: JobKey): string {
  if (list.shards.length === 1 && shard.buckets === 1) return id;
  const active = shard.active ? activeOf(list) : activeBefore(list, shard);
  suffixes ??= makeSuffixes();
  const [{ text }] = suffixes as [Suffix];
  const first = hashOf({ topic, id: `${id}${text}` });
  for (const suffix of suffixes) {
    const hash = (first ^ suffix.change) >>> 0;
    if (hash % shard.buckets === bucket && highest(hash, active) === shard.id) return `${id}${suffix.text}`;
  }
  throw new Error(`no suffix puts ${id} into bucket ${bucket} of ${shard.buckets}`);
}

function activeBefore(list: ShardList, { id, settled }: ShardRecord): readonly string[] {
  const past = list.earlier.findLast(({ number, active }) => settled <= number && active.includes(id));
  return past?.active ?? [id];
}

interface Suffix {
  readonly text: string;
  /** of the hash, in place of the first suffix: CRC-32 is linear */
  readonly change: number;
}

let suffixes: readonly Suffix[] | null = null;

/** `:000` to `:zzz` */
function makeSuffixes(): readonly Suffix[] {
  const texts = Array.from({ length: 36 ** 3 }, (_, n) => `:${n.toString(36).padStart(3, '0')}`);
  const first = crc32(':000');
  return texts.map((text) => ({ text, change: crc32(text) ^ first }));
}

/** Rendezvous hashing: adding or removing a shard moves only the ids whose home it becomes or was. Must
 *  never change: dq would look for every stored job elsewhere. */
function isBefore(hash: number, a: string, b: string): boolean {
  const [scoreA, scoreB] = [mixed(hash ^ crc32(a)), mixed(hash ^ crc32(b))];
  return scoreA > scoreB || (scoreA === scoreB && a > b);
}

/** Topic names contain no NUL. */
function hashOf({ topic, id }: JobKey): number {
  return crc32(`${topic}\0${id}`);
}

/** The last step of MurmurHash3. Plain CRCs differ by a constant: one of three shards would get nearly no
 *  ids. */
function mixed(hash: number): number {
  let h = hash ^ (hash >>> 16);
  h = Math.imul(h, 0x85ebca6b);
  h ^= h >>> 13;
  h = Math.imul(h, 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}

// ── changes: each returns the next list and keeps the active shards of this one as an earlier list

export type NewShard = Omit<ShardRecord, 'active' | 'settled'>;

/** What the servers know of lists and jobs. */
export interface ShardReports {
  /** the highest list number that a server knows; 0 = none */
  readonly number: number;
  /** ids of servers with jobs */
  readonly holding: readonly string[];
}
const nothing: ShardReports = { number: 0, holding: [] };

/** The first list. Lists that placed the jobs already on the servers are unknown. */
export function filled(shards: readonly NewShard[], { number, holding }: ShardReports = nothing): ShardList {
  const isKnown = number === 0 && (holding.length === 0 || shards.length === 1);
  return {
    number: number + 1,
    shards: shards.map((shard) => ({ ...shard, active: true, settled: isKnown ? 1 : number })),
    earlier: isKnown
      ? []
      : eachAlone(
          shards.map(({ id }) => id),
          number,
        ),
  };
}

/** Adds a new shard, whose jobs may come from unknown lists; or changes the address of a known one, or ends
 *  its drain. */
export function withShard(list: ShardList, shard: NewShard, reports: ShardReports = nothing): ShardList {
  const known = list.shards.find(({ id }) => id === shard.id);
  const moved = known && { ...known, url: shard.url };
  if (moved?.active && reports.number <= list.number) return { ...list, shards: replaced(list, moved) };
  const next = succeeding(list, reports);
  if (moved !== undefined) return { ...next, shards: replaced(list, { ...moved, active: true }) };
  const last = next.number - 1;
  const isEmpty = !reports.holding.includes(shard.id);
  const settled = isEmpty ? next.number : last;
  const earlier = isEmpty ? next.earlier : [...next.earlier, ...eachAlone([shard.id], last)];
  return { ...next, earlier, shards: [...list.shards, { ...shard, active: true, settled }] };
}

/** Changes the address of a known shard alone: whether it takes new ids stays. */
export function readdressed(list: ShardList, id: string, url: string): ShardList {
  const known = list.shards.find((shard) => shard.id === id);
  if (known === undefined || known.url === url) return list;
  return { ...list, shards: replaced(list, { ...known, url }) };
}

export function draining(list: ShardList, id: string, reports: ShardReports = nothing): ShardList {
  const known = list.shards.find((shard) => shard.id === id);
  if (known === undefined || !known.active) return list;
  return { ...succeeding(list, reports), shards: replaced(list, { ...known, active: false }) };
}

/** The list without a shard, which must be draining and empty. */
export function without(list: ShardList, id: string): ShardList {
  return trimmed({ ...list, shards: list.shards.filter((shard) => shard.id !== id) });
}

/** Records that the shard holds no job with another home under the list of that number. */
export function clearedAt(list: ShardList, id: string, number: number): ShardList {
  const known = list.shards.find((shard) => shard.id === id);
  if (known === undefined || known.settled >= number) return list;
  return trimmed({ ...list, shards: replaced(list, { ...known, settled: number }) });
}

function succeeding(list: ShardList, reports: ShardReports): ShardList {
  const past = { number: list.number, active: activeOf(list) };
  const forgotten =
    reports.number > list.number
      ? eachAlone(
          list.shards.map(({ id }) => id),
          reports.number,
        )
      : [];
  const number = Math.max(list.number, reports.number) + 1;
  return { ...list, number, earlier: [...list.earlier, past, ...forgotten] };
}

/** Replaces unknown lists: dq looks for every id on each of these shards until they are settled. */
function eachAlone(ids: readonly string[], number: number): ShardList['earlier'] {
  return ids.map((id) => ({ number, active: [id] }));
}

function replaced({ shards }: ShardList, shard: ShardRecord): readonly ShardRecord[] {
  return shards.map((one) => (one.id === shard.id ? shard : one));
}

/** Drops earlier lists without stored jobs. */
function trimmed(list: ShardList): ShardList {
  const oldest = Math.min(list.number, ...list.shards.map(({ settled }) => settled));
  return { ...list, earlier: list.earlier.filter(({ number }) => number >= oldest) };
}

/** After a registry was restored from an older backup, shards know a newer list than it has. Every push is
 *  then rejected (stale_list) until an operator names the servers of the newer list again. */
export function forgottenSentence(newest: number, known: number): string {
  return (
    `the shards know shard list ${newest}, the registry has list ${known}, as if restored from an older backup: ` +
    'pushes are rejected (stale_list) until each server that was a shard is named again with `dq shard add URL`'
  );
}
