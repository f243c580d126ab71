// Measures pushes at full speed, one per request: dq beside bare servers that promise less or as much, and
// beside other queues. dq is measured with the push of README, which has an id and a delay in its query, and
// with a push without a query. Each contestant is started for each round, so that none works while another
// one is measured.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startRedis } from '../../services/redis.ts';
import { type Bench, type Build, beforeColumn, loopColumn, type Round } from '../bench.ts';
import { redisConfig, startDaemon } from '../dq.ts';
import { cpuValues, type Table } from '../figures.ts';
import { pushLoad, readmeQuery } from '../generators.ts';
import { type Peers, startBullmq, startOuqiang } from '../peers.ts';
import type { Measured } from '../processes.ts';
import { startBareServer } from '../servers.ts';

const connectionCounts = [64, 256] as const;
const warmUpSeconds = 2;

interface Target {
  readonly url: string;
  readonly measured: readonly Measured[];
  readonly wrap?: (job: string) => string;
  stop(): Promise<void>;
}

interface Contestant {
  readonly name: string;
  readonly promise: string;
  start(): Promise<Target>;
}

const bare = 'bare node:http';
const bareFile = 'bare node:http, file';
const bareRedis = 'bare node:http, Redis';
/** Of a row whose pushes have no query. */
export const withoutQuery = (build: string): string => `${build}, without query`;
const inRedis = 'Redis has the job; Redis syncs its file each second';

export async function intake(bench: Bench, peers: Peers): Promise<void> {
  const contestants = [...yardsticks, ...bench.builds.flatMap(ofBuild), ...ofPeers(peers)];
  const tables = connectionCounts.map((connections) =>
    bench.table(`intake-${connections}`, `Intake, one push per request, ${connections} connections`, [
      { key: 'rate', title: 'pushes/s' },
      beforeColumn,
      { key: 'ofPlain', title: '÷ without query' },
      { key: 'ofBare', title: '÷ bare' },
      { key: 'ofDurable', title: '÷ bare with the same storage' },
      { key: 'ofOuqiang', title: '÷ ouqiang' },
      { key: 'p99', title: 'reply p99, ms' },
      { key: 'cpu', title: 'CPU, µs per push' },
      { key: 'generator', title: 'generator, % of a core' },
      loopColumn,
    ]),
  );
  for (const table of tables) for (const { name, promise } of contestants) table.promise(name, promise);
  await bench.rounds('intake', async (round) => {
    for (const contestant of round.order(contestants)) {
      const target = await contestant.start();
      try {
        await pushLoad({ ...target, connections: 64, seconds: warmUpSeconds });
        for (const [n, table] of tables.entries())
          await measure(
            round,
            table,
            contestant.name,
            target,
            connectionCounts[n] ?? 64,
            bench.options.seconds,
          );
      } finally {
        await target.stop();
      }
    }
    for (const table of tables) {
      bench.compare(round, table, 'rate');
      bench.compare(round, table, 'rate', withoutQuery);
      round.addRatios(table, 'rate', bare, 'ofBare');
      round.addRatios(table, 'rate', 'ouqiang/delay-queue', 'ofOuqiang');
      for (const { name, store } of bench.builds) {
        const ofPlain = round.value(table, name, 'rate') / round.value(table, withoutQuery(name), 'rate');
        round.add(table, name, { ofPlain });
        const yardstick = round.value(table, store === 'embedded' ? bareFile : bareRedis, 'rate');
        for (const row of [name, withoutQuery(name)])
          round.add(table, row, { ofDurable: round.value(table, row, 'rate') / yardstick });
      }
    }
  });
}

async function measure(
  round: Round,
  table: Table,
  name: string,
  target: Target,
  connections: number,
  seconds: number,
): Promise<void> {
  const meter = round.meter(target.measured);
  const { requests, perSecond, p99 } = await pushLoad({ ...target, connections, seconds });
  const reading = meter();
  round.add(table, name, {
    ...{ rate: perSecond, p99, generator: (100 * reading.generator) / reading.seconds },
    loopUs: reading.loopUs,
    ...cpuValues(reading.cpu, requests),
  });
}

const yardsticks: readonly Contestant[] = [
  {
    name: bare,
    promise: 'nothing is stored',
    start: () => startBare('push', ''),
  },
  {
    name: bareFile,
    promise: 'the body is appended to a file and synced, one fdatasync per group',
    async start() {
      const folder = mkdtempSync(join(tmpdir(), 'dq-bench-file-'));
      const target = await startBare('push-file', join(folder, 'jobs'));
      return stoppedWith(target, async () => rmSync(folder, { recursive: true }));
    },
  },
  {
    name: bareRedis,
    promise: `HSET and ZADD in one pipeline per turn: ${inRedis}`,
    async start() {
      const redis = await startRedis({ config: redisConfig });
      const target = await startBare('push-redis', redis.url);
      const measured = [...target.measured, { role: 'redis-server', pid: redis.process.pid }];
      return stoppedWith({ ...target, measured }, () => redis.stop());
    },
  },
];

async function startBare(kind: 'push' | 'push-file' | 'push-redis', argument: string): Promise<Target> {
  const { url, pid, stop } = await startBareServer(kind, argument);
  return { url, measured: [{ role: 'server', pid }], stop };
}

const stoppedWith = (target: Target, end: () => Promise<void>): Target => ({
  ...target,
  async stop() {
    await target.stop();
    await end();
  },
});

const ofBuild = (build: Build): readonly Contestant[] => [
  withQuery(build, build.name, readmeQuery),
  withQuery(build, withoutQuery(build.name), ''),
];

const withQuery = (build: Build, name: string, query: string): Contestant => ({
  name,
  promise:
    build.store === 'embedded'
      ? 'the job is on disk (fdatasync); retries, signature, attempt log'
      : `${inRedis}; retries, signature, attempt log`,
  async start() {
    const dq = await startDaemon(build);
    await dq.api('POST', '/v1/topics', { topic: 'bench', callbackUrl: 'http://127.0.0.1:9/', delay: '1h' });
    const url = `${dq.url}/v1/topics/bench/jobs${query}`;
    return { url, measured: await dq.measured(), stop: () => dq.stop() };
  },
});

function ofPeers({ bullmq, ouqiang }: Peers): readonly Contestant[] {
  const contestants: Contestant[] = [];
  if (bullmq !== null)
    contestants.push({
      name: `BullMQ ${bullmq.version} behind bare node:http`,
      promise: `${inRedis}; retries, keeps ended jobs, no signature`,
      async start() {
        const peer = await startBullmq(bullmq.folder, 0);
        return { ...peer, url: `${peer.url}/jobs` };
      },
    });
  if (ouqiang !== null)
    contestants.push({
      name: 'ouqiang/delay-queue',
      promise: `${inRedis}; no callback, no retry limit, no signature, no history`,
      async start() {
        const peer = await startOuqiang(ouqiang.program);
        return { ...peer, url: `${peer.url}/push`, wrap: ouqiangBody };
      },
    });
  return contestants;
}

/** The number of the job is its id: the first number of the body is the one that the generator counts. */
function ouqiangBody(job: string): string {
  const { order } = JSON.parse(job) as { order: string };
  // The body keeps its length, with a number that stays.
  const body = job.replace(order, 'n'.repeat(order.length));
  return JSON.stringify({ id: order, topic: 'bench', delay: 3_600, ttr: 60, body });
}
