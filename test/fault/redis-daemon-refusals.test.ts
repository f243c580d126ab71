// A daemon whose Redis rejects calls: full, read-only, busy, loading, another password, a full disk, lost
// scripts or connections. Pushes are rejected as not stored, no job is lost, and the daemon recovers by
// itself.
import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { describe, expect, it, onTestFinished } from 'vitest';
import { type RedisServer, startRedis } from '../../scripts/services/redis.ts';
import { type Daemon, startDaemon } from '../support/daemon.ts';
import { startLoad, startReceiver } from '../support/load.ts';
import { fillUp, mountTmpfs, unmountable } from '../support/mounted.ts';
import { addTopic, forAll, numbers, pauseTopic, resumeTopic } from '../support/producing.ts';
import { rejectedIds, untilEmptyAndWhole, untilReady } from '../support/redis-trouble.ts';
import { lacks, owned } from '../support/services.ts';
import { ok, startSink, status } from '../support/sink.ts';
import { until } from '../support/until.ts';

/** A separate connection, for commands that would block redis-cli. */
function connected(server: RedisServer): Redis {
  const raw = new Redis(server.url, { protocol: 2, enableReadyCheck: false });
  raw.on('error', () => {});
  onTestFinished(() => raw.disconnect());
  return raw;
}

/** Waits for a rejected push, then returns the codes of `more` pushes in turn. */
async function refusals(daemon: Daemon, ids: string): Promise<readonly string[]> {
  let n = 0;
  const push = async () => (await daemon.push('t', '1', { id: `${ids}-${n++}`, mode: 'keep' })).body;
  const first = await until('a push is rejected', async () => {
    const { code } = await push();
    return code === 'not_stored' ? code : null;
  });
  const more: string[] = [];
  while (more.length < 20) more.push((await push()).code);
  return [first, ...more];
}

/** All logs and output of the daemon. */
function written(daemon: Daemon): string {
  const files = readdirSync(daemon.logDir).map((name) => readFileSync(join(daemon.logDir, name), 'utf8'));
  return [daemon.output(), ...files].join('\n');
}

/** Of ten connections. Failed attempts repeat after 50, 100, 200 … 2,000 ms, others after 2 s. */
const connectionsPerSecondMax: Readonly<Record<string, number>> = { 'read-only': 10, password: 60 };

async function connectionsPerSecond(raw: Redis): Promise<number> {
  const made = async () => Number(/total_connections_received:(\d+)/.exec(await raw.info('stats'))?.[1]);
  const before = await made();
  const from = performance.now();
  await until('two seconds have passed', () => performance.now() - from > 2_000, { everyMs: 50 });
  return (1_000 * ((await made()) - before)) / (performance.now() - from);
}

describe.skipIf(await lacks('redis'))('a daemon on a rejecting Redis', () => {
  it('pushes: not_stored with the reason, bounded reconnects, no secret shown; a full server drains', async () => {
    // Of a load: each key takes 300 ms; after each KiB the server sends replies.
    const slow = ['key-load-delay 300000', 'loading-process-events-interval-bytes 1024', 'rdbcompression no'];
    const config = ['requirepass s3cret', 'busy-reply-threshold 100', ...slow];
    const server = await owned('test', startRedis({ config }));
    const raw = connected(server);
    const other = connected(server);
    const failed = new Set<string>();
    const sink = await startSink((arrival, response) => {
      if (!arrival.id.endsWith('7') || failed.has(arrival.id)) return ok(arrival, response);
      failed.add(arrival.id);
      return status(500)(arrival, response);
    });
    const daemon = await startDaemon({ args: ['--redis', server.url], config: { retry: { unit: '100ms' } } });
    await addTopic(daemon, 't', sink.url);

    // Full: cancels, retries and acks continue. No job may end while the test fills the server.
    await pauseTopic(daemon, 't');
    const body = JSON.stringify('x'.repeat(20_000));
    const used = Number(/used_memory:(\d+)/.exec(await server.ask('INFO', 'memory'))?.[1]);
    await server.ask('CONFIG', 'SET', 'maxmemory', String(used + 4 * 2 ** 20));
    const cancelled = ['far-1', 'far-2'];
    for (const id of cancelled)
      expect((await daemon.push('t', body, { id, delay: 3_600_000 })).status).toBe(201);
    const stored: string[] = [];
    const rejected: string[] = [];
    await forAll(numbers(300), async (n) => {
      const reply = await daemon.push('t', body, { id: `${n}` });
      if (reply.status !== 201) expect(reply).toMatchObject({ status: 503, body: { code: 'not_stored' } });
      (reply.status === 201 ? stored : rejected).push(`${n}`);
    });
    expect(Math.min(stored.length, rejected.length)).toBeGreaterThan(20);
    for (const id of cancelled)
      expect(await daemon.api('DELETE', `/v1/topics/t/jobs/${id}`)).toMatchObject({ status: 200 });
    await resumeTopic(daemon, 't');
    await until('pushes are stored again', async () => {
      const reply = await daemon.push('t', body, { id: 'again' });
      return reply.status === 201;
    });
    await untilEmptyAndWhole(daemon);
    expect([...new Set(sink.arrivals.map(({ id }) => id))].sort()).toEqual([...stored, 'again'].sort());
    expect(failed.size).toBeGreaterThan(0);
    await server.ask('CONFIG', 'SET', 'maxmemory', '0');

    const troubles: readonly [string, () => Promise<unknown>, () => Promise<unknown>, RegExp][] = [
      [
        'full',
        () => raw.config('SET', 'maxmemory', '1'),
        () => raw.config('SET', 'maxmemory', '0'),
        /is full/,
      ],
      [
        'loading',
        async () => {
          // Ten minutes of loading, in a database that dq does not use.
          const fill =
            "redis.call('SELECT', 1) for n = 1, 2000 do redis.call('SET', n, string.rep('x', 1100)) end";
          await server.ask('EVAL', fill, '0');
          await server.ask('SAVE');
          await server.process.kill();
          await server.process.start(false);
        },
        async () => {
          await server.ask('CONFIG', 'SET', 'key-load-delay', '0');
          await server.process.awaitReady();
        },
        // It answers once in 300 ms, which may count as no answer.
        /Redis/i,
      ],
      ['read-only', () => raw.replicaof('127.0.0.1', '1'), () => raw.replicaof('NO', 'ONE'), /is read-only/],
      [
        'replicas',
        () => raw.config('SET', 'min-replicas-to-write', '1'),
        () => raw.config('SET', 'min-replicas-to-write', '0'),
        /too few replicas/,
      ],
      [
        'busy',
        async () => {
          other.eval('while true do end', 0).catch(() => {
            // The script is killed below.
          });
        },
        () => raw.script('KILL'),
        /blocked by a script/,
      ],
      [
        'password',
        async () => {
          await raw.config('SET', 'requirepass', 'an0ther');
          await raw.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
          await raw.call('CLIENT', 'KILL', 'TYPE', 'pubsub');
        },
        () => raw.config('SET', 'requirepass', 's3cret'),
        /rejects the user or password/,
      ],
    ];
    for (const [trouble, begin, end, why] of troubles) {
      await begin();
      const codes = await refusals(daemon, trouble);
      expect(new Set(codes), trouble).toEqual(new Set(['not_stored']));
      const { body } = await until(`${trouble}: /readyz says why`, async () => {
        const reply = await daemon.api('GET', '/readyz');
        return why.test(reply.body.detail) ? reply : null;
      });
      expect(body.status, trouble).toBe(503);
      const perSecondMax = connectionsPerSecondMax[trouble];
      if (perSecondMax !== undefined)
        expect(await connectionsPerSecond(raw), trouble).toBeLessThan(perSecondMax);
      await end();
      await untilReady(daemon);
      expect((await daemon.push('t', '1', { id: `${trouble}-after` })).status, trouble).toBe(201);
      await until('it arrives', () => sink.arrivals.some(({ id }) => id === `${trouble}-after`));
    }
    await untilEmptyAndWhole(daemon);
    expect(sink.arrivals.filter(({ id }) => /-\d+$/.test(id))).toEqual([]);
    expect(written(daemon)).not.toMatch(/s3cret|an0ther/);
    expect(daemon.log('error').length).toBeLessThan(150);
  });

  it.skipIf(unmountable !== null)(
    `a full disk: rejects writes and loses no job${unmountable === null ? '' : ` (${unmountable})`}`,
    async () => {
      const disk = mountTmpfs(4 * 2 ** 20);
      const server = await owned(
        'test',
        startRedis({
          config: [`dir ${disk}`, 'appendonly yes', 'appendfsync everysec', 'auto-aof-rewrite-percentage 0'],
        }),
      );
      const receiver = await startReceiver();
      const daemon = await startDaemon({ args: ['--redis', server.url] });
      await addTopic(daemon, 't', receiver.url);
      const load = startLoad({ url: () => daemon.url, topic: 't', perSecond: 50 });
      await until('pushes are stored', () => load.acknowledged.size > 50);
      fillUp(disk);
      await until('pushes are rejected', () => load.failures.length > 20);
      const { body } = await until('/readyz says why', async () => {
        const reply = await daemon.api('GET', '/readyz');
        return /cannot write to its disk/.test(reply.body.detail) ? reply : null;
      });
      expect(body.status).toBe(503);
      rmSync(join(disk, 'filler'));
      const before = load.acknowledged.size;
      await until('pushes are stored again', () => load.acknowledged.size > before + 50);
      const result = await load.stop();
      await untilEmptyAndWhole(daemon);
      const rejected = rejectedIds(result);
      console.log(
        `${result.acknowledged.size} acknowledged, ${rejected.not_stored.size} not stored, ${rejected.unknown.size} unknown`,
      );
      expect(rejected.unknown.size).toBe(0);
      expect([...result.acknowledged].filter((id) => receiver.arrivals.get(id) !== 1)).toEqual([]);
      expect([...rejected.not_stored].filter((id) => receiver.arrivals.has(id))).toEqual([]);
    },
  );
});
