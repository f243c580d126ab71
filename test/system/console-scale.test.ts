// The calls of the page with many jobs: each examines what it answers, on both stores.
import { describe, expect, it } from 'vitest';
import { type RedisServer, startRedis } from '../../scripts/services/redis.ts';
import { redisLimits } from '../../src/store/redis/limits.ts';
import { consolePort, halvesIn, sendTo, sessionAt } from '../support/console.ts';
import { type Daemon, startDaemon } from '../support/daemon.ts';
import { lacks, owned } from '../support/services.ts';
import { until } from '../support/until.ts';

const jobs = Number(process.env['DQ_SCALE_JOBS'] ?? 20_000);
const topics = 200;
const dead = 300;
const bodyBytes = 200;
const batch = 1_000;
const timeout = 120_000 + jobs;

const topicOf = (n: number) => `t-${String(n % topics).padStart(3, '0')}`;
const idOf = (n: number) => `job-${String(n).padStart(8, '0')}`;
const inAll = async (count: number, width: number, work: (n: number) => Promise<void>) => {
  let next = 0;
  const one = async () => {
    for (let n = next++; n < count; n = next++) await work(n);
  };
  await Promise.all(Array.from({ length: width }, one));
};

/** Waiting jobs of all topics, due over 40 days, and dead letters of one more topic. */
async function fill(daemon: Daemon): Promise<void> {
  const bad = { topic: 'bad', callbackUrl: 'http://127.0.0.1:9/', maxAttempts: 1 };
  expect((await daemon.api('POST', '/v1/topics', bad)).status).toBe(201);
  await inAll(topics, 8, async (n) => {
    await daemon.api('POST', '/v1/topics', { topic: topicOf(n), callbackUrl: 'http://127.0.0.1:9/' });
  });
  const push = async (items: readonly unknown[]) => {
    const reply = await daemon.api('POST', '/v1/jobs', items);
    expect(reply.body, JSON.stringify(reply.body).slice(0, 300)).toMatchObject({ failed: 0 });
  };
  await push(Array.from({ length: dead }, (_, n) => ({ topic: 'bad', body: { order: n } })));
  await inAll(Math.ceil(jobs / batch), 4, async (at) => {
    const numbers = Array.from({ length: Math.min(batch, jobs - at * batch) }, (_, n) => at * batch + n);
    await push(
      numbers.map((n) => {
        const order = `order-${String(n).padStart(8, '0')}`;
        const note = 'x'.repeat(bodyBytes - JSON.stringify({ order, note: '' }).length);
        const delayMs = 3_600_000 + ((n * 7_919) % (40 * 24 * 3_600)) * 1_000;
        return { topic: topicOf(n), id: idOf(n), delay: `${delayMs}ms`, body: { order, note } };
      }),
    );
  });
  await until(
    'all dead letters are there',
    async () => (await daemon.api('GET', '/v1/stats')).body.states.dead === dead,
    { deadlineMs: timeout },
  );
}

async function signedIn(daemon: Daemon) {
  const port = await consolePort(daemon);
  const halves = halvesIn(await sessionAt(port));
  return async (path: string) => {
    const { status, json } = await sendTo(port, 'GET', path, halves);
    expect(status, `${path}: ${JSON.stringify(json)}`).toBe(200);
    return json;
  };
}

/** Commands of a server since the last reading, those inside scripts included. */
async function commandsOf(redis: RedisServer): Promise<{ all: number; of(name: string): number }> {
  const text = await redis.ask('INFO', 'commandstats');
  await redis.ask('CONFIG', 'RESETSTAT');
  const calls = new Map(
    [...text.matchAll(/^cmdstat_([^:]+):calls=(\d+)/gm)].map(([, name, n]) => [name ?? '', Number(n)]),
  );
  const of = (name: string) => calls.get(name) ?? 0;
  return { all: [...calls.values()].reduce((sum, n) => sum + n, 0), of };
}

/** All pages of a scan: jobs found, jobs examined. */
async function scanAll(get: Awaited<ReturnType<typeof signedIn>>, query: string) {
  const result = { found: 0, examined: 0 };
  for (let cursor: string | null = ''; cursor !== null; ) {
    const json = await get(`/v1/jobs?${query}${cursor === '' ? '' : `&cursor=${cursor}`}`);
    result.found += json.items.length;
    result.examined += json.scanned.jobs;
    cursor = json.nextCursor === null ? null : encodeURIComponent(json.nextCursor);
  }
  return result;
}

const stores = ['SQLite', 'Redis'] as const;
const noRedis = await lacks('redis');

describe.each(stores)('console at scale, %s', (store) => {
  it.skipIf(store === 'Redis' && noRedis)(
    'the calls of the page examine what they answer',
    async () => {
      const redis = store === 'Redis' ? await owned('test', startRedis()) : null;
      const daemon = await startDaemon({
        console: true,
        ...(redis === null ? {} : { args: ['--redis', redis.url] }),
      });
      await fill(daemon);
      const get = await signedIn(daemon);
      // Each call costs at most some commands for each topic, however many jobs there are.
      const commandsMax = 40 * topics;
      const topic = topicOf(7);
      const calls = {
        summary: '/v1/summary',
        stats: '/v1/stats',
        series: '/v1/series?from=24h&step=10m',
        'exact id, all topics': `/v1/jobs?id=${idOf(7)}`,
        job: `/v1/topics/${topic}/jobs/${idOf(7)}`,
        'first page': '/v1/jobs?limit=50',
        'first page of a topic': `/v1/jobs?topic=${topic}&limit=50`,
        'dead letters': '/v1/dead?limit=50',
        horizon: '/v1/horizon',
        'horizon of a topic': `/v1/horizon?topic=${topic}`,
        'dead groups': '/v1/dead/groups',
      };
      const answers: Record<string, Awaited<ReturnType<typeof get>>> = {};
      for (const [name, path] of Object.entries(calls)) {
        if (redis !== null) await commandsOf(redis);
        answers[name] = await get(path);
        if (redis === null) continue;
        const commands = await commandsOf(redis);
        expect(commands.of('hscan'), name).toBe(0);
        expect(commands.all, name).toBeLessThan(commandsMax);
      }
      expect(answers['summary'].states).toMatchObject({ delayed: jobs, dead });
      expect(answers['exact id, all topics'].items).toHaveLength(1);
      expect(answers['first page'].items).toHaveLength(50);
      expect(answers['horizon'].total).toBe(jobs);
      expect(answers['horizon of a topic'].total).toBe(jobs / topics);
      expect(answers['dead groups']).toMatchObject({ examined: dead, complete: true });

      if (redis !== null) await commandsOf(redis);
      const prefix = await scanAll(get, `idPrefix=${idOf(4_321).slice(0, -1)}&limit=50`);
      const prefixCommands = redis === null ? null : await commandsOf(redis);
      const body = await scanAll(get, 'body=order-00004321&limit=50');
      const bodyCommands = redis === null ? null : await commandsOf(redis);
      expect(prefix.found).toBe(10);
      expect(body.found).toBe(1);
      // A scan of bodies visits each job once. HSCAN may repeat some while the hash grows.
      expect(body.examined).toBeGreaterThanOrEqual(jobs);
      expect(body.examined).toBeLessThan(2 * jobs);
      if (prefixCommands === null) expect(prefix.examined).toBeLessThanOrEqual(prefix.found);
      else {
        const pieces = (2 * jobs) / redisLimits.scanPiece;
        expect(prefixCommands.of('hscan')).toBeLessThan(pieces);
        expect(bodyCommands?.of('hscan')).toBeLessThan(pieces);
      }
    },
    timeout,
  );
});
