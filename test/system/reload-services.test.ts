// Reloads of a daemon on Redis and MariaDB, under load and while one is unavailable. DQ_RELOADS: their
// number.
import { expect, it, vi } from 'vitest';
import { startRedis } from '../../scripts/services/redis.ts';
import { startDaemon } from '../support/daemon.ts';
import { startLoad, startReceiver } from '../support/load.ts';
import { addTopic, jobsLeft } from '../support/producing.ts';
import { untilReady } from '../support/redis-trouble.ts';
import { processesOf, reload, writeConfig } from '../support/reloading.ts';
import { lacks, mariadb, owned } from '../support/services.ts';
import { until } from '../support/until.ts';

const reloads = Number(process.env['DQ_RELOADS'] ?? 2);
// Slow enough for this process, client and receiver in one, beside other test files: a request sent seconds
// after its connection gets 408, or is cut when a draining server exits.
const perSecond = Number(process.env['DQ_RELOAD_RATE'] ?? 100);

vi.setConfig({ testTimeout: 120_000 + reloads * 60_000 });

const isMissing = (await lacks('redis')) || (await lacks('mysql'));

it.skipIf(isMissing)('reloads on Redis and MariaDB: no request reset, no job lost or doubled', async () => {
  const [redis, database] = await Promise.all([
    owned('test', startRedis({ config: ['appendonly yes', 'appendfsync everysec'] })),
    owned('test', mariadb()),
  ]);
  await database.createDatabase('dq');
  const daemon = await startDaemon({ args: ['--redis', redis.url, '--mysql', database.url('dq')] });
  const receiver = await startReceiver();
  await addTopic(daemon, 't', receiver.url, { concurrency: 10_000, timeout: '60s' });
  const load = startLoad({ url: () => daemon.url, topic: 't', perSecond });
  await until('callbacks are running', () => receiver.open() > 0);
  let generation = 1;
  const reloaded = async () => {
    const before = daemon.workers().map(({ pid }) => pid);
    const { code, stderr } = await reload(daemon);
    expect(code, stderr).toBe(0);
    generation += 1;
    await until(
      'the previous workers have exited',
      () => !daemon.workers().some(({ pid }) => before.includes(pid)),
    );
    const processes = await processesOf(daemon);
    expect(processes.map((one) => one.generation)).toEqual(processes.map(() => generation));
  };
  for (let n = 0; n < reloads; n += 1) await reloaded();
  // MySQL is unavailable: processes know the topics or read them from the copy.
  await database.process.kill();
  await reloaded();
  const result = await load.stop();
  expect(result.failures).toEqual([]);
  expect(result.acknowledged.size).toBe(result.pushed);
  // Statistics are counted in it.
  await database.process.start();
  await until('every job has ended', async () => (await jobsLeft(daemon)) === 0);
  const times = (wanted: number) => [...receiver.arrivals.values()].filter((n) => n === wanted).length;
  expect([...result.acknowledged].filter((id) => !receiver.arrivals.has(id))).toEqual([]);
  expect(times(1)).toBe(receiver.arrivals.size);

  // With `everysec` Redis may delay an acknowledged write to the file while another fsync runs.
  await redis.ask('CONFIG', 'SET', 'appendfsync', 'always');
  expect((await daemon.push('t', '1', { id: 'across', delay: 1_000 })).status).toBe(201);
  await redis.process.kill();
  await reloaded();
  expect((await daemon.push('t', '1')).status).toBe(503);
  await redis.process.start();
  await untilReady(daemon);
  await until('it arrives', () => receiver.arrivals.has('across'));
  console.log(
    `${reloads} reloads on Redis and MariaDB, the last while MariaDB was down, under ${result.perSecond} pushes/s: ${result.pushed} jobs, ` +
      `${result.failures.length} failed, the slowest push ${result.slowestMs} ms`,
  );
});

it.skipIf(isMissing)('a reload repairs a wrong address of Redis', async () => {
  const redis = await owned('test', startRedis());
  const gone = await owned('test', startRedis());
  await gone.stop();
  const daemon = await startDaemon({ config: { redis: [gone.url] } });
  const receiver = await startReceiver();
  await addTopic(daemon, 't', receiver.url);
  expect((await daemon.push('t', '1')).status).toBe(503);
  writeConfig(daemon, { redis: [redis.url] });
  const { code, stderr } = await reload(daemon);
  expect(code, stderr).toBe(0);
  await untilReady(daemon);
  expect((await daemon.push('t', '1', { id: 'a' })).status).toBe(201);
  await until('it arrives', () => receiver.arrivals.has('a'));
});
