// Everything that one bucket holds, read from the real server, and the rules of layout.md on it: each job is
// in the sets of its state and in no other, and the heads, rings, bodies and alerts follow from the jobs.

import { readSafe } from '../../../src/core/stored-codes.ts';
import { idOf } from '../../../src/store/redis/scripts/keys.ts';
import { readStateRecord } from '../../../src/store/redis/scripts/records.ts';
import type { Judge } from '../judge.ts';
import type { Reply } from './resp.ts';

const prefix = '{dq:0}:';
export const bucketScript = `local out = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  local kind = redis.call('TYPE', key).ok
  out[#out + 1], out[#out + 2] = key, kind
  if kind == 'hash' then out[#out + 1] = redis.call('HGETALL', key)
  elseif kind == 'zset' then out[#out + 1] = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  else out[#out + 1] = { redis.call('GET', key) } end
end
return out`;

export interface StoredJob {
  readonly topic: string;
  readonly id: string;
  readonly version: number;
  readonly dueAt: number;
  readonly state: 'waiting' | 'reserved' | 'dead';
  readonly token: number;
}

/** Bytes as a text, one character each. */
type Text = string;

export class Bucket {
  readonly #hashes = new Map<string, ReadonlyMap<Text, Buffer>>();
  readonly #sets = new Map<string, ReadonlyMap<Text, number>>();
  readonly jobs: readonly StoredJob[];
  readonly #problems: string[] = [];

  /** @param reply - of bucketScript */
  constructor(reply: Reply) {
    const flat = reply as readonly Reply[];
    for (let i = 0; i < flat.length; i += 3) {
      const name = String(flat[i]).slice(prefix.length);
      const pairs = flat[i + 2] as readonly Buffer[];
      const of = <T>(read: (bytes: Buffer) => T): ReadonlyMap<Text, T> =>
        new Map(
          Array.from({ length: pairs.length / 2 }, (_, at) => [
            (pairs[2 * at] as Buffer).toString('latin1'),
            read(pairs[2 * at + 1] as Buffer),
          ]),
        );
      if (String(flat[i + 1]) === 'hash')
        this.#hashes.set(
          name,
          of((bytes) => bytes),
        );
      else if (String(flat[i + 1]) === 'zset')
        this.#sets.set(
          name,
          of((bytes) => Number(String(bytes))),
        );
    }
    this.jobs = this.#readJobs();
  }

  /** Reports each broken rule. */
  check(judge: Judge): void {
    judge.check(this.#problems.length === 0, '1 the keys follow layout.md', () => this.#problems.join('; '));
  }

  #hash(name: string): ReadonlyMap<Text, Buffer> {
    return this.#hashes.get(name) ?? new Map();
  }

  #readJobs(): readonly StoredJob[] {
    const topics = this.#hash('T');
    const states = this.#hash('m');
    const bodies = new Set(this.#hash('b').keys());
    const alerts = new Map(this.#hash('o'));
    const expected = new Map<string, Map<Text, number>>();
    const expect = (set: string, member: Text, score: number) => {
      const members = expected.get(set) ?? new Map<Text, number>();
      expected.set(set, members.set(member, score));
    };
    const jobs: StoredJob[] = [];
    const withState = new Set(states.keys());
    for (const [field, record] of this.#hash('j')) {
      const key = Buffer.from(field, 'latin1');
      const no = key.readUIntBE(0, 3);
      const tid = key.subarray(3);
      const flags = record.readUInt8(0);
      const dueAt = record.readUIntBE(1, 6);
      const version = record.toString('latin1', 7, 14);
      const state = readStateRecord(states.get(field) ?? Buffer.alloc(0));
      withState.delete(field);
      const isApart = (flags & 32) !== 0;
      if (isApart !== bodies.delete(field)) this.#add(`a body of ${field} is missing or left`);
      const both = String.fromCharCode(2 * (flags & 3) + (tid[0] ?? 0));
      const entry = version + both + tid.toString('latin1', 1);
      const name = state.state === 2 ? 'reserved' : state.state === 3 ? 'dead' : 'waiting';
      if (name === 'dead') {
        expect('x', version + field, state.deadAt);
        expect(`x:${no}`, entry, state.deadAt);
        expect(`y:${no}`, entry, dueAt);
        if (!alerts.delete(version)) this.#add(`dead letter ${field} has no alert`);
      } else if (name === 'reserved') this.#expectLease(state, dueAt, version, key, both);
      else this.#expectWaiting(no, flags & 3, entry);
      const topic = String(topics.get(String(no)) ?? '?');
      const its = { topic, id: idOf(tid) };
      jobs.push({ ...its, version: readSafe(record, 7), dueAt, state: name, token: state.token });
    }
    if (bodies.size > 0) this.#add(`${bodies.size} bodies have no job`);
    if (withState.size > 0) this.#add(`${withState.size} state records have no job`);
    // Until its mail is sent, an alert outlives its dead letter.
    const settled = [...alerts.values()].filter((alert) => alert.readUInt8(0) >= 2);
    if (settled.length > 0) this.#add(`${settled.length} settled alerts have no dead letter`);
    if (this.#hash('q').size > 0) this.#add(`${this.#hash('q').size} records are quarantined`);
    this.#checkSets(expected, jobs.length);
    return jobs;
  }

  #expectLease(
    state: ReturnType<typeof readStateRecord>,
    dueAt: number,
    version: Text,
    key: Buffer,
    both: Text,
  ): void {
    const head = Buffer.alloc(23);
    head.writeUIntBE(Math.floor(state.token / 2 ** 48), 0, 1);
    head.writeUIntBE(state.token % 2 ** 48, 1, 6);
    head.writeUInt32BE(state.instance, 7);
    head.writeUIntBE(state.incarnation, 11, 6);
    head.writeUIntBE(dueAt, 17, 6);
    const rest = version + key.toString('latin1', 0, 3) + both + key.toString('latin1', 4);
    const set = state.instance === 0 ? 'k' : 'l';
    if (this.#sets.get(set)?.has(head.toString('latin1') + rest) !== true)
      this.#add(`the lease ${state.token} is in no set`);
  }

  /** In exactly one of the sets of its topic. */
  #expectWaiting(no: number, priority: number, entry: Text): void {
    const places = [`d:${no}`, `r:${priority}:${no}`].filter(
      (set) => this.#sets.get(set)?.has(entry) === true,
    );
    if (places.length !== 1) this.#add(`a waiting job of topic ${no} is in ${places.length} sets`);
  }

  #checkSets(expected: ReadonlyMap<string, ReadonlyMap<Text, number>>, jobs: number): void {
    let places = 0;
    for (const [name, members] of this.#sets) {
      if (/^(d:\d+|r:\d:\d+|l|k|x)$/.test(name)) places += members.size;
      if (/^[xy](:|$)/.test(name)) this.#compare(name, expected.get(name) ?? new Map());
    }
    for (const name of expected.keys()) if (!this.#sets.has(name)) this.#add(`the set ${name} is missing`);
    if (places !== jobs) this.#add(`${jobs} jobs are in ${places} places`);
    const heads = new Map<Text, number>();
    const rings = [0, 1, 2].map(() => new Set<Text>());
    for (const [name, members] of this.#sets) {
      const [first] = members;
      const [kind = '', priority = '', no = ''] = name.split(':');
      if (kind === 'd' && priority !== '' && first !== undefined) {
        const number = Buffer.alloc(3);
        number.writeUIntBE(Number(priority), 0, 3);
        heads.set(first[0].slice(0, 7) + number.toString('latin1'), first[1]);
      }
      if (kind === 'r') rings[Number(priority)]?.add(no);
    }
    this.#compare('d', heads);
    for (const [priority, ring] of rings.entries()) {
      const stored = [...(this.#sets.get(`a:${priority}`)?.keys() ?? [])];
      if (stored.length !== ring.size || stored.some((no) => !ring.has(no)))
        this.#add(`the ring ${priority} names ${stored.join(', ')}`);
    }
  }

  #compare(name: string, members: ReadonlyMap<Text, number>): void {
    const stored = this.#sets.get(name) ?? new Map<Text, number>();
    const isSame =
      stored.size === members.size && [...members].every(([member, score]) => stored.get(member) === score);
    if (!isSame)
      this.#add(`the set ${name} has ${stored.size} members, not those of its ${members.size} jobs`);
  }

  #add(problem: string): void {
    this.#problems.push(problem);
  }
}
