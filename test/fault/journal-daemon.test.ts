// With a journal, a daemon delivers every acknowledged job that was not cancelled, whatever happens to Redis,
// and calls no job whose cancel it answered, without an operator. Real Redis, MariaDB, daemons and kills.

import { copyFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import type { MariadbServer } from '../../scripts/services/mariadb.ts';
import { type RedisServer, startRedis } from '../../scripts/services/redis.ts';
import { startRedisCluster } from '../../scripts/services/redis-cluster.ts';
import { startSentinelGroup } from '../../scripts/services/redis-sentinel.ts';
import { type Daemon, startDaemon } from '../support/daemon.ts';
import { type Load, startLoad } from '../support/load.ts';
import { addTopic, groupBy } from '../support/producing.ts';
import { lacks, mariadb, owned } from '../support/services.ts';
import { type Arrival, type Sink, startSink } from '../support/sink.ts';
import { until } from '../support/until.ts';

vi.setConfig({ testTimeout: 600_000 });

const jobs = Number(process.env['DQ_JOURNAL_JOBS'] ?? 1_500);
const perSecond = Number(process.env['DQ_JOURNAL_RATE'] ?? 250);
/** Jobs are due within this time of their push: some before the disaster, most after it. */
const spreadMs = Number(process.env['DQ_JOURNAL_SPREAD_MS'] ?? 12_000);
/** Least age of the snapshot that is put back. */
const snapshotMs = Number(process.env['DQ_JOURNAL_SNAPSHOT_MS'] ?? 1_000);

describe.skipIf((await lacks('redis')) || (await lacks('mysql')))('journal, daemons', async () => {
  let mysql: MariadbServer;
  let made = 0;
  beforeAll(async () => {
    mysql = await owned('file', mariadb());
  });

  /** While a bucket heals, dq does not say that a job is absent. `before`: acknowledged before the loss. */
  async function answersWhileHealing(world: World, before: ReadonlySet<string>): Promise<void> {
    const { daemons, cancelled } = world;
    const [daemon] = daemons as [Daemon];
    const api = (method: string, path: string) =>
      daemon.api(method, `/v1/topics/t/jobs${path}`, path.startsWith('?') ? {} : undefined);
    const lost = [...before].slice(-80, -60).filter((id) => !cancelled.has(id));
    const [read = '', moved = '', kept = '', removed = ''] = lost;
    await until('a lost job is not called absent', async () => {
      const { status, body } = await api('GET', `/${read}`);
      return status === 503 && body.code === 'restoring';
    });
    expect(await api('POST', `/${moved}/run`)).toMatchObject({ status: 503, body: { code: 'restoring' } });
    expect(await api('POST', `?id=${kept}&mode=keep`)).toMatchObject({
      status: 503,
      body: { code: 'restoring' },
    });
    const answer = await api('DELETE', `/${removed}`);
    expect(answer).toMatchObject({ status: 200 });
    world.noteCancel(removed, answer.body);
  }

  /** What dq answered to a cancel, and when. */
  interface Cancel {
    readonly inFlight: boolean;
    /** epoch ms */
    readonly answeredAt: number;
    /** how many arrivals the receiver had read by then */
    readonly seen: number;
    /** The disaster had not begun. */
    readonly isBefore: boolean;
  }

  interface Stores {
    readonly urls: readonly string[];
    readonly servers: readonly RedisServer[];
  }

  interface World {
    /** the first server */
    readonly redis: RedisServer;
    readonly servers: readonly RedisServer[];
    readonly daemons: readonly Daemon[];
    readonly sink: Sink;
    readonly load: Load;
    /** id → its cancel */
    readonly cancelled: ReadonlyMap<string, Cancel>;
    noteCancel(id: string, body: { readonly inFlight: boolean }): void;
    /** ids whose cancel has no answer, or another one: it may have happened */
    readonly unsure: ReadonlySet<string>;
    /** Starts a killed daemon again, in its directory. */
    restart(at: number): Promise<void>;
    disasterBegins(): void;
  }

  async function startWorld(
    count: number,
    open: () => Promise<Stores>,
  ): Promise<World & { end(): Promise<void> }> {
    const { urls, servers } = await open();
    const [redis] = servers as [RedisServer];
    const database = `journal${made++}`;
    const args = [
      ...urls.flatMap((url) => ['--redis', url]),
      '--mysql',
      await mysql.createDatabase(database),
    ];
    const base = { journal: { mode: 'sync' }, retry: { unit: '500ms' } };
    const daemons = [await startDaemon({ args, config: base, group: true })];
    const secretKeyFile = join((daemons[0] as Daemon).dataDir, 'secret.key');
    while (daemons.length < count)
      daemons.push(await startDaemon({ args, config: { ...base, secretKeyFile }, group: true }));
    const sink = await startSink(async (_arrival, response) => {
      await sleep(5);
      response.writeHead(200).end('{"code":200}');
    });
    await addTopic(daemons[0] as Daemon, 't', sink.url, { concurrency: 1_000 });
    for (const daemon of daemons)
      await until('the topic is known', async () => (await daemon.api('GET', '/v1/topics/t')).status === 200);
    let next = 0;
    const load = startLoad({
      url: () => (daemons[next++ % daemons.length] as Daemon).url,
      topic: 't',
      perSecond,
      delayMs: spreadMs,
    });
    const cancelled = new Map<string, Cancel>();
    const unsure = new Set<string>();
    let isBefore = true;
    const noteCancel = (id: string, { inFlight }: { readonly inFlight: boolean }) =>
      cancelled.set(id, { inFlight, answeredAt: Date.now(), seen: sink.arrivals.length, isBefore });
    let isOver = false;
    const cancels = (async () => {
      const asked = new Set<string>();
      while (!isOver) {
        const id = [...load.acknowledged].slice(-60).find((one) => !asked.has(one) && one.endsWith('7'));
        if (id === undefined) {
          await sleep(10);
          continue;
        }
        asked.add(id);
        const answer = await (daemons[asked.size % daemons.length] as Daemon)
          .api('DELETE', `/v1/topics/t/jobs/${id}`)
          .catch(() => null);
        if (answer?.status === 200) noteCancel(id, answer.body);
        else unsure.add(id);
      }
    })();
    return {
      ...{ redis, servers, daemons, sink, load, cancelled, noteCancel, unsure },
      disasterBegins: () => {
        isBefore = false;
      },
      async restart(at) {
        const { directory } = daemons[at] as Daemon;
        daemons[at] = await startDaemon({ args, directory, group: true });
      },
      async end() {
        isOver = true;
        await cancels;
      },
    };
  }

  /** No file is written unless a test says so. */
  async function openShards(count: number): Promise<Stores> {
    const servers: RedisServer[] = [];
    while (servers.length < count) servers.push(await owned('test', startRedis()));
    return { urls: servers.map(({ url }) => url), servers };
  }

  async function openSentinel(): Promise<Stores> {
    const group = await owned('test', startSentinelGroup());
    return { urls: [group.url], servers: [group.master, ...group.replicas] };
  }

  async function openCluster(): Promise<Stores> {
    const config = ['cluster-require-full-coverage no'];
    const cluster = await owned('test', startRedisCluster({ config }));
    return { urls: [cluster.url], servers: cluster.masters };
  }

  /** Arrivals that the answer to the cancel of their job rules out. The receiver may read a call long after
   *  dq has sent it, so the order of the answers and of the starts of calls decides, not the time of arrival.
   *  `overAt`: end of the disaster; a call that began before may be under way without Redis knowing it. */
  function ruledOut(cancelled: World['cancelled'], arrivals: readonly Arrival[], overAt: number): unknown[] {
    const later = groupBy(
      arrivals.filter(({ id }, n) => n >= (cancelled.get(id)?.seen ?? Number.POSITIVE_INFINITY)),
      ({ id }) => id,
    );
    return [...later].flatMap(([id, calls]) => {
      const { inFlight, answeredAt, isBefore } = cancelled.get(id) as Cancel;
      const began = calls.map(beganAt);
      // No call begins after the answer, whatever happens. Of those under way the answer knows at most one.
      const isAfter = began.some((at) => at > answeredAt);
      const known = isBefore ? began : began.filter((at) => at > overAt);
      if (!isAfter && known.length <= (inFlight ? 1 : 0)) return [];
      return [
        { id, ...cancelled.get(id), overAt, calls: calls.map(({ attempt }, n) => [attempt, began[n]]) },
      ];
    });
  }

  /** The second in which dq began the call, epoch ms: no later than the call. */
  const beganAt = ({ headers }: Arrival) => Number(headers['webhook-timestamp']) * 1_000;

  /** Pushes and cancels while `disaster` happens, and checks what dq has promised. */
  async function survives(
    disaster: (world: World) => Promise<void>,
    { instances = 1, open = () => openShards(1) } = {},
  ): Promise<void> {
    const world = await startWorld(instances, open);
    const { load, sink, cancelled, unsure, daemons } = world;
    await until('half of the pushes', () => load.acknowledged.size >= jobs / 2, 120_000);
    world.disasterBegins();
    await disaster(world);
    const overAt = Date.now();
    await until('the other half', () => load.acknowledged.size >= jobs, 240_000);
    const result = await load.stop();
    await world.end();
    const wanted = [...result.acknowledged].filter((id) => !cancelled.has(id) && !unsure.has(id));
    const arrivedAt = () => groupBy(sink.arrivals, ({ id }) => id);
    await until(
      'every acknowledged job has arrived',
      () => {
        const arrived = new Set(sink.arrivals.map(({ id }) => id));
        const missing = wanted.filter((id) => !arrived.has(id));
        if (missing.length > 0) throw new Error(`${missing.length} missing, ${missing.slice(0, 5)}`);
        return true;
      },
      spreadMs + 60_000,
      200,
    ).catch((error: unknown) => {
      const lines = daemons.flatMap((daemon) => [...daemon.log('error'), ...daemon.log('notice')]);
      console.log(lines.map((line) => JSON.stringify(line)).join('\n'));
      throw error;
    });
    expect(ruledOut(cancelled, sink.arrivals, overAt)).toEqual([]);
    const twice = [...arrivedAt().values()].filter((arrivals) => arrivals.length > 1).length;
    console.log(
      `${result.acknowledged.size} acknowledged, ${result.failures.length} rejected or unknown, ${cancelled.size} cancelled, ${twice} called more than once; slowest answer ${result.slowestMs} ms`,
    );
  }

  it('FLUSHALL on a live connection', () =>
    survives(async ({ redis }) => {
      await redis.ask('FLUSHALL');
    }));

  it('Redis killed, its data removed, and started again', () =>
    survives(async ({ redis }) => {
      await redis.process.kill();
      rmSync(join(redis.process.directory, 'dump.rdb'), { force: true });
      await redis.process.start();
    }));

  it('an older snapshot put back', () =>
    survives(async ({ redis, load }) => {
      await redis.ask('SAVE');
      const older = join(redis.process.directory, 'dump.rdb');
      copyFileSync(older, `${older}.older`);
      const [then, at] = [load.acknowledged.size, performance.now()];
      const isOld = () => performance.now() - at >= snapshotMs;
      await until('a third more', () => load.acknowledged.size >= then + jobs / 6 && isOld(), 60_000);
      await redis.process.kill();
      copyFileSync(`${older}.older`, older);
      await redis.process.start();
    }));

  it('FLUSHALL, and dq killed while it spools', () =>
    survives(async ({ redis, daemons, restart }) => {
      const [daemon] = daemons as [Daemon];
      process.kill(-daemon.pid, 'SIGKILL');
      await until('it is gone', () => daemon.workers().length === 0);
      await redis.ask('FLUSHALL');
      await restart(0);
    }));

  it('MariaDB unavailable before, during and after FLUSHALL', () =>
    survives(async (world) => {
      const { redis, load } = world;
      await mysql.process.kill();
      const then = load.acknowledged.size;
      await until('pushes go on', () => load.acknowledged.size >= then + jobs / 6, 60_000);
      const before = new Set(load.acknowledged);
      await redis.ask('FLUSHALL');
      await answersWhileHealing(world, before);
      await until('and go on', () => load.acknowledged.size >= then + jobs / 4, 60_000);
      await mysql.process.start();
    }));

  it('Sentinel: the master stops while its replica lags', () =>
    survives(
      async ({ servers, load }) => {
        const [master, replica] = servers as [RedisServer, RedisServer];
        // The replica cannot connect again.
        await master.ask('ACL', 'SETUSER', 'default', '-psync', '-sync', '-replconf');
        await master.ask('CLIENT', 'KILL', 'TYPE', 'replica');
        const then = load.acknowledged.size;
        await until('some more', () => load.acknowledged.size >= then + jobs / 12, 60_000);
        await master.process.freeze();
        const role = async () => /^role:(\S+)/m.exec(await replica.ask('INFO', 'replication'))?.[1];
        await until('the replica is promoted', async () => (await role()) === 'master', 60_000);
      },
      { open: openSentinel },
    ));

  it('a node of a Cluster emptied', () =>
    survives(
      async ({ redis }) => {
        await redis.ask('FLUSHALL');
      },
      { open: openCluster },
    ));

  it('a shard lost for good, and removed with dq shard rm --lost', () =>
    survives(
      async ({ servers, daemons }) => {
        const [daemon] = daemons as [Daemon];
        const [, lost] = servers as [RedisServer, RedisServer];
        await lost.ask('SAVE');
        await lost.process.kill();
        const { body } = await daemon.api('GET', '/v1/shards');
        const { id } = body.items.find(({ url }: { url: string }) =>
          lost.url.endsWith(url.replace(/^.*:/, ':')),
        );
        expect(await daemon.api('POST', `/v1/shards/${id}/drain`)).toMatchObject({ status: 200 });
        expect(await daemon.api('DELETE', `/v1/shards/${id}?jobs=lost`)).toEqual({
          status: 200,
          body: { deleted: true, restores: true },
        });
        // It returns with jobs that are on the other shard by now.
        await lost.process.start();
        expect(await daemon.api('POST', '/v1/shards', { url: lost.url })).toMatchObject({
          status: 409,
          body: { code: 'shard_refused', detail: expect.stringContaining('FLUSHDB') },
        });
      },
      { open: () => openShards(2) },
    ));

  it('two instances heal at once, while a shard is added', () =>
    survives(
      async ({ redis, daemons }) => {
        const [daemon] = daemons as [Daemon];
        const second = await owned('test', startRedis());
        await redis.ask('FLUSHALL');
        expect(await daemon.api('POST', '/v1/shards', { url: second.url })).toMatchObject({ status: 201 });
      },
      { instances: 2 },
    ));
});
