// Measures how late jobs arrive that are pushed one by one at a fixed rate: at 50 a second, where a job waits
// for nothing but wake-ups and syncs, and at 2,000 a second, where pushes and deliveries share the processes.
import { within } from '../../../src/runtime/timeout.ts';
import type { Bench, Round } from '../bench.ts';
import { type BenchDaemon, startDaemon } from '../dq.ts';
import { cpuValues, percentile } from '../figures.ts';
import { pacedPushes } from '../generators.ts';
import { measureSync } from '../machine.ts';
import { type Sink, startSink } from '../servers.ts';

const rates = [50, 2_000] as const;
const warmUpSeconds = 2;

export async function lateness(bench: Bench): Promise<void> {
  const tables = rates.map((rate) =>
    bench.table(`lateness-${rate}`, `Lateness at ${rate.toLocaleString('en')} jobs/s`, [
      { key: 'p50', title: 'p50, ms' },
      { key: 'p99', title: 'p99, ms' },
      { key: 'sync', title: 'fdatasync p99 beside it, ms' },
      { key: 'cpu', title: 'CPU, µs per job' },
    ]),
  );
  await bench.rounds('lateness', async (round) => {
    for (const build of round.order(bench.builds)) {
      const sink = await startSink();
      const dq = await startDaemon(build);
      await dq.api('POST', '/v1/topics', { topic: 'late', callbackUrl: sink.url, concurrency: 1_000 });
      for (const [n, rate] of rates.entries()) {
        await latenessOf(round, dq, sink, 'late', rate, warmUpSeconds);
        const sync = percentile(measureSync(), 0.99);
        const seconds = rate === 50 ? bench.options.latenessSeconds : bench.options.latenessSeconds / 2;
        const figures = await latenessOf(round, dq, sink, 'late', rate, seconds);
        const table = tables[n];
        if (table !== undefined) round.add(table, build.name, { ...figures, sync });
      }
      await dq.stop();
      await sink.stop();
    }
  });
}

/** Figures of jobs that are due a second after their push; the sink must receive no other jobs. */
export async function latenessOf(
  round: Pick<Round, 'meter'>,
  dq: BenchDaemon,
  sink: Sink,
  topic: string,
  perSecond: number,
  seconds: number,
): Promise<Record<string, number>> {
  const jobs = Math.max(1, Math.round(perSecond * seconds));
  const { done } = await sink.expect(0, jobs);
  const meter = round.meter(await dq.measured());
  await pacedPushes(`${dq.url}/v1/topics/${topic}/jobs?delay=1s`, perSecond, jobs);
  await within(30_000, done, () => new Error('lateness: jobs are missing after 30 s'));
  const { cpu } = meter();
  const all = (await sink.arrivals()).lateness;
  return { p50: percentile(all, 0.5), p99: percentile(all, 0.99), ...cpuValues(cpu, jobs) };
}
