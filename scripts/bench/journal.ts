// Measures what a journal costs, and how fast it heals: daemons with and without one, in turn, on one Redis
// (everysec) and one MariaDB, both empty at each start.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type MariadbServer, startMariadb } from '../services/mariadb.ts';
import { type RedisServer, startRedis } from '../services/redis.ts';
import { type BenchDaemon, redisConfig, startDaemon } from './dq.ts';
import { percentile, print } from './figures.ts';
import { pushLoad, startBareServer } from './load.ts';

const loadSeconds = 4;
const idleSeconds = 5;
const settledMsMax = 120_000;
const topics = ['a', 'b', 'c', 'd'];
/** Each COMMIT is synced, as by default: the server of the tests does without. */
const mariadbArgs = [
  '--innodb-buffer-pool-size=256M',
  '--innodb-flush-log-at-trx-commit=1',
  '--innodb-flush-method=fsync',
];

/** Jobs per second that are due at once. */
export type Deliver = (dq: BenchDaemon, sinkUrl: string, topics: readonly string[]) => Promise<number>;

interface Side {
  readonly [figure: string]: number;
}

export async function journal(runs: number, deliver: Deliver): Promise<void> {
  const sink = await startBareServer('sink');
  const redis = await startRedis({ config: redisConfig });
  const mysql = await startMariadb({ args: mariadbArgs });
  const directory = mkdtempSync(join(tmpdir(), 'dq-bench-journal-'));
  const sides: { readonly sync: Side[]; readonly off: Side[] } = { sync: [], off: [] };
  const healings: Side[] = [];
  try {
    for (let run = 0; run < runs; run++)
      // Each side goes first in turn.
      for (const mode of run % 2 === 0 ? (['off', 'sync'] as const) : (['sync', 'off'] as const)) {
        await redis.ask('FLUSHALL');
        const config = join(directory, 'dq.yaml');
        writeFileSync(config, `journal: {mode: ${mode}}\n`);
        const database = `${mode}${run}`;
        const url = await mysql.createDatabase(database);
        const dq = await startDaemon('--redis', redis.url, '--mysql', url, '-c', config);
        try {
          await untilReady(dq);
          for (const topic of ['bench', ...topics])
            await dq.api('POST', '/v1/topics', { topic, callbackUrl: sink.url, concurrency: 256 });
          const lags: number[] = [];
          sides[mode].push(await measure(dq, redis, lags));
          if (mode === 'sync') {
            const bytes = await bytesPerJob(dq, mysql, database);
            const delivered = await deliver(dq, sink.url, topics);
            Object.assign(sides[mode].at(-1) as Side, { delivered });
            await untilShipped(dq);
            const [p50, p99] = [percentile(lags, 0.5), percentile(lags, 0.99)];
            healings.push({ bytes, p50, p99, ...(await heal(redis)) });
          } else {
            Object.assign(sides[mode].at(-1) as Side, { delivered: await deliver(dq, sink.url, topics) });
          }
        } finally {
          await dq.stop();
        }
      }
  } finally {
    await Promise.all([mysql.stop(), redis.stop(), sink.stop()]);
    rmSync(directory, { recursive: true, force: true });
  }
  for (const [figure, name, unit] of figures) {
    const [sync, off] = [sides.sync, sides.off].map((side) => side.map((one) => one[figure] ?? Number.NaN));
    print(`${name}, with a journal`, sync ?? [], unit);
    print(`${name}, without`, off ?? [], unit);
    print(
      'ratio',
      (sync ?? []).map((value, run) => value / (off?.[run] ?? Number.NaN)),
      '',
    );
  }
  for (const [figure, name, unit] of healingFigures)
    print(
      name,
      healings.map((one) => one[figure] ?? Number.NaN),
      unit,
    );
}

const figures = [
  ['idle', 'idle, commands of Redis', '1/s'],
  ['rate64', 'intake, 64 connections', 'pushes/s'],
  ['late64', 'reply time p99, 64 connections', 'ms'],
  ['rate256', 'intake, 256 connections', 'pushes/s'],
  ['late256', 'reply time p99, 256 connections', 'ms'],
  ['delivered', 'delivery of due jobs', 'jobs/s'],
] as const;

const healingFigures = [
  ['bytes', 'bytes of MySQL per waiting job', 'bytes'],
  ['p50', 'lag of MySQL during the intake, p50', 's'],
  ['p99', 'lag of MySQL during the intake, p99', 's'],
  ['jobs', 'FLUSHALL: waiting jobs', 'jobs'],
  ['detectedMs', 'FLUSHALL to its detection', 'ms'],
  ['healedMs', 'FLUSHALL to the end of the healing', 'ms'],
] as const;

async function measure(dq: BenchDaemon, redis: RedisServer, lags: number[]): Promise<Side> {
  await sleep(2_000);
  const before = await commandCalls(redis);
  await sleep(idleSeconds * 1000);
  const idle = ((await commandCalls(redis)) - before) / idleSeconds;
  const url = `${dq.url}/v1/topics/bench/jobs?delay=1h`;
  await pushLoad(url, 1);
  let isOver = false;
  const watching = (async () => {
    for (; !isOver; await sleep(200)) lags.push(await lagOf(dq));
  })();
  const results = [];
  for (const connections of [64, 256]) {
    const result = await pushLoad(url, loadSeconds, connections);
    if (result.non2xx + result.errors > 0)
      throw new Error(`journal: ${result.non2xx} rejected, ${result.errors} errors`);
    results.push(result);
  }
  isOver = true;
  await watching;
  const [at64, at256] = results;
  return {
    idle,
    rate64: at64?.perSecond ?? Number.NaN,
    late64: at64?.p99 ?? Number.NaN,
    rate256: at256?.perSecond ?? Number.NaN,
    late256: at256?.p99 ?? Number.NaN,
  };
}

/** The server may answer before it has read the registry in MySQL. */
async function untilReady({ url }: BenchDaemon): Promise<void> {
  const end = performance.now() + settledMsMax;
  while ((await fetch(`${url}/readyz`)).status !== 200) {
    if (performance.now() > end) throw new Error('journal: the daemon is not ready');
    await sleep(50);
  }
}

/** All commands, also those inside scripts. */
async function commandCalls(redis: RedisServer): Promise<number> {
  const text = await redis.ask('INFO', 'commandstats');
  return [...text.matchAll(/^cmdstat_[^:]+:calls=(\d+)/gm)].reduce((sum, [, n]) => sum + Number(n), 0);
}

async function lagOf(dq: BenchDaemon): Promise<number> {
  const text = await (await fetch(`${dq.url}/metrics`)).text();
  return Number(/^dq_journal_lag_seconds (\S+)/m.exec(text)?.[1] ?? Number.NaN);
}

/** The metric is as old as its last report: it must stay. */
async function untilShipped(dq: BenchDaemon): Promise<void> {
  const end = performance.now() + settledMsMax;
  for (let zeros = 0; zeros < 15; await sleep(200)) {
    zeros = (await lagOf(dq)) === 0 ? zeros + 1 : 0;
    if (performance.now() > end) throw new Error('journal: MySQL does not have all changes');
  }
}

/** Of the tables of jobs and of their changes. */
async function bytesPerJob(dq: BenchDaemon, mysql: MariadbServer, database: string): Promise<number> {
  await untilShipped(dq);
  const answer = await mysql.run(
    `ANALYZE TABLE dq_job, dq_job_log;
     SELECT CONCAT('figure ', SUM(data_length + index_length) / (SELECT COUNT(*) FROM dq_job))
     FROM information_schema.tables
     WHERE table_schema = '${database}' AND table_name IN ('dq_job', 'dq_job_log')`,
    database,
  );
  return Number(/^figure (\S+)/m.exec(answer)?.[1]);
}

async function heal(redis: RedisServer): Promise<Side> {
  const jobsOf = async () => Number(await redis.ask('HLEN', '{dq:0}:j'));
  const jobs = await jobsOf();
  const from = performance.now();
  await redis.ask('FLUSHALL');
  let detectedMs = Number.NaN;
  for (; performance.now() - from < settledMsMax; await sleep(20)) {
    // A note has several words; of a healed bucket its number is left.
    const note = await redis.ask('HGET', '{dq:0}:n', 'heal');
    const isOpen = note.includes(' ');
    if (note !== '' && Number.isNaN(detectedMs)) detectedMs = performance.now() - from;
    if (note === '' || isOpen) continue;
    if ((await jobsOf()) < jobs) throw new Error('journal: healed without all jobs');
    return { jobs, detectedMs, healedMs: performance.now() - from };
  }
  throw new Error('journal: not healed');
}
