// reserve: capacity, the wheel of priorities, turns of topics, order inside a topic, and the lease.

import { expect } from 'vitest';
import type { Priority, ReservedJob } from '../../../src/core/job.ts';
import {
  CapacityBase,
  LayeredCapacities,
  type TopicCapacities,
} from '../../../src/core/layered-capacities.ts';
import { limits } from '../../../src/core/limits.ts';
import type { TopicCapacity } from '../../../src/ports/job-store.ts';
import { words } from '../../support/words.ts';
import { type Case, fact, idsOf, jobOf, longLeaseMs, only, owner, request, type Trial } from '../trial.ts';

/** Ids consist of topic and number: `a0`, `a1` … */
async function fill(trial: Trial, topics: Readonly<Record<string, Priority>>, each: number): Promise<void> {
  const jobs = Object.entries(topics).flatMap(([topic, priority]) =>
    Array.from({ length: each }, (_, n) => jobOf(`${topic}${n}`, { topic, priority })),
  );
  for (let start = 0; start < jobs.length; start += 100)
    await trial.jobs.push(jobs.slice(start, start + 100));
}
const topicsOf = (jobs: readonly ReservedJob[]) => jobs.map((job) => job.topic).join(' ');
function countByTopic(jobs: readonly ReservedJob[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { topic } of jobs) counts[topic] = (counts[topic] ?? 0) + 1;
  return counts;
}

const closedTopics = Array.from({ length: 300 }, (_, n) => `closed${n}`);
const roomFor = (room: number): TopicCapacity => ({ room, leaseMs: longLeaseMs });
const withoutRoom = (topics: readonly string[]) => new Map(topics.map((topic) => [topic, roomFor(0)]));
const pushTo = (trial: Trial, topics: readonly string[], id = '1') =>
  trial.jobs.push(topics.map((topic) => jobOf(id, { topic })));
async function taken(trial: Trial, topics: TopicCapacities): Promise<readonly string[]> {
  const jobs = await trial.reserve({ ...request(100), others: roomFor(5), topics });
  return jobs.map(({ topic, id }) => `${topic} ${id}`);
}

export const reserveCases: readonly Case[] = [
  fact('reserve: leases a ready job and keeps its body', async (trial) => {
    await trial.bystanders();
    const job = jobOf('1', { contentType: null, body: Buffer.from([0, 1, 254, 255]) });
    await trial.jobs.push([job]);
    const stored = await trial.known('1');
    await trial.changes(
      () => trial.reserve(request(5, { t: { room: 5, leaseMs: 45_000 } })),
      (jobs, now) => {
        const lease = only(jobs);
        expect(lease).toEqual({
          ...{ topic: 't', id: '1', version: stored.version, token: expect.any(Number) },
          ...{ origin: stored.version, dueAt: stored.dueAt, acceptedAt: stored.acceptedAt, failures: 0 },
          ...{ strikes: 0, leaseMs: 45_000, contentType: null, body: job.body },
        });
        expect(lease.token).toBeGreaterThan(stored.version);
        const held = { token: lease.token, owner, untilMs: now + 45_000 };
        return { jobs: { 't/1': { state: 'reserved', lease: held } } };
      },
    );
  }),

  fact('reserve: returns the storage clock with the jobs', async (trial) => {
    await trial.push('1');
    const answer = await trial.withWrongClock(400, () => trial.jobs.reserve(trial.partition, request(1)));
    expect(answer.now).toBe(trial.now);
  }),

  fact('reserve: takes only ready jobs', async (trial) => {
    for (const state of ['delayed', 'reserved', 'dead'] as const)
      await trial.seed(state, state, { topic: state });
    const answer = await trial.unchanged(() => trial.jobs.reserve(trial.partition, request(250)));
    expect(answer).toEqual({ jobs: [], more: false, now: null });
  }),

  fact('reserve: concurrent calls get each job once', async (trial) => {
    await fill(trial, { a: 'high', b: 'normal', c: 'low' }, 40);
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, n) => trial.reserve(request(10, null, { ...owner, incarnation: n }))),
    );
    const ids = idsOf(answers.flat());
    expect(ids).toHaveLength(120);
    expect(new Set(ids).size).toBe(120);
  }),

  fact('reserve: returns more when only the largest reply was full', async (trial) => {
    await fill(trial, { a: 'normal' }, limits.reserveMax + 2);
    const answer = await trial.jobs.reserve(0, request(limits.reserveMax, { a: 10_000 }));
    expect([answer.jobs.length, answer.more]).toEqual([limits.reserveMax, true]);
    const rest = await trial.jobs.reserve(0, request(limits.reserveMax, { a: 10_000 }));
    expect([rest.jobs.length, rest.more]).toEqual([2, false]);
  }),
  fact('reserve: takes at most max; returns whether more had capacity', async (trial) => {
    await fill(trial, { a: 'normal' }, 5);
    const more = async (asked: Parameters<Trial['jobs']['reserve']>[1]) => {
      const answer = await trial.jobs.reserve(trial.partition, asked);
      return [answer.jobs.length, answer.more];
    };
    expect(await more(request(2))).toEqual([2, true]);
    expect(await more(request(2, { a: 2 }))).toEqual([2, false]);
    expect(await more(request(1))).toEqual([1, false]);
    expect(await more(request(1))).toEqual([0, false]);
  }),

  fact('reserve: respects the capacity of each topic and skips topics without', async (trial) => {
    await fill(trial, { a: 'normal', b: 'normal', c: 'high', d: 'low' }, 10);
    const rooms = { ...request(250, { a: 3, b: 0 }), others: { room: 4, leaseMs: longLeaseMs } };
    const answer = await trial.jobs.reserve(trial.partition, rooms);
    expect(countByTopic(answer.jobs)).toEqual({ a: 3, c: 4, d: 4 });
    expect(answer.more).toBe(false);
    expect(await trial.unchanged(() => trial.reserve(request(250, {})))).toEqual([]);
    expect(countByTopic(await trial.reserve(request(250, { b: 250 })))).toEqual({ b: 10 });
  }),

  fact('reserve: the capacity of a topic counts over all priorities', async (trial) => {
    for (const priority of ['high', 'normal', 'low'] as const)
      for (let n = 0; n < 4; n += 1) await trial.push(`${priority}${n}`, { priority });
    expect(await trial.reserve(request(250, { t: 5 }))).toHaveLength(5);
  }),

  fact('reserve: leases each topic for the requested time', async (trial) => {
    await fill(trial, { a: 'normal', b: 'normal' }, 1);
    const rooms = {
      ...request(10, { a: { room: 5, leaseMs: 12_000 } }),
      others: { room: 5, leaseMs: 90_000 },
    };
    const jobs = await trial.reserve(rooms);
    expect(Object.fromEntries(jobs.map((job) => [job.topic, job.leaseMs]))).toEqual({ a: 12_000, b: 90_000 });
    const stored = (await trial.dump()).jobs;
    expect(stored.map((job) => job.lease?.untilMs)).toEqual([trial.now + 12_000, trial.now + 90_000]);
  }),

  fact('reserve: turns the wheel H N H L H N H N H L in one call', async (trial) => {
    await fill(trial, { H: 'high', N: 'normal', L: 'low' }, 30);
    expect(topicsOf(await trial.reserve(request(20)))).toBe('H N H L H N H N H L H N H L H N H N H L');
  }),

  fact('reserve: the wheel keeps its position between calls of any owner', async (trial) => {
    await fill(trial, { H: 'high', N: 'normal', L: 'low' }, 30);
    const dealt: string[] = [];
    for (const max of [1, 1, 1, 1, 3, 1, 2, 9, 1]) {
      dealt.push(topicsOf(await trial.reserve(request(max, null, { ...owner, instance: max }))));
      expect(await trial.reserve(request(5, {}))).toEqual([]);
    }
    expect(dealt.join(' ')).toBe('H N H L H N H N H L H N H L H N H N H L');
  }),

  fact('reserve: passes on the ticket of a priority without jobs or capacity', async (trial) => {
    await fill(trial, { H: 'high', N: 'normal', L: 'low' }, 30);
    expect(topicsOf(await trial.reserve(request(10, { H: 250, L: 250 })))).toBe('H H H L H H H H H L');
    expect(topicsOf(await trial.reserve(request(10, { N: 250, L: 250 })))).toBe('N N N L N N N N N L');
    expect(topicsOf(await trial.reserve(request(10, { L: 2, N: 2 })))).toBe('N N L L');
  }),

  fact('reserve: takes turns over the topics of a priority', async (trial) => {
    await fill(trial, { long: 'normal' }, 40);
    await fill(trial, { short: 'normal', other: 'normal' }, 8);
    const jobs = [...(await trial.reserve(request(7))), ...(await trial.reserve(request(5)))];
    for (let n = 0; n < 12; n += 1) jobs.push(...(await trial.reserve(request(1))));
    expect(countByTopic(jobs)).toEqual({ long: 8, short: 8, other: 8 });
    expect(countByTopic(await trial.reserve(request(5)))).toEqual({ long: 5 });
  }),

  fact('reserve: takes from topics that have capacity again in the order of their turns', async (trial) => {
    await pushTo(trial, closedTopics.slice(0, 200));
    await pushTo(trial, ['between']);
    await pushTo(trial, closedTopics.slice(200));
    const rooms = withoutRoom(closedTopics);
    expect(await taken(trial, rooms)).toEqual(['between 1']);
    // One topic gets its capacity by name, the other one that of the others.
    rooms.set('closed299', roomFor(1));
    rooms.delete('closed0');
    expect(await taken(trial, rooms)).toEqual(['closed0 1', 'closed299 1']);
    expect(await taken(trial, rooms)).toEqual([]);
    await pushTo(trial, ['closed0'], '2');
    expect(await taken(trial, rooms)).toEqual(['closed0 2']);
  }),

  fact('reserve: a topic that leaves the upper layer gets the base capacity again', async (trial) => {
    const base = new CapacityBase(new Map([...withoutRoom(closedTopics), ['open', roomFor(5)]]));
    const over = (rooms: Readonly<Record<string, number>>) => {
      const upper = Object.entries(rooms).map(([topic, room]) => [topic, roomFor(room)] as const);
      return taken(trial, new LayeredCapacities(base, new Map(upper)));
    };
    await pushTo(trial, closedTopics);
    expect(await over({})).toEqual([]);
    expect(await over({ closed7: 1 })).toEqual(['closed7 1']);
    await pushTo(trial, ['closed7', 'open', 'unnamed'], '2');
    expect(await over({ open: 0, unnamed: 0 })).toEqual([]);
    expect(await over({ closed200: 1, open: 0 })).toEqual(['closed200 1', 'unnamed 2']);
    expect(await over({})).toEqual(['open 2']);
    expect(await over({})).toEqual([]);
    // Another base, with the same topics except one.
    const fewer = new CapacityBase(withoutRoom(closedTopics.filter((topic) => topic !== 'closed7')));
    expect(await taken(trial, new LayeredCapacities(fewer, new Map()))).toEqual(['closed7 2']);
  }),

  fact('reserve: takes the earliest due of a topic first, equal ones by version', async (trial) => {
    const pushed = [
      { id: 'late', dueMs: 5 },
      { id: 'z', dueMs: 0 },
      { id: 'replaced', dueMs: 0 },
      { id: 'a', dueMs: 0 },
      { id: 'early', dueMs: -5 },
      { id: 'replaced', dueMs: 0 },
    ];
    await trial.pushDue(pushed);
    expect((await trial.promote()).moved).toBe(5);
    const first = idsOf(await trial.reserve(request(2)));
    expect([...first, ...idsOf(await trial.reserve(request(9)))]).toEqual(words`early z a replaced late`);
  }),
];
