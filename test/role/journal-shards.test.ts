// Shards that go back together, while an earlier shard list still has jobs: each is healed, and no job is
// stored twice. A shard that goes back at the end of its healing is healed again. Real Redis and MariaDB; the
// agents of dq-upkeep run in this process.

import { Redis } from 'ioredis';
import { expect, it } from 'vitest';
import { type RedisServer, startRedis } from '../../scripts/services/redis.ts';
import { placesOf, withShard } from '../../src/core/shard-list.ts';
import type { Healing } from '../../src/ports/job-store.ts';
import { farOffMs, jobOf } from '../conformance/trial.ts';
import { journalDatabase, journalInstance } from '../support/journal-instance.ts';
import { dumpOf, openEmpty } from '../support/redis-store.ts';
import { lacks, owned, workerMariadb } from '../support/services.ts';
import { listOf, openShards, shardOf } from '../support/shards.ts';
import { until } from '../support/until.ts';

const isSkipped = (await lacks('redis')) || (await lacks('mysql'));

async function connected({ url }: RedisServer): Promise<Redis> {
  const raw = new Redis(url, { protocol: 2 });
  await owned('test', Promise.resolve({ stop: async () => raw.disconnect() }));
  return raw;
}

async function snapshot(raw: Redis): Promise<() => Promise<unknown>> {
  const names = await raw.keys('*');
  const kept = await Promise.all(names.map(async (key) => [key, await raw.dumpBuffer(key)] as const));
  return () => {
    const pipeline = raw.multi().flushall();
    for (const [key, dump] of kept) pipeline.restore(key, 0, dump as Buffer, 'REPLACE');
    return pipeline.exec();
  };
}

it.skipIf(isSkipped)(
  'journal: two shards of an unsettled list go back, and both are healed',
  async () => {
    const mysql = await workerMariadb();
    const servers = [await owned('test', startRedis()), await owned('test', startRedis())] as const;
    const raws = [await connected(servers[0]), await connected(servers[1])] as const;
    const listed = { list: listOf([servers[0]]) };
    const redis = await openShards(listed, { writer: '1.1' });
    const shard = redis.shard('a'.repeat(16));
    if (shard === null) throw new Error('no shard');
    const dump = () => dumpOf(raws[0]);
    const under = {
      redis,
      shard,
      store: redis.store,
      raw: raws[0],
      dump,
      close: () => redis.close(),
    };
    const one = await journalInstance(servers[0], await journalDatabase(mysql, 'shards'), 1, { under });
    const { jobs } = one.store;

    const alive = new Set<string>();
    const push = async (prefix: string) => {
      const ids = Array.from({ length: 20 }, (_, n) => `${prefix}-${n}`);
      const outcomes = await jobs.push(ids.map((id) => jobOf(id, { when: { delayMs: farOffMs } })));
      expect(outcomes.every(({ kind }) => kind === 'stored')).toBe(true);
      for (const id of ids) alive.add(id);
      return ids;
    };
    const cancel = async (ids: readonly string[]) => {
      const outcomes = await jobs.cancel(ids.map((id) => ({ topic: 't', id })));
      expect(outcomes.every(({ kind }) => kind === 'cancelled')).toBe(true);
      for (const id of ids) alive.delete(id);
    };

    const again = await push('again');
    const early = await push('early');
    const backA = await snapshot(raws[0]);
    await push('lost');
    await cancel([...again, ...early.slice(0, 10)]);
    listed.list = withShard(listed.list, shardOf(servers[1], 'b'));
    redis.apply(listed.list);
    const late = await push('late');
    // The second shard keeps some of them; the first one will have older versions.
    await push('again');
    const backB = await until('the second shard', async () =>
      (await raws[1].exists('{dq:0}:j')) === 1 ? snapshot(raws[1]) : null,
    );
    await push('later');
    await cancel(late.slice(0, 10));
    const homes = [...alive].map((id) => placesOf(listed.list, { topic: 't', id }).home);
    expect(new Set(homes).size).toBe(2);
    const wanted = [...alive].map((id) => ({ topic: 't', id }));
    await until('the shipping', async () => (await one.journal.db.rows(wanted)).length === wanted.length);
    await until('no lag', () => one.recorder.state.lagMs === 0);
    await one.stop();
    await Promise.all([backA(), backB()]);
    await one.restart();
    for (const raw of raws)
      await until('the healing', async () => {
        const note = await raw.hget('{dq:0}:n', 'heal');
        return note !== null && !note.includes(' ');
      });

    const stored = (await Promise.all(raws.map((raw) => dumpOf(raw, Date.now())))).flatMap((all) => all.jobs);
    expect(stored.map(({ id }) => id).sort()).toEqual([...alive].sort());
    const rows = new Map((await one.journal.db.rows(wanted)).map(({ id, version }) => [id, version]));
    expect(stored.filter(({ id, version }) => rows.get(id) !== version)).toEqual([]);
    expect(one.errors.filter((message) => message.startsWith('restorer'))).toEqual([]);
  },
  120_000,
);

it.skipIf(isSkipped)(
  'journal: a loss at the end of a healing: only the second healing has healed it',
  async () => {
    const mysql = await workerMariadb();
    const server = await owned('test', startRedis());
    const opened = await openEmpty(server, { writer: '1.1' });
    const healing = opened.store.healing as Healing;
    let lossesLeft = 1;
    const advance: typeof healing.advance = async (note, to) => {
      if (to === 'healed' && lossesLeft > 0) {
        lossesLeft -= 1;
        await opened.raw.hset('{dq:0}:n', 'heal', `0 ${note.id + 1} jobs`);
      }
      return healing.advance(note, to);
    };
    const under = { ...opened, store: { ...opened.store, healing: { ...healing, advance } } };
    const one = await journalInstance(server, await journalDatabase(mysql, 'twice'), 1, { under });
    await one.store.jobs.push([jobOf('1', { when: { delayMs: farOffMs } })]);
    await until(
      'the shipping',
      async () => (await one.journal.db.rows([{ topic: 't', id: '1' }])).length > 0,
    );
    await opened.raw.flushall();
    await until(
      'the job',
      async () => (await one.store.jobs.get({ topic: 't', id: '1' }).catch(() => null)) !== null,
    );
    const isHealed = (message: string) => message === 'restorer: the store is healed';
    await until('the healing', () => one.notices.some(isHealed));
    expect(lossesLeft).toBe(0);
    expect(await opened.raw.hget('{dq:0}:n', 'heal')).not.toContain(' ');
    expect(one.notices.filter(isHealed)).toHaveLength(1);
  },
);
