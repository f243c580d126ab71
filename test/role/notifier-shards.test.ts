// A notifier on several shards, which number their leases without knowing of one another.
import { expect, it } from 'vitest';
import { startRedis } from '../../scripts/services/redis.ts';
import { placesOf } from '../../src/core/shard-list.ts';
import { createNotifier } from '../../src/notifier/notifier.ts';
import { type JobStore, type Partition, StoreError } from '../../src/store/job-store.ts';
import { lacks, owned } from '../support/services.ts';
import { listOf, openShards } from '../support/shards.ts';
import { ok, startSink } from '../support/sink.ts';
import { until } from '../support/until.ts';
import { ids, startRig } from './rig.ts';

it.skipIf(await lacks('redis'))(
  'a job that is being called is not handed back because one of another shard, with the same token, has ended',
  async () => {
    const servers = await Promise.all([owned('test', startRedis()), owned('test', startRedis())]);
    const list = listOf(servers);
    const sharded = await openShards({ list });
    await owned('test', Promise.resolve({ stop: () => sharded.close() }));
    const rig = await startRig();
    const sink = await startSink((arrival, response) => {
      if (arrival.id === short) return ok(arrival, response);
    });
    const homeOf = (id: string) => placesOf(list, { topic: 't', id }).home;
    const some = ids('j', 50);
    const short = some.find((id) => homeOf(id) === list.shards[0]?.id) ?? '';
    const long = some.find((id) => homeOf(id) === list.shards[1]?.id) ?? '';
    // Clocks of two servers that are apart by no more than the calls take meet in the same numbers by themselves.
    const ahead = `${(Date.now() + 60_000) * 1_000}`;
    for (const server of servers) await server.ask('HSET', '{dq:0}:n', 'seq', ahead);
    const outcomes = await sharded.store.jobs.push(
      [short, long].map((id) => ({
        ...{ topic: 't', id, when: { delayMs: 0 }, mode: 'replace', priority: 'normal', contentType: null },
        body: Buffer.from('1'),
      })),
    );
    expect(outcomes.map(({ kind }) => kind)).toEqual(['stored', 'stored']);
    await rig.topic('t', sink.url);

    const tokens: number[] = [];
    const asked: ('unheld' | 'reserve')[] = [];
    let loses = false;
    const jobs: Partial<JobStore> = {
      async reserve(partition: Partition, request) {
        if (loses) {
          loses = false;
          throw new StoreError({ kind: 'unknown', code: 'no_answer' });
        }
        const reserved = await sharded.store.jobs.reserve(partition, request);
        tokens.push(...reserved.jobs.map(({ token }) => token));
        asked.push('reserve');
        return reserved;
      },
      async releaseUnheld(...args) {
        const released = await sharded.store.jobs.releaseUnheld(...args);
        asked.push('unheld');
        return released;
      },
    };
    const store = { ...sharded.store, jobs: { ...sharded.store.jobs, ...jobs } };
    await rig.run(createNotifier(rig.context({ store })));
    await until('one to be delivered', () => rig.counted('t', 'delivered') === 1);
    await until('the other to be called', () => sink.open().length === 1);
    expect(tokens).toHaveLength(2);
    expect(tokens[0]).toBe(tokens[1]);
    loses = true;
    await until(
      'leases without a holder to be looked for on both',
      () => asked.filter((what) => what === 'unheld').length === 2,
    );
    asked.length = 0;
    await until('both to be asked for jobs', () => asked.length >= 4);
    expect(sink.arrivals.map(({ id }) => id).sort()).toEqual([short, long].sort());
    sink.finish(sink.open()[0]);
    await until('it to be delivered', () => rig.counted('t', 'delivered') === 2);
    expect(rig.lines.filter(({ message }) => message.startsWith('leases were lost'))).toEqual([]);
  },
);
