// Tests several daemons on one Redis and one MariaDB: admission, delivery as by one daemon, and the death of
// one.
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it, vi } from 'vitest';
import { startRedis } from '../../scripts/services/redis.ts';
import { type Daemon, startDaemon } from '../support/daemon.ts';
import { startLoad } from '../support/load.ts';
import { addTopic, groupBy, jobsLeft } from '../support/producing.ts';
import { runDq } from '../support/run-dq.ts';
import { lacks, mariadb, owned } from '../support/services.ts';
import { ok, startSink } from '../support/sink.ts';
import { temporaryDirectory } from '../support/sqlite-store.ts';
import { until } from '../support/until.ts';

vi.setConfig({ testTimeout: 300_000 });

/** For each of two parts: both daemons alive, and one killed. */
const jobs = Number(process.env['DQ_INSTANCE_JOBS'] ?? 600);
const perSecond = Number(process.env['DQ_INSTANCE_RATE'] ?? 250);
/** timeout of the topic in the second part, and lease.margin */
const leaseMs = 4_000 + 2_200;

const isMissing = (await lacks('redis')) || (await lacks('mysql'));

describe.skipIf(isMissing)('several instances', async () => {
  const database = await owned('file', mariadb());
  let made = 0;
  const newDatabase = async () => {
    await database.createDatabase(`dq${++made}`);
    return database.url(`dq${made}`);
  };
  const redis = await owned('file', startRedis({ config: ['appendonly yes', 'appendfsync everysec'] }));

  /** Two daemons on one Redis and one database, the second with the key of the first. */
  const startTwo = async (): Promise<[Daemon, Daemon]> => {
    await redis.ask('FLUSHALL');
    const args = ['--redis', redis.url, '--mysql', await newDatabase()];
    // A receiver that times out on a busy machine is called again soon.
    const config = { lease: { margin: '2200ms' }, retry: { unit: '500ms' } };
    const one = await startDaemon({ args, config });
    const secretKeyFile = join(one.dataDir, 'secret.key');
    return [one, await startDaemon({ args, config: { ...config, secretKeyFile }, group: true })];
  };
  /** Pushes to each at once; returns the acknowledged pushes. */
  const pushToBoth = async (daemons: readonly Daemon[], part: string, meanwhile = async () => {}) => {
    const loads = daemons.map(({ url }, i) =>
      startLoad({ url: () => url, topic: 't', perSecond, ids: `${part}${i}-` }),
    );
    await until('half of it', () => loads.every((load) => load.acknowledged.size >= jobs / 4), 300_000);
    await meanwhile();
    await until('all of it', () => loads.some((load) => load.acknowledged.size >= jobs / 2), 300_000);
    return Promise.all(loads.map((load) => load.stop()));
  };

  it(`two share ${jobs} jobs, each delivered once; one delivers the jobs of a killed other`, async () => {
    const [one, two] = await startTwo();
    const sink = await startSink(async (arrival, response) => {
      await sleep((sink.arrivals.length * 7) % 200);
      await ok(arrival, response);
    });
    await addTopic(one, 't', sink.url, { timeout: '30s', concurrency: 10_000 });
    await until(
      'the other knows the topic',
      async () => (await two.api('GET', '/v1/topics/t')).status === 200,
    );
    const alive = await pushToBoth([one, two], 'alive');
    expect(alive.flatMap(({ failures }) => failures)).toEqual([]);
    const pushed = alive.reduce((sum, { acknowledged }) => sum + acknowledged.size, 0);
    await until('all have ended', async () => (await jobsLeft(one)) === 0, 60_000);
    const acks = () =>
      [one, two].map((daemon) => daemon.log('notify').filter(({ verdict }) => verdict === 'ack').length);
    await until('the logs count them', () => acks().reduce((sum, n) => sum + n) >= pushed, 90_000, 500);
    const delivered = acks();
    expect(delivered.reduce((sum, n) => sum + n)).toBe(pushed);
    expect(Math.min(...delivered)).toBeGreaterThan(0);
    // A timeout on a busy machine is a further attempt. No attempt arrives twice, unless its lease was
    // recovered: from a notifier that was killed because it stood still, or that settled a timeout after the
    // lease, which ends 2.2 s later.
    const attempts = new Set(sink.arrivals.map(({ id, attempt }) => `${id} ${attempt}`));
    expect(new Set(sink.arrivals.map(({ id }) => id)).size).toBe(pushed);
    const recovered = [one, two]
      .flatMap((daemon) => daemon.log('notice'))
      .filter(({ message }) => message === 'recoverer: recovered jobs')
      .reduce((sum, { returned }) => sum + Number(returned), 0);
    const twice = [...groupBy(sink.arrivals, ({ id, attempt }) => `${id} ${attempt}`).values()]
      .filter(({ length }) => length > 1)
      .flatMap((arrivals) => arrivals.map(({ headers: _, body: __, ...arrival }) => arrival));
    const again = sink.arrivals.length - attempts.size;
    expect(again, JSON.stringify(twice)).toBeLessThanOrEqual(recovered);
    const retried = attempts.size - pushed;
    for (const daemon of [one, two])
      await until('both are counted', async () => {
        const { total } = (await daemon.api('GET', '/v1/topics/t/stats')).body;
        return total.pushed === pushed && total.delivered === pushed;
      });

    // Changed on one, in force on the other.
    expect((await one.api('PATCH', '/v1/topics/t', { state: 'offline', timeout: '4s' })).status).toBe(200);
    await until('it is in force on the other', async () => (await two.push('t', '1')).status === 409);
    expect((await two.api('PATCH', '/v1/topics/t', { state: 'active' })).status).toBe(200);
    await until(
      'the job is stored',
      async () => (await one.push('t', '1', { id: 'killed', delay: 500 })).status === 201,
    );

    let killedAt = 0;
    let openThen: ReadonlySet<string> = new Set();
    const killed = await pushToBoth([one, two], 'killed', async () => {
      // Enough running calls that some belong to the other daemon.
      sink.answer(async (arrival, response) => {
        await sleep(3_000);
        await ok(arrival, response);
      });
      await until('callbacks are running', () => sink.open().length >= 100, 60_000);
      process.kill(-two.pid, 'SIGKILL');
      killedAt = Date.now();
      openThen = new Set(sink.open().map(({ id }) => id));
      sink.answer(ok);
    });
    expect(killed[0]?.failures).toEqual([]);
    const acknowledged = killed.flatMap((result) => [...result.acknowledged]);
    await until('all have ended', async () => (await jobsLeft(one)) === 0, 60_000);
    const byId = groupBy(
      // A recovered job counts no attempt.
      sink.arrivals.filter(({ id, attempt }) => id.startsWith('killed') && attempt === 1),
      ({ id }) => id,
    );
    const arrived = new Set(sink.arrivals.map(({ id }) => id));
    expect(acknowledged.filter((id) => !arrived.has(id))).toEqual([]);
    const doubled = [...byId.values()].filter(({ length }) => length > 1);
    expect(doubled.filter(({ length }) => length > 2)).toEqual([]);
    // In flight at the kill, or without a settled outcome. The receiver may read a request later, but before
    // the second call, which waits for the end of the lease.
    for (const [first] of doubled) {
      expect(first?.endedAt ?? killedAt).toBeGreaterThan(killedAt - 3_000);
      expect(first?.arrivedAt).toBeLessThan(killedAt + leaseMs);
    }
    // Jobs that its notifiers held but had not called arrive as late.
    const last = Math.max(...[...byId.values()].map((arrivals) => Number(arrivals[1]?.arrivedAt ?? 0)));
    const open = doubled.filter(([first]) => openThen.has(first?.id ?? '')).length;
    expect(open).toBeGreaterThan(0);
    expect(last - killedAt).toBeLessThan(leaseMs + 15_000);
    console.log(
      `${pushed} jobs, delivered by ${delivered.join(' and ')}, once each (and ${retried} more attempts); of ${acknowledged.length} more, with one of both killed: ${open} of ${openThen.size} twice that were under way, ${doubled.length - open} that were answered and not written down, ` +
        `the last ${last - killedAt} ms after the kill; the lease is ${leaseMs} ms`,
    );
  });

  it('Redis of another registry: rejected with the remedy, which keeps its jobs', async () => {
    await redis.ask('FLUSHALL');
    const sink = await startSink(ok);
    const first = await startDaemon({ args: ['--redis', redis.url] });
    await addTopic(first, 't', sink.url);
    expect((await first.push('t', '1', { id: 'kept', delay: 1_000 })).status).toBe(201);
    const elsewhere = temporaryDirectory();
    const start = (more: readonly string[], place: string) =>
      runDq(['start', '--port', '0', '--data-dir', place, '--log-dir', place, '--redis', redis.url, ...more]);
    const second = await start([], elsewhere.path);
    elsewhere.remove();
    expect([second.code, second.stderr]).toEqual([
      78,
      expect.stringMatching(
        /redis:\/\/127\.0\.0\.1:\d+: this Redis is not ours: it belongs to the registry [0-9a-f]{16}, and this one is [0-9a-f]{16}: instances on one Redis share one MySQL \(mysql\.url\); otherwise give/,
      ),
    ]);
    expect(await first.stop()).toBe(0);

    const url = await newDatabase();
    // A start waits for 1 s only, and goes on without a MySQL that creates its tables for longer.
    expect((await runDq(['migrate', '--mysql', url])).code).toBe(0);
    const later = await start(['--mysql', url], first.dataDir);
    expect(later.code).toBe(78);
    const named = /belongs to the registry ([0-9a-f]{16})/.exec(later.stderr)?.[1];
    await database.run(`REPLACE INTO dq${made}.registry_id (only, id) VALUES (1, '${named}')`);
    const { directory } = first;
    const moved = await startDaemon({ args: ['--redis', redis.url, '--mysql', url], directory });
    await addTopic(moved, 't', sink.url);
    await until('it arrives', () => sink.arrivals.some(({ id }) => id === 'kept'));
    expect(moved.log('error').filter(({ message }) => /not ours|rejected/.test(String(message)))).toEqual([]);
  });
});
