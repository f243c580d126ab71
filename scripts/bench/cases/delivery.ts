// Measures the delivery of due jobs to a local sink, beside a bare undici loop with the same headers and
// body, and beside BullMQ. The sink notes the times; the benchmark does not ask it meanwhile.
import { setTimeout as sleep } from 'node:timers/promises';
import { within } from '../../../src/runtime/timeout.ts';
import { type Bench, beforeColumn, loopColumn, type Round } from '../bench.ts';
import { type BenchDaemon, startDaemon } from '../dq.ts';
import { cpuValues, type Table } from '../figures.ts';
import { bareCalls, pushBatches } from '../generators.ts';
import { type Peers, startBullmq } from '../peers.ts';
import type { Measured } from '../processes.ts';
import { type Sink, startSink } from '../servers.ts';

/** With 60,000 the compiler is a third of what is measured. */
const defaultJobs = 300_000;
/** The compiler and the heaps of fresh processes settle during this share of the jobs. */
const warmUpShare = 1 / 6;
const skipOf = (jobs: number) => Math.floor(jobs * warmUpShare) || 1;
/** A change of a topic reaches every process within this time. */
const propagationMs = 2_000;
const topics = ['a', 'b', 'c', 'd'];
const concurrency = 256;
const bareWidth = 128;
const secondsMax = 300;
const bare = 'bare undici dispatch loop';

export async function delivery(bench: Bench, peers: Peers): Promise<void> {
  const jobs = bench.options.jobs || defaultJobs;
  const table = bench.table('delivery', `Delivery of ${jobs.toLocaleString('en')} due jobs to a local sink`, [
    { key: 'rate', title: 'calls/s' },
    beforeColumn,
    { key: 'ofBare', title: '÷ bare' },
    { key: 'ofBullmq', title: '÷ BullMQ' },
    { key: 'cpu', title: 'CPU, µs per job, with the sink' },
    loopColumn,
  ]);
  table.promise(bare, 'nothing');
  for (const { name } of bench.builds)
    table.promise(name, 'signature computed, attempt recorded, job ended in the store');
  const bullmqName = `BullMQ ${peers.bullmq?.version}, 2 workers with undici`;
  if (peers.bullmq !== null) table.promise(bullmqName, 'job ended in Redis; constant signature');
  const bareTurn = { name: bare, run: (round: Round) => bareTurnOf(round, table, jobs) };
  const turns = [
    ...bench.builds.map((build) => ({
      name: build.name,
      async run(round: Round) {
        const sink = await startSink();
        const dq = await startDaemon(build);
        await addTopics(dq, sink);
        round.add(table, build.name, await deliverDue(round, dq, sink, jobs));
        await dq.stop();
        await sink.stop();
      },
    })),
    ...(peers.bullmq === null
      ? []
      : [{ name: bullmqName, run: (round: Round) => bullmqTurn(round, table, bullmqName, peers, jobs) }]),
  ];
  await bench.rounds('delivery', async (round) => {
    for (const { run } of round.order([bareTurn, ...turns])) await run(round);
    bench.compare(round, table, 'rate');
    round.addRatios(table, 'rate', bare, 'ofBare');
    round.addRatios(table, 'rate', bullmqName, 'ofBullmq');
  });
}

export async function addTopics(dq: BenchDaemon, sink: Sink): Promise<void> {
  for (const topic of topics)
    await dq.api('POST', '/v1/topics', { topic, callbackUrl: sink.url, concurrency });
}

/** Delivers jobs that wait in paused topics. */
export async function deliverDue(
  round: Pick<Round, 'meter'>,
  dq: BenchDaemon,
  sink: Sink,
  jobs: number,
): Promise<Record<string, number>> {
  for (const topic of topics) await dq.api('POST', `/v1/topics/${topic}/pause`);
  await sleep(propagationMs);
  const measured = [...(await dq.measured()), { role: 'sink', pid: sink.pid }];
  return timed(round, sink, measured, jobs, async () => {
    await pushBatches(dq.url, jobs, (n) => ({ topic: topics[n % topics.length] as string }));
    if ((await sink.arrivals()).received >= skipOf(jobs))
      throw new Error('delivery: measured jobs left before their topics resumed');
    for (const topic of topics) await dq.api('POST', `/v1/topics/${topic}/resume`);
  });
}

/** Figures from the first measured arrival to the last. */
async function timed(
  round: Pick<Round, 'meter'>,
  sink: Sink,
  measured: readonly Measured[],
  jobs: number,
  begin: () => Promise<unknown>,
): Promise<Record<string, number>> {
  const skip = skipOf(jobs);
  const { skipped, done } = await sink.expect(skip, jobs);
  const reading = skipped.then(async (from) => {
    const meter = round.meter(measured);
    return { ms: (await done) - from, ...meter() };
  });
  const begun = begin();
  const [{ ms, cpu, loopUs }] = await within(
    secondsMax * 1000,
    Promise.all([reading, begun]),
    () => new Error(`delivery: jobs are missing after ${secondsMax} s`),
  );
  return { rate: ((jobs - skip) * 1000) / ms, loopUs, ...cpuValues(cpu, jobs - skip) };
}

async function bareTurnOf(round: Round, table: Table, jobs: number): Promise<void> {
  const sink = await startSink();
  const measured = [
    { role: 'loop', pid: process.pid },
    { role: 'sink', pid: sink.pid },
  ];
  const figures = await timed(round, sink, measured, jobs, () => bareCalls(sink.url, jobs, bareWidth));
  round.add(table, bare, figures);
  await sink.stop();
}

async function bullmqTurn(
  round: Round,
  table: Table,
  name: string,
  { bullmq }: Peers,
  jobs: number,
): Promise<void> {
  if (bullmq === null) return;
  const sink = await startSink();
  const peer = await startBullmq(bullmq.folder, 2, sink.url);
  const measured = [...peer.measured, { role: 'sink', pid: sink.pid }];
  const figures = await timed(round, sink, measured, jobs, async () => {
    await fetch(`${peer.url}/fill?jobs=${jobs}`);
    await fetch(`${peer.url}/fill?jobs=0`);
  });
  round.add(table, name, figures);
  await peer.stop();
  await sink.stop();
}
