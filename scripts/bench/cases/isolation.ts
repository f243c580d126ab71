// Measures the lateness of a topic beside a topic with 2,000 due jobs whose endpoint accepts and never
// answers.
import type { Bench } from '../bench.ts';
import { startDaemon } from '../dq.ts';
import { pushBatches } from '../generators.ts';
import { startBareServer, startSink } from '../servers.ts';
import { latenessOf } from './lateness.ts';

const hangingJobs = 2_000;
const perSecond = 50;

export async function isolation(bench: Bench): Promise<void> {
  const title = `Lateness at ${perSecond} jobs/s beside ${hangingJobs.toLocaleString('en')} hanging jobs`;
  const table = bench.table('isolation', title, [
    { key: 'alone', title: 'alone, p99, ms' },
    { key: 'beside', title: 'beside them, p99, ms' },
  ]);
  await bench.rounds('isolation', async (round) => {
    for (const build of round.order(bench.builds)) {
      const sink = await startSink();
      const hanging = await startBareServer('hang');
      const dq = await startDaemon(build);
      await dq.api('POST', '/v1/topics', { topic: 'late', callbackUrl: sink.url });
      await dq.api('POST', '/v1/topics', {
        ...{ topic: 'hangs', callbackUrl: hanging.url, concurrency: 10_000, timeout: '3s' },
        ...{ maxAttempts: 100, backoff: ['1s'] },
      });
      const { latenessSeconds: seconds } = bench.options;
      const alone = await latenessOf(round, dq, sink, 'late', perSecond, seconds);
      await pushBatches(dq.url, hangingJobs, () => ({ topic: 'hangs' }));
      const beside = await latenessOf(round, dq, sink, 'late', perSecond, seconds);
      round.add(table, build.name, { alone: alone['p99'] ?? NaN, beside: beside['p99'] ?? NaN });
      await dq.stop();
      await hanging.stop();
      await sink.stop();
    }
  });
}
