// Topics with ready jobs but without capacity cost a reserve nothing, and do not change the turns of others.

import type { Redis } from 'ioredis';
import { describe, expect, it } from 'vitest';
import { Dice } from '../../scripts/dice.ts';
import { startRedis } from '../../scripts/services/redis.ts';
import { type Priority, priorities } from '../../src/core/job.ts';
import { CapacityBase, LayeredCapacities, type TopicCapacities } from '../../src/core/layered-capacities.ts';
import type { TopicCapacity } from '../../src/ports/job-store.ts';
import { redisLimits } from '../../src/store/redis/limits.ts';
import { jobOf, owner, type Trial } from '../conformance/trial.ts';
import { type OneShardOptions, openedEmpty, openedOn } from '../support/redis-store.ts';
import { lacks, owned } from '../support/services.ts';

async function opened(more: OneShardOptions = {}) {
  const server = await owned('test', startRedis());
  return { server, ...(await openedEmpty(server, more)) };
}

const leaseMs = 60_000;
const without: TopicCapacity = { room: 0, leaseMs };
const names = (count: number) => Array.from({ length: count }, (_, n) => `paused${n}`);
const blocked = (topics: readonly string[]) => new Map(topics.map((topic) => [topic, without]));
const reserve = async ({ jobs }: Trial, topics: TopicCapacities, max = 100, others = 5) =>
  (await jobs.reserve(0, { owner, max, others: { room: others, leaseMs }, topics })).jobs;

async function pushAll({ jobs }: Trial, topics: readonly string[]): Promise<void> {
  const outcomes = await jobs.push(topics.map((topic) => jobOf('1', { topic })));
  expect(outcomes.every(({ kind }) => kind === 'stored')).toBe(true);
}

/** Commands that the server ran since the last call, by name, those inside scripts included. */
async function commandsOf(raw: Redis): Promise<Record<string, number>> {
  const stats = await raw.info('commandstats');
  await raw.config('RESETSTAT');
  return Object.fromEntries(
    [...stats.matchAll(/^cmdstat_([a-z|-]+):calls=(\d+)/gm)].map(([, name, calls]) => [name, Number(calls)]),
  );
}

describe.skipIf(await lacks('redis'))('topics without capacity', () => {
  it('reserve: reads no paused topic twice, however many have ready jobs', async () => {
    const { under, trial } = await opened();
    const paused = names(1_000);
    await pushAll(trial, paused);
    expect(await reserve(trial, blocked(paused))).toEqual([]);
    for (const round of ['first', 'second']) {
      await trial.push(round, { topic: 'good' });
      await commandsOf(under.raw);
      expect((await reserve(trial, blocked(paused))).map(({ id }) => id)).toEqual([round]);
      const calls = await commandsOf(under.raw);
      // Two scripts at most: the topic is new to this process.
      expect(calls['evalsha'] ?? 0, round).toBeLessThanOrEqual(2);
      const looks = Object.values(calls).reduce((sum, count) => sum + count, 0);
      expect(looks, `${round} ${JSON.stringify(calls)}`).toBeLessThan(60);
    }
  });

  it('reserve: serves a topic after, between and before paused ones', async () => {
    const { trial } = await opened();
    const paused = names(2 * redisLimits.ringPiece + 10);
    await pushAll(trial, paused);
    await trial.push('1', { topic: 'between' });
    const later = paused.map((name) => `later-${name}`);
    await pushAll(trial, later);
    const all = blocked([...paused, ...later]);
    const take = async () => (await reserve(trial, all)).map(({ topic }) => topic);
    expect(await take()).toEqual(['between']);
    // Resumed: the first and the last of the ring.
    all.delete('paused0');
    all.delete(later.at(-1) as string);
    expect(await take()).toEqual(['paused0', later.at(-1)]);
    expect(await take()).toEqual([]);
  });

  it('reserve: a topic paused for one notifier is served by another', async () => {
    const { server, trial } = await opened();
    const paused = names(100);
    await pushAll(trial, paused);
    expect(await reserve(trial, blocked(paused))).toEqual([]);
    const rest = paused.filter((name) => name !== 'paused50');
    const { trial: other } = await openedOn(server);
    expect((await reserve(other, blocked(rest))).map(({ topic }) => topic)).toEqual(['paused50']);
    // It has left the ring meanwhile.
    expect(await reserve(trial, blocked(rest))).toEqual([]);
    await trial.push('2', { topic: 'paused50' });
    expect((await reserve(trial, blocked(rest))).map(({ id }) => id)).toEqual(['2']);
  });

  it('reserve: a copy of the rings gives the same jobs as the rings', async () => {
    const fromRings = await opened({ capacitiesMax: Number.POSITIVE_INFINITY });
    const byCopy = await opened({ capacitiesMax: -1 });
    const both = [fromRings.trial, byCopy.trial];
    const seeded = new Dice(7);
    const dice = (n: number) => seeded.below(n);
    // More topics with capacity than one reserve names.
    const topics = Array.from({ length: 4 * redisLimits.namedMin }, (_, n) => `topic${n}`);
    const some = (share: number) =>
      new Map(topics.filter(() => dice(4) < share).map((topic) => [topic, { room: dice(3), leaseMs }]));
    let base = new CapacityBase(some(3));
    let dealt = 0;
    for (let step = 0; step < 100; step += 1) {
      const pushes = Array.from({ length: dice(30) }, (_, n) => {
        const priority = priorities[dice(3)] as Priority;
        return jobOf(`${step}-${n}`, { topic: topics[dice(topics.length)] as string, priority });
      });
      for (const trial of both) await trial.jobs.push(pushes);
      if (dice(5) === 0) base = new CapacityBase(some(3));
      const others = dice(4) === 0 ? 0 : 5;
      // A reserve only for topics in good standing has no base.
      const rooms = others === 0 && dice(2) === 0 ? some(3) : new LayeredCapacities(base, some(dice(2)));
      const max = 1 + dice(dice(4) === 0 ? 60 : 8);
      const [right, copied] = await Promise.all(both.map((trial) => reserve(trial, rooms, max, others)));
      const shown = (jobs: typeof right) => jobs?.map(({ topic, id }) => `${topic} ${id}`);
      expect(shown(copied), `step ${step}`).toEqual(shown(right));
      dealt += right?.length ?? 0;
    }
    expect(dealt).toBeGreaterThan(100);
  });
});
