// Measures pushes, deliveries and lateness while more and more jobs wait, and draws them over the number of
// waiting jobs. One daemon per build grows from size to size; those of one store take turns.
import type { Bench, Build, Round } from '../bench.ts';
import { type BenchDaemon, startDaemon } from '../dq.ts';
import { median, type Table } from '../figures.ts';
import { pushBatches, pushLoad } from '../generators.ts';
import { type Panel, plot } from '../plot.ts';
import { pssBytes } from '../processes.ts';
import { type Sink, startSink } from '../servers.ts';
import { addTopics, deliverDue } from './delivery.ts';
import { latenessOf } from './lateness.ts';

const dueJobs = 24_000;
const topics = 10;
const hourMs = 3_600_000;
const perSecond = 50;

const text = (size: number) => size.toLocaleString('en');
const rowOf = (build: Build, size: number) => `${build.name}, ${text(size)} pending`;

/** Returns the plot. */
export async function pending(bench: Bench): Promise<string> {
  const table = bench.table('pending', 'Rates and lateness beside pending jobs', [
    { key: 'push', title: 'pushes/s, 64 connections' },
    { key: 'rate', title: 'deliveries/s' },
    { key: 'p50', title: `lateness at ${perSecond}/s, p50, ms` },
    { key: 'p99', title: 'p99, ms' },
    { key: 'cpu', title: 'CPU, µs per delivery, with the sink' },
    { key: 'memory', title: 'memory of the store, MiB' },
  ]);
  for (const store of new Set(bench.builds.map((build) => build.store))) {
    const ofStore = bench.builds.filter((build) => build.store === store);
    const sides = await Promise.all(ofStore.map(startSide));
    let filled = 0;
    for (const size of bench.options.sizes) {
      for (const { build, dq } of sides) {
        const from = performance.now();
        await fill(dq, filled, size);
        const rate = ((size - filled) * 1000) / (performance.now() - from);
        console.log(`  ${rowOf(build, size)}: filled with ${text(Math.round(rate))} jobs/s in batches`);
      }
      filled = size;
      await bench.rounds(`pending ${text(size)}, ${store}`, async (round) => {
        for (const side of round.order(sides)) await measure(bench, round, table, size, side);
      });
    }
    for (const { dq, sink } of sides) {
      await dq.stop();
      await sink.stop();
    }
  }
  return plotOf(bench, table);
}

interface Side {
  readonly build: Build;
  readonly dq: BenchDaemon;
  readonly sink: Sink;
}

async function startSide(build: Build): Promise<Side> {
  const sink = await startSink();
  const dq = await startDaemon(build);
  for (let n = 0; n < topics; n++)
    await dq.api('POST', '/v1/topics', { topic: `pending-${n}`, callbackUrl: sink.url });
  await dq.api('POST', '/v1/topics', { topic: 'late', callbackUrl: sink.url });
  await addTopics(dq, sink);
  return { build, dq, sink };
}

/** Due in more than a day, so that none becomes due meanwhile. */
async function fill(dq: BenchDaemon, from: number, end: number): Promise<void> {
  await pushBatches(dq.url, end - from, (n) => ({
    topic: `pending-${n % topics}`,
    delay: `${24 * hourMs + (((from + n) * 7_919) % (24 * hourMs))}ms`,
  }));
}

async function measure(
  bench: Bench,
  round: Round,
  table: Table,
  size: number,
  { build, dq, sink }: Side,
): Promise<void> {
  await dq.api('POST', '/v1/topics', { topic: 'push', callbackUrl: sink.url, delay: '48h' });
  const meter = round.meter([]);
  const url = `${dq.url}/v1/topics/push/jobs`;
  const { perSecond: push } = await pushLoad({ url, connections: 64, seconds: bench.options.seconds });
  meter();
  await removeTopic(dq, 'push');
  const delivered = await deliverDue(round, dq, sink, dueJobs);
  const seconds = bench.options.latenessSeconds / 2;
  const late = await latenessOf(round, dq, sink, 'late', perSecond, seconds);
  const measured = await dq.measured();
  const store = measured.filter(({ role }) => role === (build.store === 'redis' ? 'redis-server' : 'store'));
  const bytes = store.reduce((sum, { pid }) => sum + pssBytes(pid), 0);
  round.add(table, rowOf(build, size), {
    ...{ push, memory: bytes / 2 ** 20 },
    ...delivered,
    ...{ p50: late['p50'] ?? Number.NaN, p99: late['p99'] ?? Number.NaN },
  });
}

/** With its jobs: they do not count as pending. One call purges a bounded number. */
async function removeTopic(dq: BenchDaemon, topic: string): Promise<void> {
  for (;;) {
    const reply = await fetch(`${dq.url}/v1/topics/${topic}?jobs=purge`, { method: 'DELETE' });
    if (reply.ok) return;
    const problem = (await reply.json()) as { code?: string };
    if (problem.code !== 'topic_has_jobs') throw new Error(`pending: ${JSON.stringify(problem)}`);
  }
}

function plotOf({ builds, options: { sizes } }: Bench, table: Table): string {
  const lines = (key: string, what: string) =>
    builds.map((build) => ({
      name: `${what}${build.name}`,
      points: sizes.map((size): [number, number] => {
        const row = table.rows.find(({ name }) => name === rowOf(build, size));
        return [size, median(row?.values[key] ?? [])];
      }),
    }));
  const panels: readonly Panel[] = [
    { title: 'jobs per second', lines: [...lines('push', 'push, '), ...lines('rate', 'delivery, ')] },
    { title: 'lateness at 50 jobs/s, ms', lines: [...lines('p50', 'p50, '), ...lines('p99', 'p99, ')] },
  ];
  return plot(panels, 'pending jobs');
}
