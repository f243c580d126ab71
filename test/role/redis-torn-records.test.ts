// Tests damaged records and set members: dq quarantines them unchanged and names them; all other jobs
// continue.
import type { Redis } from 'ioredis';
import { describe, expect, it } from 'vitest';
import { pullOwner, type ReservedJob } from '../../src/core/job.ts';
import { attemptOf, examined, farOffMs, jobOf, owner, request } from '../conformance/trial.ts';
import { type OpenedRedis, openedEmpty } from '../support/redis-store.ts';
import { lacks, workerRedis } from '../support/services.ts';
import { until } from '../support/until.ts';

const opened = async () => openedEmpty(await workerRedis(), { plainPolls: false });

/** Also those of scripts. */
async function commandsOf(raw: Redis, act: () => Promise<void>): Promise<readonly string[][]> {
  const monitor = await raw.monitor();
  const commands: string[][] = [];
  monitor.on('monitor', (_time: string, args: string[]) => void commands.push(args));
  await act();
  await raw.echo('end');
  await until('all is seen', () => commands.some(([, text]) => text === 'end'));
  monitor.disconnect();
  return commands;
}

async function problemsOf({ store }: OpenedRedis): Promise<readonly (readonly [string, number, string])[]> {
  const { problems } = await examined(store);
  return problems.map(({ what, count, examples }) => [what, count, examples.join(' ')] as const);
}

const asideOf = (count: number, examples: string) =>
  [['quarantined records or set members', count, examples]] as const;

/** The parts of the only quarantined record. */
async function asidePartsOf(raw: Redis): Promise<Record<string, Buffer>> {
  const rows = (await raw.callBuffer('HVALS', '{dq:0}:q')) as Buffer[];
  expect(rows).toHaveLength(1);
  const [row] = rows as [Buffer];
  const parts: Record<string, Buffer> = {};
  for (let at = 0; at < row.length; ) {
    const length = row.readUInt32BE(at + 1);
    parts[row.toString('latin1', at, at + 1)] = row.subarray(at + 5, at + 5 + length);
    at += 5 + length;
  }
  return parts;
}

async function fieldOf(raw: Redis, id: string): Promise<Buffer> {
  const fields = await raw.hkeysBuffer('{dq:0}:j');
  return fields.find((field) => field.subarray(4).toString() === id) ?? expect.fail(`no record of ${id}`);
}

async function recordOf(raw: Redis, field: Buffer): Promise<Buffer> {
  return (await raw.hgetBuffer('{dq:0}:j', field)) ?? expect.fail('no record');
}

const ids = (jobs: readonly ReservedJob[]) => jobs.map(({ id }) => id).sort();

/** Ways to damage a record: the remaining bytes, or null. */
const tears: Readonly<Record<string, (record: Buffer) => Buffer | null>> = {
  'is missing': () => null,
  'is empty': () => Buffer.alloc(0),
  'is cut short': (record) => record.subarray(0, 9),
  'is another thing': () => Buffer.from('{"an":"object that some hand has put here"}'),
  'has a content type that is longer than itself': (record) =>
    Buffer.concat([
      Buffer.from([7 * 4]),
      record.subarray(1, 14),
      Buffer.from([255, 255]),
      record.subarray(14),
    ]),
};

async function tear(raw: Redis, id: string, how: string): Promise<{ field: Buffer; left: Buffer | null }> {
  const field = await fieldOf(raw, id);
  const left = tears[how]?.(await recordOf(raw, field)) ?? null;
  if (left === null) await raw.hdel('{dq:0}:j', field);
  else await raw.hset('{dq:0}:j', field, left);
  return { field, left };
}

describe.skipIf(await lacks('redis'))('damaged records in Redis', () => {
  it.each(Object.keys(tears))('reserve: a ready job whose record %s affects no other job', async (how) => {
    const { under, trial, raw } = await opened();
    for (const id of ['1', '2', '3']) await trial.push(id);
    await trial.push('4', { topic: 'other' });
    const { left } = await tear(raw, '1', how);
    expect(ids(await trial.reserve(request(10)))).toEqual(['2', '3', '4']);
    const { t, i, j = null, s, c } = await asidePartsOf(raw);
    expect([String(t), String(i?.subarray(1)), j, String(s)]).toEqual(['t', '1', left, ':r:1:1']);
    expect(Number(c)).toBeGreaterThan(0);
    expect(await problemsOf(under)).toEqual(asideOf(1, 't/1'));
    const { quarantined, warnings, ok } = await under.store.admin.health();
    expect([ok, quarantined]).toEqual([true, 1]);
    expect(warnings.join()).toMatch(/1 unreadable or ownerless record is quarantined: t\/1; dq fsck lists/);
    // The id is free again, and the other jobs are delivered.
    expect(await trial.push('1')).toMatchObject({ kind: 'stored', replaced: false });
    expect(await problemsOf(under)).toEqual(asideOf(1, 't/1'));
  });

  it.each(Object.keys(tears))('promote: a delayed job whose record %s blocks no other', async (how) => {
    const { under, trial, raw } = await opened();
    for (const id of ['1', '2', '3']) await trial.push(id, { when: { delayMs: 1 } });
    await tear(raw, '1', how);
    await until('all are due', async () => (await trial.promote()).waitMs === null);
    expect(ids(await trial.reserve(request(10)))).toEqual(['2', '3']);
    expect(await problemsOf(under)).toEqual(asideOf(1, 't/1'));
  });

  it.each(Object.keys(tears))('recover: a reserved job whose record %s blocks no other', async (how) => {
    const { under, trial, raw } = await opened();
    for (const id of ['1', '2', '3']) await trial.push(id);
    const jobs = await trial.reserve(request(10, null, owner, 1));
    const { field } = await tear(raw, '1', how);
    const more = await raw.hgetBuffer('{dq:0}:m', field);
    await until('the leases expired', async () => (await trial.jobs.recover(0, 10)).returned === 2);
    expect(ids(await trial.reserve(request(10)))).toEqual(['2', '3']);
    const { m, s, e } = await asidePartsOf(raw);
    expect([m, String(s)]).toEqual([more, ':l']);
    expect(e?.length).toBe(35);
    expect(jobs).toHaveLength(3);
    expect(await problemsOf(under)).toEqual(asideOf(1, 't/1'));
  });

  it.each(Object.keys(tears))('ack: a reserved job whose record %s affects no neighbour', async (how) => {
    const { under, trial, raw } = await opened();
    for (const id of ['1', '2']) await trial.push(id);
    const jobs = await trial.reserve(request(10));
    await tear(raw, '1', how);
    const answers = await trial.jobs.ack(jobs.map((job) => ({ ...job, attempt: attemptOf(job) })));
    const kinds = Object.fromEntries(jobs.map(({ id }, i) => [id, answers[i]?.kind]));
    expect(kinds).toEqual({ 1: 'lease_lost', 2: 'acked' });
    expect(await under.store.admin.counts()).toMatchObject({ topics: { t: { reserved: 1 } } });
    expect(await trial.jobs.releaseUnheld(0, owner, [], Number.MAX_SAFE_INTEGER)).toMatchObject({
      released: 0,
    });
    expect((await under.store.admin.counts()).topics).toEqual({});
    expect((await problemsOf(under)).map(([what]) => what)).toEqual(['quarantined records or set members']);
  });

  it('damaged state records and lost bodies are quarantined too', async () => {
    const { under, trial, raw } = await opened();
    await trial.push('1');
    await trial.push('2', { body: Buffer.alloc(9_000, 1) });
    await trial.push('3');
    await raw.hset('{dq:0}:m', await fieldOf(raw, '1'), 'x');
    await raw.hdel('{dq:0}:b', await fieldOf(raw, '2'));
    expect(ids(await trial.reserve(request(10)))).toEqual(['3']);
    expect((await problemsOf(under))[0]?.slice(0, 2)).toEqual(['quarantined records or set members', 2]);
  });

  it.each(Object.keys(tears))(
    'push: an id whose record %s while reserved is delivered again',
    async (how) => {
      const { trial, raw } = await opened();
      await trial.push('1');
      expect(await trial.reserve(request(10))).toHaveLength(1);
      await tear(raw, '1', how);
      expect(await trial.push('1')).toMatchObject({ kind: 'stored' });
      expect(ids(await trial.reserve(request(10)))).toEqual(['1']);
    },
  );

  it.each(['replace', 'keep'] as const)(
    'push: attempts that another build left behind are not those of a new job, mode %s',
    async (mode) => {
      const { trial, raw } = await opened();
      await trial.push('1');
      const field = await fieldOf(raw, '1');
      await trial.cancel({ topic: 't', id: '1' });
      await raw.del('{dq:0}:h', '{dq:0}:e');
      await raw.hset('{dq:0}:p', field, JSON.stringify(attemptOf({ failures: 0 })));
      // The second one of a call takes the way of an id that may exist.
      await trial.jobs.push(['1', '1'].map((id) => ({ ...jobOf(id), mode })));
      await trial.retry(await trial.lease(), 0);
      expect((await trial.known('1')).attempts).toHaveLength(1);
    },
  );

  it('reserve: a ring entry without its queue affects no other topic', async () => {
    const { under, trial, raw } = await opened();
    await trial.push('1');
    await trial.push('2', { topic: 'other' });
    await raw.del('{dq:0}:r:1:1');
    expect(ids(await trial.reserve(request(10)))).toEqual(['2']);
    expect(await raw.exists('{dq:0}:a:1')).toBe(0);
    expect((await under.store.admin.counts()).topics).not.toHaveProperty('t');
  });

  it('invalid members are quarantined from each set', async () => {
    const { under, trial, raw } = await opened();
    for (const id of ['1', '2']) await trial.push(id);
    await trial.push('3', { when: { delayMs: 1 } });
    await raw.zadd('{dq:0}:r:1:1', 0, 'torn');
    await raw.zadd('{dq:0}:d:1', 0, 'torn');
    await raw.zadd('{dq:0}:d', 0, 'torn');
    await raw.zadd('{dq:0}:l', 0, 'torn');
    await until('it to be due', async () => (await trial.promote()).waitMs === null);
    expect(await trial.jobs.recover(0, 10)).toMatchObject({ returned: 0, poisoned: [] });
    expect(ids(await trial.reserve(request(10)))).toEqual(['1', '2', '3']);
    const [[what, count, examples] = []] = await problemsOf(under);
    expect([what, count, examples?.split(' ').sort()]).toEqual([
      'quarantined records or set members',
      4,
      ['?/', '?/', 't/', 't/'],
    ]);
  });

  it('a thousand damaged records are quarantined in bounded steps', async () => {
    const { trial, raw } = await opened();
    const all = Array.from({ length: 1_000 }, (_, n) => jobOf(String(n)));
    await trial.jobs.push(all);
    await raw.del('{dq:0}:j');
    await trial.push('whole');
    const found = await until('it is found', async () => {
      const jobs = await trial.reserve(request(100));
      return jobs.length > 0 ? jobs : null;
    });
    expect(ids(found)).toEqual(['whole']);
    expect(await raw.hlen('{dq:0}:q')).toBe(1_000);
  });

  it.each([
    ['without a member', (raw: Redis) => raw.del('{dq:0}:d:1')],
    ['with an unreadable first member', (raw: Redis) => raw.zadd('{dq:0}:d:1', 0, 'x')],
    ['of a topic without a number', (raw: Redis) => raw.zadd('{dq:0}:d', 0, 'x')],
  ] as const)('counts: delayed jobs %s hide no later overdue one', async (_, damage) => {
    const { under, trial, raw } = await opened();
    await trial.push('1', { when: { delayMs: 1 } });
    const { dueAt } = await trial.push('2', { topic: 'u', when: { delayMs: 3 } });
    await damage(raw);
    await until('both are due', async () => (await under.store.admin.clock()) >= dueAt);
    expect((await under.store.admin.counts(['t'])).oldest).toEqual([{ topic: 'u', id: '2', dueAt }]);
    expect((await under.store.admin.counts()).oldest).not.toEqual([]);
  });

  it('counts: the due heads of held topics are read in pieces', async () => {
    const { under, trial, raw } = await opened();
    const topics = Array.from({ length: 450 }, (_, i) => `t${i}`);
    await trial.jobs.push(topics.map((topic) => jobOf('1', { topic, when: { delayMs: 1 } })));
    const { dueAt } = await trial.push('2', { topic: 'u', when: { delayMs: 5 } });
    await until('all are due', async () => (await under.store.admin.clock()) >= dueAt);
    const commands = await commandsOf(raw, async () => {
      expect((await under.store.admin.counts(topics)).oldest).toEqual([{ topic: 'u', id: '2', dueAt }]);
    });
    const reads = commands
      .filter(([, key]) => key === '{dq:0}:d')
      .map(([name, , ...range]) => [name, ...range]);
    expect(reads).toEqual([0, 200, 400].map((at) => ['ZRANGE', String(at), String(at + 199), 'WITHSCORES']));
  });

  it('search: of all topics, only those with jobs of the state are visited', async () => {
    const { under, trial, raw } = await opened();
    const jobs = Array.from({ length: 450 }, (_, i) => `t${i}`).flatMap((topic) =>
      [3_600_000, 3_600_001].map((delayMs) => jobOf(`${delayMs}`, { topic, when: { delayMs } })),
    );
    await trial.jobs.push(jobs);
    await trial.push('soon', { topic: 'u', when: { delayMs: 1_800_000 } });
    await trial.buried('dead', { topic: 'v' });
    await trial.push('ready', { topic: 'w' });
    const found: string[] = [];
    const commands = await commandsOf(raw, async () => {
      for (const state of ['delayed', 'ready', 'dead', undefined] as const) {
        const filter = {
          ...(state !== undefined && { state }),
          until: (await under.store.admin.clock()) + 2_000_000,
        };
        found.push(...(await under.store.jobs.search(filter, 10, null)).items.map(({ id }) => id));
      }
    });
    expect(found).toEqual(['soon', 'ready', 'dead', 'dead', 'ready', 'soon']);
    const sets = commands.flatMap(([, key = '']) => (/:[dry]:(\d:)?\d+$/.test(key) ? [key] : []));
    expect(new Set(sets).size).toBeLessThan(10);
    const all: string[] = [];
    for (let cursor: string | null = null, isFirst = true; isFirst || cursor !== null; isFirst = false) {
      const page: { items: readonly { topic: string; id: string }[]; nextCursor: string | null } =
        await under.store.jobs.search({ state: 'delayed' }, 100, cursor);
      all.push(...page.items.map(({ topic, id }) => `${topic} ${id}`));
      cursor = page.nextCursor;
    }
    expect(all).toHaveLength(901);
    expect(new Set(all).size).toBe(901);
  });

  it('damaged dead letters, entries, alerts and attempts affect no others', async () => {
    const { under, trial, raw } = await opened();
    for (const id of ['1', '2', '3']) await trial.buried(id);
    await trial.ack(await trial.reserved('done', { topic: 'done' }));
    await trial.ack(await trial.reserved('gone', { topic: 'done' }));
    await tear(raw, '1', 'is cut short');
    await raw.hset('{dq:0}:p', await fieldOf(raw, '2'), 'no JSON');
    const version = (await trial.known('2')).version;
    const alerts = await raw.hkeysBuffer('{dq:0}:o');
    const torn = alerts.find((key) => key.readUIntBE(1, 6) === version % 2 ** 48) ?? expect.fail('no alert');
    await raw.hset('{dq:0}:o', torn, 'x');
    const [end] = await raw.hkeysBuffer('{dq:0}:h');
    await raw.hset('{dq:0}:h', end as Buffer, 'x');
    const { dead, jobs, alerts: outbox } = under.store;
    expect((await dead.list({}, 10, null)).items.map(({ id }) => id)).toEqual(['3', '2']);
    expect((await jobs.search({}, 10, null)).items).toHaveLength(2);
    expect((await jobs.search({ state: 'done' }, 10, null)).items).toHaveLength(1);
    expect((await outbox.list(10, null)).items).toHaveLength(2);
    expect(await outbox.due(0)).toEqual(['t']);
    expect(await outbox.claim('t', 60_000, 10)).toHaveLength(2);
    expect(await outbox.due(0)).toEqual([]);
    expect(await dead.requeue({}, 10)).toEqual({ requeued: 2, more: false });
    expect(await trial.push('done', { topic: 'done' })).toMatchObject({ kind: 'stored' });
    expect(await trial.push('gone', { topic: 'done' })).toMatchObject({ kind: 'stored' });
    // The version of the damaged entry is lost, and with it its member in the index.
    expect((await problemsOf(under)).map(([what, count]) => [what, count])).toEqual([
      ['history entries outside their index, or index entries without one', 1],
      ['quarantined records or set members', 3],
    ]);
  });

  it('a member with another version is quarantined; the job stays', async () => {
    const { under, trial, raw } = await opened();
    await trial.push('1', { when: { delayMs: 60_000 } });
    const [entry] = (await raw.zrangeBuffer('{dq:0}:d:1', '0', '0')) as [Buffer];
    const older = Buffer.from(entry);
    older.writeUInt8((entry[6] as number) ^ 1, 6);
    await raw.zadd('{dq:0}:r:1:1', 1, older);
    await raw.zadd('{dq:0}:a:1', 1, '1');
    await trial.push('2', { topic: 'u' });
    expect(ids(await trial.reserve(request(10)))).toEqual(['2']);
    expect(await trial.known('1')).toMatchObject({ state: 'delayed' });
    expect((await asidePartsOf(raw))['e']).toEqual(older);
    expect(await problemsOf(under)).toEqual(asideOf(1, 't/1'));
  });

  it.each([...['d', 'd:1', 'a:0', 'a:1', 'r:0:1', 'r:1:1', 'l', 'k', 'x', 'x:1', 'y:1', 'T', 't', 'u']])(
    'relink: jobs come back into the lost key %s, where they were',
    async (key) => {
      const { under, trial, raw } = await opened();
      for (const topic of ['t', 'u']) {
        await trial.push('later', { topic, when: { delayMs: 3_600_000 } });
        await trial.push('tomorrow', { topic, when: { delayMs: 86_400_000 } });
        await trial.buried('dead', { topic });
        await trial.reserved('held', { topic });
        await trial.reserved('pulled', { topic }, pullOwner);
        await trial.push('high', { topic, priority: 'high' });
        await trial.push('normal', { topic });
      }
      const seen = async () => {
        const { jobs } = await trial.dump();
        return jobs.map(({ lease, ...job }) => ({ ...job, isLeased: lease !== null }));
      };
      const before = await seen();
      expect(await raw.del(`{dq:0}:${key}`)).toBe(1);
      expect(await problemsOf(under)).not.toEqual([]);
      const { relinked, problems } = await examined(under.store, 'relinks');
      expect({ problems, any: (relinked ?? 0) > 0 }).toEqual({ problems: [], any: true });
      expect(await seen()).toEqual(before);
      expect((await examined(under.store, 'relinks')).relinked).toBe(0);
      const ready = await trial.reserve(request(10));
      expect(ready.map(({ topic, id }) => `${topic}/${id}`).sort()).toEqual([
        ...['t/high', 't/normal', 'u/high', 'u/normal'],
      ]);
    },
  );

  it('relink: the next job of a topic at rest is counted, and keeps the number of its topic', async () => {
    const { under, trial, raw } = await opened();
    await trial.push('1');
    for (const job of await trial.reserve(request(10))) await trial.ack(job);
    await trial.history.forget(farOffMs, 100);
    expect(await raw.hget('{dq:0}:t', 't')).toBe('1 at rest');
    await raw.del('{dq:0}:t');
    expect(await examined(under.store, 'relinks')).toMatchObject({ problems: [], relinked: 1 });
    await trial.push('2');
    expect((await under.store.admin.counts()).topics).toMatchObject({ t: { ready: 1 } });
    while ((await trial.history.forget(0, 100)).more);
    await trial.push('1', { topic: 'u' });
    expect(await trial.known('2')).toMatchObject({ topic: 't', state: 'ready' });
    const jobs = await trial.reserve(request(10));
    expect(jobs.map(({ topic, id }) => `${topic}/${id}`).sort()).toEqual(['t/2', 'u/1']);
  });

  it('push: finds the number of its topic when the key t was lost', async () => {
    const { under, trial, raw } = await opened();
    await trial.push('held');
    const [held] = await trial.reserve(request(10));
    await trial.push('1', { topic: 'u' });
    await raw.del('{dq:0}:t');
    await trial.push('2');
    await trial.push('3', { topic: 'new' });
    expect(await raw.hgetall('{dq:0}:T')).toEqual({ 1: 't', 2: 'u', 3: 'new' });
    expect(await problemsOf(under)).toEqual([]);
    expect((await trial.reserve(request(10))).map(({ id }) => id).sort()).toEqual(['1', '2', '3']);
    await trial.ack(held ?? expect.fail('not leased'));
    expect(await under.store.jobs.get({ topic: 't', id: 'held' })).toBeNull();
  });

  it('relink: a head of a topic that has another first job goes', async () => {
    const { under, trial, raw } = await opened();
    await trial.push('a', { when: { delayMs: 3_600_000 } });
    const [head] = await raw.zrangeBuffer('{dq:0}:d', '0', '0');
    await trial.push('b', { when: { delayMs: 60_000 } });
    await raw.zadd('{dq:0}:d', 1, head as Buffer);
    expect(await examined(under.store, 'relinks')).toEqual({ jobs: 2, problems: [], relinked: 1 });
    expect((await trial.promote()).waitMs).toBeGreaterThan(50_000);
  });

  it('a job whose member names another priority is leased, and its end leaves nothing', async () => {
    const { under, trial, raw } = await opened();
    await trial.push('1');
    const [entry] = (await raw.zrangeBuffer('{dq:0}:r:1:1', '0', '0')) as [Buffer];
    const other = Buffer.from(entry);
    other.writeUInt8((entry[7] as number) ^ 2, 7);
    await raw.zadd('{dq:0}:r:1:1', (await raw.zscore('{dq:0}:r:1:1', entry)) ?? 0, other);
    await raw.zrem('{dq:0}:r:1:1', entry);
    const [job] = await trial.reserve(request(10));
    await trial.ack(job ?? expect.fail('not leased'));
    expect(await raw.exists('{dq:0}:l', '{dq:0}:j')).toBe(0);
    expect(await problemsOf(under)).toEqual([]);
  });
});
