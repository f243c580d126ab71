// A console that dies, hangs or loses its port, and a master that stands still: under load each push is
// answered and each job is delivered once, as without them.
import { createServer } from 'node:net';
import { expect, it, onTestFinished } from 'vitest';
import { startRedis } from '../../scripts/services/redis.ts';
import { type Daemon, isAlive, startDaemon } from '../support/daemon.ts';
import { impatientDq, silenceSeconds } from '../support/impatient-dq.ts';
import { startLoad, startReceiver } from '../support/load.ts';
import { addTopic, jobsLeft } from '../support/producing.ts';
import { lacks, owned } from '../support/services.ts';
import { until } from '../support/until.ts';

const withoutRedis = await lacks('redis');
/** With answers after 100 ms on average, about 10 callbacks are always open. Not more: this process is client
 *  and receiver of two daemons. */
const perSecond = 100;

it('pushes and deliveries go on while the console or the master fails, on both stores', {
  timeout: 180_000,
}, async () => {
  // Together: most of the time passes until the master finds the hung console.
  await Promise.all([failsUnderLoad('embedded store'), ...(withoutRedis ? [] : [failsUnderLoad('Redis')])]);
});

async function failsUnderLoad(store: 'embedded store' | 'Redis'): Promise<void> {
  const redis = store === 'Redis' ? await owned('test', startRedis({ config: ['appendonly yes'] })) : null;
  const daemon = await startDaemon({
    console: true,
    launcher: impatientDq(),
    args: redis === null ? [] : ['--redis', redis.url],
  });
  const receiver = await startReceiver();
  await addTopic(daemon, 't', receiver.url, { concurrency: 1_000 });
  const others = workersBeside(daemon);
  const load = startLoad({ url: () => daemon.url, topic: 't', perSecond });
  /** Waits until `count` further pushes have their answer and as many further jobs have arrived. */
  const goesOn = async (count: number) => {
    const [pushed, arrived] = [load.acknowledged.size, receiver.arrivals.size];
    await until(
      `${store}: ${count} pushes and deliveries`,
      () => load.acknowledged.size >= pushed + count && receiver.arrivals.size >= arrived + count,
    );
  };
  await until('callbacks are running', () => receiver.open() > 5);

  // Killed, and another program takes its port.
  const url = await daemon.consoleUrl();
  const killed = daemon.pidOf('dq-console');
  process.kill(killed, 'SIGKILL');
  await takePort(Number(new URL(url).port));
  await goesOn(perSecond);
  await until('the next console has another port', async () => (await daemon.consoleUrl()) !== url);
  await until('the console answers', () => answers(daemon));

  // Hung: the master kills it.
  const hung = daemon.pidOf('dq-console');
  process.kill(hung, 'SIGSTOP');
  await goesOn(perSecond);
  expect(isAlive(hung)).toBe(true);
  await until('the hung console has a successor', () => !isAlive(hung) && answers(daemon), 60_000);

  // The master stands still.
  process.kill(daemon.pid, 'SIGSTOP');
  await goesOn(4 * perSecond);
  await until('the console answers', () => answers(daemon));
  process.kill(daemon.pid, 'SIGCONT');
  await goesOn(perSecond);

  const result = await load.stop();
  expect(result.failures).toEqual([]);
  expect(result.acknowledged.size).toBe(result.pushed);
  await until('every job has ended', async () => (await jobsLeft(daemon)) === 0, 60_000);
  expect([...result.acknowledged].filter((id) => receiver.arrivals.get(id) !== 1)).toEqual([]);
  expect(receiver.arrivals.size).toBe(result.pushed);
  expect(workersBeside(daemon)).toEqual(others);
  expect(daemon.log('error').map(({ message }) => message)).toEqual([
    `dq-console (pid ${killed}) was ended by SIGKILL`,
    `dq-console (pid ${hung}) was ended by SIGKILL: has sent nothing for ${silenceSeconds} s`,
  ]);

  // A console that hangs does not hold the stop.
  process.kill(daemon.pidOf('dq-console'), 'SIGSTOP');
  expect(await daemon.stop()).toBe(0);
  console.log(`${store}: ${result.pushed} jobs, the slowest push ${result.slowestMs} ms`);
}

const workersBeside = (daemon: Daemon) => daemon.workers().filter(({ title }) => title !== 'dq-console');

async function answers(daemon: Daemon): Promise<boolean> {
  const signal = AbortSignal.timeout(2_000);
  const reply = await fetch(`${await daemon.consoleUrl()}/livez`, { signal }).catch(() => null);
  return reply?.status === 200;
}

/** Before the next console, whose process needs some 100 ms to start. */
async function takePort(port: number): Promise<void> {
  const server = createServer();
  onTestFinished(() => void server.close());
  await until(
    'the port is taken',
    () =>
      new Promise<boolean>((resolve) => {
        server.once('error', () => resolve(false));
        server.listen(port, '127.0.0.1', () => resolve(true));
      }),
  );
}
