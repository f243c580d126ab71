// Measures what a journal costs, and how fast it heals: two daemons, with and without one, are loaded in
// turn. Each has its own Redis (everysec); both use one MariaDB on this machine.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type MariadbServer, startMariadb } from '../../services/mariadb.ts';
import { type RedisServer, startRedis } from '../../services/redis.ts';
import { type Bench, Round } from '../bench.ts';
import { type BenchDaemon, redisConfig, startDaemon } from '../dq.ts';
import { percentile, print } from '../figures.ts';
import { generatorText, type LoadResult, pushLoad } from '../generators.ts';
import { startSink } from '../servers.ts';
import { addTopics, deliverDue } from './delivery.ts';
import { commandCalls } from './idle.ts';

const sliceSeconds = 3;
const slicesEach = 4;
const idleSeconds = 5;
const settledMsMax = 120_000;
const dueJobs = 24_000;
/** Each COMMIT is synced, as by default: the server of the tests does without. */
const mariadbArgs = [
  '--innodb-buffer-pool-size=256M',
  '--innodb-flush-log-at-trx-commit=1',
  '--innodb-flush-method=fsync',
];

type Mode = 'sync' | 'off';
const modes: readonly Mode[] = ['off', 'sync'];

interface Side {
  readonly [figure: string]: number;
}

export async function journal({ build, options: { runs } }: Bench): Promise<void> {
  const sink = await startSink();
  const mysql = await startMariadb({ args: mariadbArgs });
  const directory = mkdtempSync(join(tmpdir(), 'dq-bench-journal-'));
  const sides: Readonly<Record<Mode, Side[]>> = { sync: [], off: [] };
  const healings: Side[] = [];
  console.log(`  load by ${generatorText}`);
  try {
    for (let run = 0; run < runs; run++) {
      const tables = { sync: `sync${run}`, off: `off${run}` };
      const redis = {
        sync: await startRedis({ config: redisConfig }),
        off: await startRedis({ config: redisConfig }),
      };
      const start = async (mode: Mode) => {
        const config = join(directory, `${mode}.yaml`);
        writeFileSync(config, `journal: {mode: ${mode}}\n`);
        const url = await mysql.createDatabase(tables[mode]);
        return startDaemon(
          { ...build, store: 'embedded' },
          '--redis',
          redis[mode].url,
          '--mysql',
          url,
          '-c',
          config,
        );
      };
      const both = { sync: await start('sync'), off: await start('off') };
      try {
        for (const dq of Object.values(both)) {
          await untilReady(dq);
          await dq.api('POST', '/v1/topics', { topic: 'bench', callbackUrl: sink.url });
          await addTopics(dq, sink);
        }
        const { lags, ...measured } = await measure(both, redis);
        const bytes = await bytesPerJob(both.sync, mysql, tables.sync);
        for (const mode of modes) {
          const { rate = Number.NaN } = await deliverDue(new Round(0), both[mode], sink, dueJobs);
          sides[mode].push({ ...measured[mode], delivered: rate });
        }
        await untilShipped(both.sync);
        const [p50, p99] = [percentile(lags, 0.5), percentile(lags, 0.99)];
        healings.push({ bytes, p50, p99, ...(await heal(redis.sync)) });
      } finally {
        await Promise.all([both.sync.stop(), both.off.stop()]);
        await Promise.all([redis.sync.stop(), redis.off.stop()]);
      }
    }
  } finally {
    await Promise.all([mysql.stop(), sink.stop()]);
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
  ['late64', 'reply time, highest p99, 64 connections', 'ms'],
  ['rate256', 'intake, 256 connections', 'pushes/s'],
  ['late256', 'reply time, highest p99, 256 connections', 'ms'],
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

interface Measured extends Readonly<Record<Mode, Side>> {
  readonly lags: readonly number[];
}

/** Loads both daemons in turn, in short slices: the speed of the machine changes within minutes. */
async function measure(
  both: Readonly<Record<Mode, BenchDaemon>>,
  redis: Readonly<Record<Mode, RedisServer>>,
): Promise<Measured> {
  const measured: Record<Mode, Record<string, number>> = { sync: {}, off: {} };
  await sleep(2_000);
  const callsOf = (mode: Mode) => commandCalls({ redis: redis[mode] });
  const before = { sync: await callsOf('sync'), off: await callsOf('off') };
  await sleep(idleSeconds * 1000);
  for (const mode of modes) measured[mode]['idle'] = ((await callsOf(mode)) - before[mode]) / idleSeconds;
  const lags: number[] = [];
  for (const mode of modes) await pushLoad({ url: urlOf(both[mode]), connections: 64, seconds: 1 });
  for (const connections of [64, 256]) {
    const slices: Record<Mode, LoadResult[]> = { sync: [], off: [] };
    for (let slice = 0; slice < slicesEach; slice++)
      for (const mode of slice % 2 === 0 ? modes : modes.toReversed()) {
        // What the other one left is not this one's cost.
        await untilShipped(both.sync);
        slices[mode].push(await loadSlice(both, mode, connections, lags));
      }
    for (const mode of modes) {
      const its = slices[mode];
      measured[mode][`rate${connections}`] =
        its.reduce((sum, { perSecond }) => sum + perSecond, 0) / slicesEach;
      measured[mode][`late${connections}`] = Math.max(...its.map(({ p99 }) => p99));
    }
  }
  return { ...measured, lags };
}

const urlOf = ({ url }: BenchDaemon) => `${url}/v1/topics/bench/jobs?delay=1h`;

async function loadSlice(
  both: Readonly<Record<Mode, BenchDaemon>>,
  mode: Mode,
  connections: number,
  lags: number[],
): Promise<LoadResult> {
  let isOver = false;
  const watching = (async () => {
    for (; mode === 'sync' && !isOver; await sleep(200)) lags.push(await lagOf(both.sync));
  })();
  const result = await pushLoad({ url: urlOf(both[mode]), connections, seconds: sliceSeconds });
  isOver = true;
  await watching;
  return result;
}

/** The server may answer before it has read the registry in MySQL. */
async function untilReady({ url }: BenchDaemon): Promise<void> {
  const end = performance.now() + settledMsMax;
  while ((await fetch(`${url}/readyz`)).status !== 200) {
    if (performance.now() > end) throw new Error('journal: the daemon is not ready');
    await sleep(50);
  }
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
