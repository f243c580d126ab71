// Reloads under constant load. DQ_RELOADS sets their number.
import { expect, it } from 'vitest';
import { startDaemon } from '../support/daemon.ts';
import { startLoad, startReceiver } from '../support/load.ts';
import { addTopic, jobsLeft } from '../support/producing.ts';
import { processesOf, reload } from '../support/reloading.ts';
import { until } from '../support/until.ts';

const reloads = Number(process.env['DQ_RELOADS'] ?? 3);
// Slow enough for this process, client and receiver in one, beside other test files: see
// reload-services.test.ts.
const perSecond = Number(process.env['DQ_RELOAD_RATE'] ?? 200);

it('reloads under load: no connection refused or reset, no job lost or doubled', {
  timeout: 180_000 + reloads * 60_000,
}, async () => {
  const daemon = await startDaemon();
  const receiver = await startReceiver();
  await addTopic(daemon, 't', receiver.url, { concurrency: 10_000, timeout: '60s' });
  const load = startLoad({ url: () => daemon.url, topic: 't', perSecond });
  await until('callbacks are running', () => receiver.open() > 0);

  let before = daemon.workers().map(({ pid }) => pid);
  for (let n = 1; n <= reloads; n += 1) {
    const { code, stderr } = await reload(daemon);
    expect(code, stderr).toBe(0);
    await until(
      'the previous notifiers have exited',
      () => daemon.workers().length === before.length,
      60_000,
    );
    const processes = await processesOf(daemon);
    expect(processes.map(({ generation }) => generation)).toEqual(processes.map(() => n + 1));
    const now = daemon.workers().map(({ pid }) => pid);
    expect(now.filter((pid) => before.includes(pid))).toEqual([]);
    before = now;
  }

  const result = await load.stop();
  expect(result.failures).toEqual([]);
  expect(result.acknowledged.size).toBe(result.pushed);
  await until('every job has ended', async () => (await jobsLeft(daemon)) === 0, 60_000);
  expect([...result.acknowledged].filter((id) => !receiver.arrivals.has(id))).toEqual([]);
  expect([...receiver.arrivals].filter(([, times]) => times !== 1)).toEqual([]);
  expect(daemon.log('error')).toEqual([]);
  console.log(
    `${reloads} reloads under ${result.perSecond} pushes/s: ${result.pushed} jobs, the slowest push ${result.slowestMs} ms`,
  );
});
