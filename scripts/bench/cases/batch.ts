// Measures pushes in batches. Each round has its own daemon: a file with a million jobs would change the
// next one.
import { type Bench, beforeColumn, loopColumn } from '../bench.ts';
import { startDaemon } from '../dq.ts';
import { cpuValues } from '../figures.ts';
import { pushLoad } from '../generators.ts';

const batchJobs = 100;
const connections = 16;

export async function batch(bench: Bench): Promise<void> {
  const table = bench.table('batch', `Intake in batches of ${batchJobs}, ${connections} connections`, [
    { key: 'rate', title: 'jobs/s' },
    beforeColumn,
    { key: 'p99', title: 'reply p99, ms' },
    { key: 'cpu', title: 'CPU, µs per job' },
    { key: 'generator', title: 'generator, % of a core' },
    loopColumn,
  ]);
  const wrap = (job: string) => `[${Array(batchJobs).fill(`{"topic":"bench","body":${job}}`).join(',')}]`;
  await bench.rounds('batch', async (round) => {
    for (const build of round.order(bench.builds)) {
      const dq = await startDaemon(build);
      await dq.api('POST', '/v1/topics', { topic: 'bench', callbackUrl: 'http://127.0.0.1:9/', delay: '1h' });
      const load = { url: `${dq.url}/v1/jobs`, connections, wrap };
      await pushLoad({ ...load, seconds: 1 });
      const meter = round.meter(await dq.measured());
      const { requests, perSecond, p99 } = await pushLoad({ ...load, seconds: bench.options.seconds });
      const reading = meter();
      await dq.stop();
      round.add(table, build.name, {
        ...{ rate: perSecond * batchJobs, p99, generator: (100 * reading.generator) / reading.seconds },
        loopUs: reading.loopUs,
        ...cpuValues(reading.cpu, requests * batchJobs),
      });
    }
    bench.compare(round, table, 'rate');
  });
}
