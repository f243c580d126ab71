// Measures the memory of all processes of dq: idle, after pushes and deliveries, and a while later. Each
// build is alone, because processes of another daemon would share its pages.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Bench } from '../bench.ts';
import { type BenchDaemon, startDaemon } from '../dq.ts';
import { pushLoad, readmeQuery } from '../generators.ts';
import { pssBytes } from '../processes.ts';
import { startSink } from '../servers.ts';
import { addTopics, deliverDue } from './delivery.ts';

const settleMs = 5_000;
const laterMs = 15_000;
const defaultJobs = 40_000;

export async function footprint(bench: Bench): Promise<void> {
  const { seconds, jobs } = bench.options;
  const dueJobs = jobs || defaultJobs;
  const table = bench.table('footprint', `Memory of dq (PSS), ${dueJobs.toLocaleString('en')} deliveries`, [
    { key: 'idle', title: 'idle, MiB' },
    { key: 'after', title: 'after pushes and deliveries, MiB' },
    { key: 'later', title: `${laterMs / 1_000} s later, MiB` },
    { key: 'processes', title: 'processes' },
  ]);
  await bench.rounds('footprint', async (round) => {
    for (const build of round.order(bench.builds)) {
      const sink = await startSink();
      const dq = await startDaemon(build);
      await dq.consoleUrl();
      await dq.api('POST', '/v1/topics', { topic: 'push', callbackUrl: sink.url, delay: '1h' });
      await addTopics(dq, sink);
      await sleep(settleMs);
      const idle = await memoryOf(dq);
      const url = `${dq.url}/v1/topics/push/jobs${readmeQuery}`;
      await pushLoad({ url, connections: 64, seconds });
      await deliverDue(round, dq, sink, dueJobs);
      const after = await memoryOf(dq);
      await sleep(laterMs);
      const later = await memoryOf(dq);
      const processes = (await dq.processes()).length;
      await dq.stop();
      await sink.stop();
      round.add(table, build.name, { idle, after, later, processes });
    }
  });
}

/** MiB, without Redis */
async function memoryOf(dq: BenchDaemon): Promise<number> {
  const processes = await dq.processes();
  return processes.reduce((sum, { pid }) => sum + pssBytes(pid), 0) / 2 ** 20;
}
