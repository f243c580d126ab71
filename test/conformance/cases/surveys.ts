// surveys: position, scan, horizon and groups of dead letters.

import { expect } from 'vitest';
import type { DeadReason, FoundJob } from '../../../src/core/job.ts';
import { type DeadSelection, horizonClasses, horizonEndsMs } from '../../../src/core/survey.ts';
import type { ScanFilter } from '../../../src/ports/job-store.ts';
import { attemptOf, type Case, fact, farOffMs, leaseOf, only, type Trial } from '../trial.ts';

const base64 = (text: string) => Buffer.from(text).toString('base64');

/** All pages; every cursor is used. */
async function scanned(trial: Trial, filter: ScanFilter, limit = 100): Promise<readonly FoundJob[]> {
  const all = new Map<string, FoundJob>();
  for (let cursor: string | null = null; ; ) {
    const page = await trial.surveys.scan(filter, limit, cursor, 400);
    for (const job of page.items) all.set(`${job.topic}/${job.id}`, job);
    cursor = page.nextCursor;
    if (cursor === null) return [...all.values()];
  }
}
const names = (jobs: readonly FoundJob[]) => jobs.map(({ topic, id }) => `${topic}/${id}`).sort();

const uuid = '0195f3a2-7c1e-7000-8000-0123456789ab';

/** Ids and bodies of several kinds, in each state, and an ended job. */
async function seven(trial: Trial): Promise<void> {
  const body = Buffer.from('{"order":88120,"text":"später"}');
  await trial.buried('vip-1', { topic: 'a', body });
  await trial.reserved('vip-2', { topic: 'a' });
  await trial.push('vip-2', { topic: 'b', when: { delayMs: farOffMs }, contentType: 'application/json' });
  await trial.push('vip', { topic: 'b', when: { delayMs: 2 * farOffMs }, body });
  await trial.push('a vip-1', { topic: 'a', when: { delayMs: farOffMs } });
  await trial.push(uuid, { topic: 'b', when: { delayMs: farOffMs }, contentType: 'text/later; x=88120' });
  // Redis stores it apart from its record.
  const large = Buffer.concat([Buffer.alloc(5_000, 'x'), body]);
  await trial.push('large', { topic: 'b', when: { delayMs: farOffMs }, body: large });
  await trial.push('vip-ended', { topic: 'a', body });
  await trial.cancel({ topic: 'a', id: 'vip-ended' });
}

const filters: readonly (readonly [ScanFilter, readonly string[]])[] = [
  [{ idPrefix: 'vip-' }, ['a/vip-1', 'a/vip-2', 'b/vip-2']],
  [{ idPrefix: 'vip' }, ['a/vip-1', 'a/vip-2', 'b/vip', 'b/vip-2']],
  [{ idPrefix: 'vip-', topics: ['b', 'none'] }, ['b/vip-2']],
  [{ idPrefix: 'vip-', topics: [] }, []],
  [{ idPrefix: 'vip-', state: 'dead' }, ['a/vip-1']],
  [{ idPrefix: 'none' }, []],
  [{ idPrefix: uuid.slice(0, 11) }, [`b/${uuid}`]],
  [{ idPrefix: uuid }, [`b/${uuid}`]],
  [{ idPrefix: `${uuid}0` }, []],
  [{ body: base64('88120') }, ['a/vip-1', 'b/large', 'b/vip']],
  [{ body: base64('"später') }, ['a/vip-1', 'b/large', 'b/vip']],
  [{ body: base64('88120'), topics: ['b'] }, ['b/large', 'b/vip']],
  [{ body: base64('88120'), topics: [] }, []],
  [{ body: base64('88120'), state: 'delayed' }, ['b/large', 'b/vip']],
  [{ body: base64('88120'), idPrefix: 'vip-' }, ['a/vip-1']],
  [{ body: base64('88120\0') }, []],
];

const failed = (reason: 'connect' | 'timeout' | 'status', status: number | null) => ({ reason, status });
type Failed = ReturnType<typeof failed>;

export const surveyCases: readonly Case[] = [
  fact('position: counts the jobs that reserve takes before', async (trial) => {
    const { now } = trial;
    for (const [id, at] of Object.entries({ late: 30, early: 10, middle: 20 }))
      await trial.push(id, { when: { at: now + at } });
    await trial.reach(now + 40);
    await trial.promote();
    await trial.push('high', { priority: 'high' });
    await trial.push('other', { topic: 'o' });
    const of = (id: string, topic = 't') => trial.surveys.position({ topic, id });
    const all = async () => [await of('early'), await of('middle'), await of('late'), await of('high')];
    expect(await trial.unchanged(all)).toEqual([0, 1, 2, 0]);
    expect(await of('other', 'o')).toBe(0);
  }),

  fact('position: null for jobs that are not ready', async (trial) => {
    for (const state of ['delayed', 'reserved', 'dead'] as const)
      await trial.seed(state, '1', { topic: `in.${state}` });
    for (const topic of ['in.delayed', 'in.reserved', 'in.dead', 'none'])
      expect(await trial.surveys.position({ topic, id: '1' })).toBeNull();
  }),

  fact('position, history and alert take a job with a large body as its key', async (trial) => {
    await trial.push('1', { body: Buffer.alloc(6 * 1_024 * 1_024, 'x') });
    const job = await trial.known('1');
    expect(await trial.surveys.position(job)).toBe(0);
    expect(await trial.history.get(job)).toBeNull();
    expect(await trial.alerts.stateOf(job)).toBeNull();
  }),

  ...filters.map(([filter, expected]) =>
    fact(`scan: applies the filter ${JSON.stringify(filter)}`, async (trial) => {
      await seven(trial);
      expect(names(await trial.unchanged(() => scanned(trial, filter)))).toEqual(expected);
      expect(names(await scanned(trial, filter, 1))).toEqual(expected);
    }),
  ),

  fact('scan: filters by due time, since included, until not', async (trial) => {
    const at = trial.now + farOffMs;
    for (const n of [0, 1, 2]) await trial.push(`${n}`, { when: { at: at + n } });
    for (const filter of [{ body: base64('body of') }, { idPrefix: '' }])
      expect(names(await scanned(trial, { ...filter, since: at + 1, until: at + 2 }))).toEqual(['t/1']);
  }),

  fact('scan: returns jobs as a search does', async (trial) => {
    await seven(trial);
    const found = (await trial.jobs.search({ topic: 'b' }, 100, null)).items;
    const byName = (a: FoundJob, b: FoundJob) => (a.id < b.id ? -1 : 1);
    const jobs = await scanned(trial, { idPrefix: '', topics: ['b'] });
    expect([...jobs].sort(byName)).toEqual([...found].sort(byName));
  }),

  fact('scan: a call without budget goes on a little; the calls examine every job', async (trial) => {
    for (let n = 0; n < 30; n += 1) await trial.push(`${n}`, { when: { delayMs: farOffMs } });
    for (const filter of [{ body: base64('body of') }, { idPrefix: '' }]) {
      const found: FoundJob[] = [];
      let examined = 0;
      for (let cursor: string | null = null, isFirst = true; isFirst || cursor !== null; isFirst = false) {
        const page = await trial.surveys.scan(filter, 7, cursor, 0);
        expect(page.scanned.of).toBe(30);
        // The last call may find that no job is left.
        if (page.nextCursor !== null) expect(page.scanned.jobs).toBeGreaterThan(0);
        examined += page.scanned.jobs;
        found.push(...page.items);
        cursor = page.nextCursor;
      }
      expect(new Set(found.map(({ id }) => id)).size).toBe(30);
      expect(examined).toBe(30);
    }
  }),

  fact('scan: rejects a cursor that it did not return', async (trial) => {
    for (const filter of [{ body: base64('abc') }, { idPrefix: 'a' }])
      await expect(trial.surveys.scan(filter, 10, 'x', 400)).rejects.toMatchObject({
        failure: { kind: 'not_stored', code: 'bad_cursor' },
      });
  }),

  fact('horizon: counts waiting jobs by due time', async (trial) => {
    const counts = new Map<string, number>();
    for (const [at, name] of horizonClasses.entries()) {
      const end = horizonEndsMs[at];
      // In the middle of its class; ready jobs are the overdue ones.
      const delayMs = at === 0 ? 0 : ((end ?? 100 * 86_400_000) + (horizonEndsMs[at - 1] ?? 0)) / 2;
      for (let n = 0; n <= at % 3; n += 1) await trial.push(`${name} ${n}`, { when: { delayMs } });
      counts.set(name, (at % 3) + 1);
    }
    await trial.bystanders();
    const horizon = await trial.unchanged(() => trial.surveys.horizon(['t']));
    expect(horizon).toEqual({ counts: [...counts.values()] });
    // A delayed job of an hour, and a ready one; the reserved and the dead one do not wait.
    const all = (await trial.surveys.horizon(null)).counts;
    const more = all.map((count, i) => count - (horizon.counts[i] ?? 0));
    expect(more[0]).toBe(1);
    expect(more.reduce((sum, count) => sum + count, 0)).toBe(2);
    expect((await trial.surveys.horizon(['none'])).counts).toEqual(horizonClasses.map(() => 0));
    expect((await trial.surveys.horizon([])).counts).toEqual(horizonClasses.map(() => 0));
  }),

  fact('horizon: a delayed job that is due and not promoted is overdue', async (trial) => {
    const at = trial.now + 20;
    await trial.push('1', { when: { at } });
    const overdue = async () => (await trial.surveys.horizon(['t'])).counts[0];
    expect(await trial.justBefore(at, overdue)).toBe(0);
    expect(await overdue()).toBe(1);
  }),

  fact('dead groups: by topic, reason, last reason and status', async (trial) => {
    const die = async (id: string, topic: string, reason: DeadReason, ...lasts: readonly Failed[]) => {
      await trial.push(id, { topic });
      for (const [i, last] of lasts.entries()) {
        const job = await trial.lease(topic);
        const attempt = attemptOf(job, last);
        if (i < lasts.length - 1) await trial.retry(job, 0, attempt);
        else only(await trial.jobs.bury([{ ...leaseOf(job), reason, attempt }]));
      }
      await trial.tick();
    };
    const [at500, at503, late] = [failed('status', 500), failed('status', 503), failed('timeout', null)];
    await die('1', 'a', 'attempts_exhausted', late, at500);
    await die('2', 'a', 'attempts_exhausted', at500);
    await die('3', 'a', 'attempts_exhausted', at500, at503);
    await die('4', 'b', 'gone', at500);
    await die('5', 'b', 'gone', late);
    await die('6', 'b', 'no_retry', at500);
    await die('7', 'b', 'gone', failed('connect', null));
    await trial.push('8', { topic: 'b' });
    const deaths = new Map((await trial.dump()).jobs.map(({ id, deadAt }) => [id, deadAt ?? 0]));
    const diedAt = (id: string) => deaths.get(id) ?? 0;
    const group = (
      topic: string,
      deadReason: DeadReason,
      last: Failed,
      ...ids: readonly [string, ...string[]]
    ) => ({
      topic,
      deadReason,
      lastReason: last.reason,
      status: last.status,
      count: ids.length,
      firstAt: diedAt(ids[0]),
      lastAt: diedAt(ids.at(-1) ?? ''),
      hours: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, ids.length],
    });
    const ofA = [
      group('a', 'attempts_exhausted', at500, '1', '2'),
      group('a', 'attempts_exhausted', at503, '3'),
    ];
    const [four, five, six] = [
      group('b', 'gone', at500, '4'),
      group('b', 'gone', late, '5'),
      group('b', 'no_retry', at500, '6'),
    ];
    const { groups, ...rest } = await trial.unchanged(() => trial.surveys.deadGroups(null));
    expect(rest).toEqual({ examined: 7, complete: true });
    expect(groups).toHaveLength(6);
    expect(groups[0]).toEqual(ofA[0]);
    expect(groups).toEqual(expect.arrayContaining([...ofA, four, five, six]));
    for (const topics of [['a'], ['a', 'none']])
      expect(await trial.surveys.deadGroups(topics)).toMatchObject({ groups: ofA, examined: 3 });
    expect(await trial.surveys.deadGroups([])).toEqual({ groups: [], examined: 0, complete: true });

    const selected = async (selection: DeadSelection, topics: readonly string[] | null = null) => {
      const found = await trial.surveys.deadGroups(topics, selection);
      expect(found).toMatchObject({ complete: true });
      expect(found.examined).toBe(found.groups.reduce((sum, { count }) => sum + count, 0));
      return found.groups;
    };
    expect(await selected({ since: diedAt('2'), until: diedAt('3') })).toEqual([
      group('a', 'attempts_exhausted', at500, '2'),
    ]);
    expect(await selected({ since: diedAt('6'), until: diedAt('7') })).toEqual([six]);
    expect(await selected({ until: diedAt('2') }, ['a'])).toEqual([
      group('a', 'attempts_exhausted', at500, '1'),
    ]);
    expect(await selected({ until: 0 })).toEqual([]);
    expect(await selected({ deadReason: 'no_retry' })).toEqual([six]);
    expect(await selected({ lastReason: 'timeout' })).toEqual([five]);
    expect(await selected({ lastReason: 'none' })).toEqual([]);
    expect(await selected({ status: '503' })).toEqual([ofA[1]]);
    expect(await selected({ status: '5xx', deadReason: 'gone' }, ['b'])).toEqual([four]);
  }),
];
