// The list of shards, and which of them is the home of a job. Pure: the registry keeps the list, and every process places by
// its copy of it. Invariants: the number rises with every change of what is active, above all that any shard has heard of; the
// ids of shards decide a home, never their addresses; of every list by which a job may have been placed that is still stored, what
// was active is kept. Where such lists are forgotten (a registry put back from a backup), each id is looked for on every shard.

import { crc32 } from 'node:zlib';
import type { JobKey } from './job.ts';

export interface ShardRecord {
  /** 16 hexadecimal digits, drawn when the server was first used; its marker holds the same */
  readonly id: string;
  /** where it is reached at present; may hold a password */
  readonly url: string;
  /** fixed when it was first used */
  readonly buckets: number;
  /** false: it drains. It takes no new ids and is served until it is empty. */
  readonly active: boolean;
  /** Number of a list under which it held no job whose home is elsewhere: lists before that one have placed nothing here that
   *  is still to be looked for. */
  readonly settled: number;
  readonly addedAt: number;
}

export interface ShardList {
  /** 0 = it never had a shard */
  readonly number: number;
  /** by age, so that every process counts them in the same order */
  readonly shards: readonly ShardRecord[];
  /** lists before this one, oldest first: the ids that were active */
  readonly earlier: readonly { readonly number: number; readonly active: readonly string[] }[];
}

export const noShards: ShardList = { number: 0, shards: [], earlier: [] };

export interface Places {
  /** where the id goes when it lives nowhere; null = no shard takes new ids */
  readonly home: string | null;
  /** where it may live since an earlier list, other than at home; newest list first */
  readonly earlier: readonly string[];
}

export function placesOf(list: ShardList, key: JobKey): Places {
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

/** The active shards as homes of a job, the best one first: where one goes that has no id of its producer's. */
export function homesOf(list: ShardList, key: JobKey): readonly string[] {
  const hash = hashOf(key);
  return [...activeOf(list)].sort((a, b) => (isBefore(hash, a, b) ? -1 : 1));
}

function highest(hash: number, ids: readonly string[]): string | null {
  return ids.reduce<string | null>(
    (best, id) => (best === null || isBefore(hash, id, best) ? id : best),
    null,
  );
}

/** Rendezvous hashing: when a shard comes or goes, only the ids move whose home it becomes or was. Never to be changed: every
 *  job that is stored would be looked for elsewhere. */
function isBefore(hash: number, a: string, b: string): boolean {
  const [scoreA, scoreB] = [mixed(hash ^ crc32(a)), mixed(hash ^ crc32(b))];
  return scoreA > scoreB || (scoreA === scoreB && a > b);
}

/** No topic has a NUL in it. */
function hashOf({ topic, id }: JobKey): number {
  return crc32(`${topic}\0${id}`);
}

/** The last step of MurmurHash3: CRCs alone differ by a constant, and of three shards one would get nearly nothing. */
function mixed(hash: number): number {
  let h = hash ^ (hash >>> 16);
  h = Math.imul(h, 0x85ebca6b);
  h ^= h >>> 13;
  h = Math.imul(h, 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}

// ── changes. Each answers the list as it shall be; what active is becomes part of the past.

export type NewShard = Omit<ShardRecord, 'active' | 'settled'>;

/** What the servers say of lists. */
export interface Heard {
  /** the highest number of a list that any of them has heard of; 0 = of none */
  readonly number: number;
  /** ids of those that hold jobs */
  readonly holding: readonly string[];
}
const nothing: Heard = { number: 0, holding: [] };

/** The first list. Servers that hold jobs have them by lists that nobody knows. */
export function filled(shards: readonly NewShard[], { number, holding }: Heard = nothing): ShardList {
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

/** One that is new here, with jobs of which no list tells or without; or a known one: at another address, or one that drains and
 *  shall take ids again. */
export function withShard(list: ShardList, shard: NewShard, heard: Heard = nothing): ShardList {
  const known = list.shards.find(({ id }) => id === shard.id);
  const moved = known && { ...known, url: shard.url };
  if (moved?.active && heard.number <= list.number) return { ...list, shards: replaced(list, moved) };
  const next = succeeding(list, heard);
  if (moved !== undefined) return { ...next, shards: replaced(list, { ...moved, active: true }) };
  const last = next.number - 1;
  const isEmpty = !heard.holding.includes(shard.id);
  const settled = isEmpty ? next.number : last;
  const earlier = isEmpty ? next.earlier : [...next.earlier, ...eachAlone([shard.id], last)];
  return { ...next, earlier, shards: [...list.shards, { ...shard, active: true, settled }] };
}

export function draining(list: ShardList, id: string, heard: Heard = nothing): ShardList {
  const known = list.shards.find((shard) => shard.id === id);
  if (known === undefined || !known.active) return list;
  return { ...succeeding(list, heard), shards: replaced(list, { ...known, active: false }) };
}

/** Only for one that drains and is empty. */
export function without(list: ShardList, id: string): ShardList {
  return trimmed({ ...list, shards: list.shards.filter((shard) => shard.id !== id) });
}

/** It was found to hold no job whose home is elsewhere, under the list of that number. */
export function settledAt(list: ShardList, id: string, number: number): ShardList {
  const known = list.shards.find((shard) => shard.id === id);
  if (known === undefined || known.settled >= number) return list;
  return trimmed({ ...list, shards: replaced(list, { ...known, settled: number }) });
}

function succeeding(list: ShardList, heard: Heard): ShardList {
  const past = { number: list.number, active: activeOf(list) };
  const forgotten =
    heard.number > list.number
      ? eachAlone(
          list.shards.map(({ id }) => id),
          heard.number,
        )
      : [];
  const number = Math.max(list.number, heard.number) + 1;
  return { ...list, number, earlier: [...list.earlier, past, ...forgotten] };
}

/** In place of lists that nobody knows: by these every id is looked for on each of the shards, until they have settled. */
function eachAlone(ids: readonly string[], number: number): ShardList['earlier'] {
  return ids.map((id) => ({ number, active: [id] }));
}

function replaced({ shards }: ShardList, shard: ShardRecord): readonly ShardRecord[] {
  return shards.map((one) => (one.id === shard.id ? shard : one));
}

/** Lists that have placed nothing which is still to be looked for are forgotten. */
function trimmed(list: ShardList): ShardList {
  const oldest = Math.min(list.number, ...list.shards.map(({ settled }) => settled));
  return { ...list, earlier: list.earlier.filter(({ number }) => number >= oldest) };
}
