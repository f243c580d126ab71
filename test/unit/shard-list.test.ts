// Tests the placement of ids on shards, and the changes of the shard list.
import { describe, expect, it } from 'vitest';
import {
  activeOf,
  clearedAt,
  draining,
  filled,
  idAt,
  noShards,
  placesOf,
  readdressed,
  type ShardList,
  type ShardRecord,
  without,
  withShard,
} from '../../src/core/shard-list.ts';
import { bucketOf } from '../../src/store/redis/scripts/keys.ts';
import { isCleared } from '../../src/store/redis/shard/shard-servers.ts';

const shard = (digit: string) => ({
  id: digit.repeat(16),
  url: `redis://${digit}`,
  buckets: 1,
  addedAt: 0,
});
const [a, b, c] = [shard('a'), shard('b'), shard('c')];
const two = filled([a, b]);
const keys = Array.from({ length: 3_000 }, (_, i) => ({ topic: 'order.close', id: `job-${i}` }));
const homeIn = (list: ShardList) => keys.map((key) => placesOf(list, key).home);

describe('placement', () => {
  it('placement: spreads ids evenly over any number of shards', () => {
    for (const list of [two, withShard(two, c), withShard(withShard(two, c), shard('d'))]) {
      const homes = homeIn(list);
      const fair = keys.length / list.shards.length;
      for (const { id } of list.shards) {
        const count = homes.filter((home) => home === id).length;
        expect(count).toBeGreaterThan(fair * 0.85);
        expect(count).toBeLessThan(fair * 1.15);
      }
    }
  });

  it('placement: a change moves only ids of the changed shard', () => {
    const three = withShard(two, c);
    const before = homeIn(two);
    const moved = homeIn(three).filter((home, i) => home !== before[i]);
    expect(new Set(moved)).toEqual(new Set([c.id]));
    expect(homeIn(draining(three, c.id))).toEqual(before);
  });

  it('placement: never changes, because stored jobs depend on it', () => {
    const homes = keys.slice(0, 12).map((key) => placesOf(withShard(two, c), key).home?.[0]);
    expect(homes.join('')).toBe('aabbbcabaaca');
  });

  it.each([
    ['four shards', 4, 1],
    ['three Clusters of 32 buckets', 3, 32],
  ])('placement: finds an id for each bucket of %s', (_name, count, buckets) => {
    const list = filled(['a', 'b', 'c', 'd'].slice(0, count).map((digit) => ({ ...shard(digit), buckets })));
    for (const one of list.shards)
      for (let bucket = 0; bucket < buckets; bucket += 1) {
        const id = idAt(list, one, bucket, { topic: 'next', id: 'msg_0:17' });
        expect(id).toMatch(/^msg_0:17:[0-9a-z]{3}$/);
        const key = { topic: 'next', id };
        expect([placesOf(list, key).home, bucketOf(key, buckets)]).toEqual([one.id, bucket]);
      }
  });

  it('placement: a look-up finds the id that was made for a draining shard', () => {
    const list = draining(withShard(two, c), a.id);
    const [drained] = list.shards.filter(({ id }) => id === a.id);
    if (drained === undefined) throw new Error('the shard has left the list');
    for (const { topic, id } of keys.slice(0, 100)) {
      const { home, earlier } = placesOf(list, { topic, id: idAt(list, drained, 0, { topic, id }) });
      expect([home === a.id, earlier.includes(a.id)]).toEqual([false, true]);
    }
  });

  it('placement: the only bucket takes the id as it is', () => {
    const list = filled([a]);
    expect(idAt(list, list.shards[0] as ShardRecord, 0, { topic: 't', id: 'i' })).toBe('i');
  });

  it('placement: depends on shard ids, not addresses or order', () => {
    const moved = filled([{ ...b, url: 'redis://elsewhere' }, a]);
    expect(homeIn(moved)).toEqual(homeIn(two));
  });

  it('placement: no home without an active shard', () => {
    expect(placesOf(noShards, { topic: 't', id: 'i' })).toEqual({ home: null, earlier: [] });
    const drained = draining(filled([a]), a.id);
    expect(placesOf(drained, { topic: 't', id: 'i' })).toEqual({ home: null, earlier: [a.id] });
  });
});

describe('earlier homes', () => {
  it('earlier homes: other shards, newest list first', () => {
    const three = withShard(two, c);
    const back = draining(three, c.id);
    for (const key of keys) {
      const first = placesOf(two, key).home;
      const second = placesOf(three, key).home;
      expect(placesOf(three, key).earlier).toEqual(second === first ? [] : [first]);
      expect(placesOf(back, key)).toEqual({ home: first, earlier: second === first ? [] : [second] });
    }
  });

  it('earlier homes: end when the shard is cleared', () => {
    const three = withShard(two, c);
    const halfSettled = clearedAt(three, a.id, three.number);
    const earlier = keys.flatMap((key) => placesOf(halfSettled, key).earlier);
    expect(new Set(earlier)).toEqual(new Set([b.id]));
    const settled = clearedAt(halfSettled, b.id, three.number);
    expect(keys.flatMap((key) => placesOf(settled, key).earlier)).toEqual([]);
    expect(settled.earlier).toEqual([]);
  });

  it('earlier homes: count again after a later list', () => {
    const three = [a, b].reduce((list, { id }) => clearedAt(list, id, list.number), withShard(two, c));
    const four = withShard(three, shard('d'));
    const moved = keys.filter((key) => placesOf(four, key).home === 'd'.repeat(16));
    expect(moved.length).toBeGreaterThan(0);
    for (const key of moved) expect(placesOf(four, key).earlier).toEqual([placesOf(three, key).home]);
  });
});

describe('changes', () => {
  it('list number: rises with the active shards only', () => {
    const three = withShard(two, c);
    expect([two.number, three.number, draining(three, c.id).number]).toEqual([1, 2, 3]);
    expect(draining(draining(three, c.id), c.id).number).toBe(3);
    expect(withShard(three, { ...c, url: 'redis://moved' })).toMatchObject({ number: 2 });
    expect(without(draining(three, c.id), c.id).number).toBe(3);
    expect(clearedAt(three, a.id, 2).number).toBe(2);
  });

  it('list number: exceeds all numbers of shards; unknown lists mean looking everywhere', () => {
    const known = { number: 7, holding: [] };
    const three = withShard(two, c, known);
    expect([three.number, draining(two, a.id, known).number]).toEqual([8, 8]);
    // A known shard too: shards with a higher number reject the list.
    expect(withShard(two, a, known)).toMatchObject({ number: 8, shards: two.shards });
    for (const key of keys.slice(0, 200)) {
      const { home, earlier } = placesOf(three, key);
      expect([...earlier, home].sort()).toEqual([a.id, b.id, ...(home === c.id ? [c.id] : [])]);
    }
    const settled = three.shards.reduce((list, { id }) => clearedAt(list, id, 8), three);
    expect(settled.earlier).toEqual([]);
  });

  it('new shard with jobs: every id is looked up there until it is cleared', () => {
    const three = withShard(two, c, { number: 1, holding: [c.id] });
    for (const key of keys.slice(0, 200)) {
      const { home, earlier } = placesOf(three, key);
      expect(earlier.includes(c.id)).toBe(home !== c.id);
    }
    const settled = three.shards.reduce((list, { id }) => clearedAt(list, id, 2), three);
    expect(settled.earlier).toEqual([]);
  });

  it('first list: servers with jobs or lists mean looking everywhere', () => {
    for (const known of [
      { number: 0, holding: [a.id] },
      { number: 3, holding: [] },
    ]) {
      const first = filled([a, b], known);
      expect(first.number).toBe(known.number + 1);
      for (const key of keys.slice(0, 200)) expect(placesOf(first, key).earlier).toHaveLength(1);
      const settled = first.shards.reduce((list, { id }) => clearedAt(list, id, first.number), first);
      expect(settled.earlier).toEqual([]);
    }
    expect(filled([a], { number: 0, holding: [a.id] })).toEqual(filled([a]));
  });

  it('readdressed: changes the address alone, of a draining shard too', () => {
    const list = draining(two, b.id);
    const changed = readdressed(list, b.id, 'redis://:pw@b');
    expect(changed).toEqual({
      ...list,
      shards: [list.shards[0], { ...list.shards[1], url: 'redis://:pw@b' }],
    });
    expect(readdressed(changed, b.id, 'redis://:pw@b')).toBe(changed);
    expect(readdressed(list, c.id, 'redis://c')).toBe(list);
  });

  it('draining shard: can become active again', () => {
    const back = withShard(draining(withShard(two, c), c.id), { ...c, addedAt: 99 });
    expect(activeOf(back)).toEqual([a.id, b.id, c.id]);
    expect(back.shards.map(({ addedAt }) => addedAt)).toEqual([0, 0, 0]);
  });
});

it('a draining shard is cleared when it is empty: an outcome job may come behind a walk', async () => {
  const list = draining(two, b.id);
  const asked: string[] = [];
  // The walk meets neither the job whose end is before it nor the one that this end pushes behind it.
  const holding = (jobs: number) => ({
    buckets: [0],
    run: async (script: string) => {
      asked.push(script);
      return script === 'raiseList' ? [jobs, 0, list.number] : ['0'];
    },
  });
  expect(await isCleared(holding(1), b.id, list)).toBe(false);
  expect(await isCleared(holding(0), b.id, list)).toBe(true);
  expect(asked).toEqual(['raiseList', 'raiseList']);
  expect(await isCleared(holding(1), a.id, list)).toBe(true);
});
