// Measures the lateness of a topic with 50 jobs/s while many jobs of another topic become due within a
// minute.
import { setTimeout as sleep } from 'node:timers/promises';
import { orAfter } from '../../../src/runtime/timeout.ts';
import type { Bench, Build, Round } from '../bench.ts';
import { startDaemon } from '../dq.ts';
import { cpuValues, percentile, type Table } from '../figures.ts';
import { pacedPushes, pushBatches } from '../generators.ts';
import { startSink } from '../servers.ts';

const defaultJobs = 500_000;
const stormSeconds = 60;
const perSecond = 50;
/** jobs/s that a slow machine pushes in batches: the storm begins when they are pushed */
const pushRate = 16_000;

export async function storm(bench: Bench): Promise<void> {
  const jobs = bench.options.jobs || defaultJobs;
  const title = `${jobs.toLocaleString('en')} jobs due within ${stormSeconds} s: another topic at ${perSecond} jobs/s`;
  const table = bench.table('storm', title, [
    { key: 'p50', title: 'its lateness p50, ms' },
    { key: 'p99', title: 'p99, ms' },
    { key: 'max', title: 'highest, ms' },
    { key: 'stormP99', title: 'lateness of the storm, p99, ms' },
    { key: 'cpu', title: 'CPU, µs per job of the storm' },
  ]);
  await bench.rounds('storm', async (round) => {
    for (const build of round.order(bench.builds)) await besideStorm(round, table, build, jobs);
  });
}

async function besideStorm(round: Round, table: Table, build: Build, jobs: number): Promise<void> {
  const sink = await startSink();
  const dq = await startDaemon(build);
  const callbackUrl = `${sink.url}/storm`;
  await dq.api('POST', '/v1/topics', { topic: 'storm', callbackUrl, concurrency: 1_000 });
  await dq.api('POST', '/v1/topics', { topic: 'late', callbackUrl: `${sink.url}/late` });
  const { done } = await sink.expect(0, jobs + perSecond * stormSeconds);
  const from = Date.now() + 2_000 + (jobs / pushRate) * 1000;
  const at = (n: number) => new Date(from + Math.floor((n * stormSeconds * 1000) / jobs)).toISOString();
  await pushBatches(dq.url, jobs, (n) => ({ topic: 'storm', at: at(n) }));
  const spareMs = from - Date.now();
  if (spareMs < 0) console.log(`  ${build.name}: the storm began ${-spareMs} ms before its last push`);
  // The other jobs are due a second after their push, so their minute begins with the storm.
  await sleep(spareMs - 1_000);
  const meter = round.meter([...(await dq.measured()), { role: 'sink', pid: sink.pid }]);
  await pacedPushes(`${dq.url}/v1/topics/late/jobs?delay=1s`, perSecond, perSecond * stormSeconds);
  if ((await orAfter(stormSeconds * 1000, done, null)) === null)
    console.log(`  ${build.name}: jobs are missing a minute after the storm`);
  const { cpu } = meter();
  const { lateness } = await sink.arrivals('/late');
  const ofStorm = (await sink.arrivals('/storm')).lateness;
  await dq.stop();
  await sink.stop();
  round.add(table, build.name, {
    ...{ p50: percentile(lateness, 0.5), p99: percentile(lateness, 0.99), max: Math.max(...lateness) },
    ...{ stormP99: percentile(ofStorm, 0.99), ...cpuValues(cpu, jobs) },
  });
}
