// Deaths in the middle of a reload: no accepted job is lost, and the daemon is complete afterwards.
import { once } from 'node:events';
import { Agent, type IncomingMessage, request } from 'node:http';
import { expect, it, onTestFinished, vi } from 'vitest';
import { childrenOf, type Daemon, isAlive, startDaemon } from '../support/daemon.ts';
import { startReceiver } from '../support/load.ts';
import { addTopic, jobsLeft, startPushing } from '../support/producing.ts';
import { processesOf, reload } from '../support/reloading.ts';
import { until } from '../support/until.ts';

// Above the sum of the waits.
vi.setConfig({ testTimeout: 300_000 });

const named = (daemon: Daemon, title: string) =>
  daemon
    .workers()
    .filter((worker) => worker.title.startsWith(title))
    .map(({ pid }) => pid);

/** Resolves with the processes of the new generation, before the reload is over. */
async function second(daemon: Daemon, title: string, old: number): Promise<number> {
  let found: number | undefined;
  await until(
    `a second ${title}`,
    () => {
      found = named(daemon, title).find((pid) => pid !== old);
      return found !== undefined;
    },
    90_000,
    1,
  );
  return found as number;
}

/** An idle connection, for which the old server waits. */
async function keepConnection(daemon: Daemon): Promise<void> {
  const agent = new Agent({ keepAlive: true });
  onTestFinished(() => agent.destroy());
  const reply = request(`${daemon.url}/livez`, { agent }).end();
  const [response] = (await once(reply, 'response')) as [IncomingMessage];
  response.resume();
  await once(response, 'end');
}

/** Without this condition the old dq-store would serve for further seconds. */
const whileServersDrain = 'the old dq-store when the new processes are at work';
const cases = [
  ['the old dq-store while the new one prepares', 'dq-store', 'old', ''],
  ['the new dq-store while it prepares', 'dq-store', 'new', ''],
  [whileServersDrain, 'dq-store', 'old', 'reload: the new'],
  ['the new dq-store when the new processes are at work', 'dq-store', 'new', 'reload: the new'],
  ['the old dq-upkeep when the new processes are at work', 'dq-upkeep', 'old', 'reload: the new'],
] as const;

it.each(cases)('kill -9 of %s', async (what, title, which, when) => {
  const daemon = await startDaemon();
  const receiver = await startReceiver();
  await addTopic(daemon, 't', receiver.url, { timeout: '60s' });
  const old = daemon.pidOf(title);
  const pushing = startPushing(daemon, 't');
  if (what === whileServersDrain) await keepConnection(daemon);
  const answer = reload(daemon);
  const young = await second(daemon, title, old);
  // It ends quickly; SIGSTOP keeps it until the moment comes.
  if (title === 'dq-upkeep') process.kill(old, 'SIGSTOP');
  await until(
    'the moment has come',
    () => when === '' || daemon.log('notice').some(({ message }) => String(message).startsWith(when)),
    90_000,
    1,
  );
  process.kill(which === 'old' ? old : young, 'SIGKILL');
  const { code, stderr } = await answer;
  // A death before the change-over may end the reload, and nothing else.
  if (code === 1) expect(stderr).toContain('nothing has changed');
  else expect(code, stderr).toBe(0);
  await until('one worker of each place is ready', async () => {
    const processes = await processesOf(daemon);
    const titles = processes.map((one) => one.title);
    return (
      processes.every(({ state }) => state === 'ready') && new Set(titles).size === 7 && titles.length === 7
    );
  });
  // The master restarts no worker of the leaving generation, which would compete for the file.
  expect(daemon.log('error').filter(({ message }) => /open in another/.test(String(message)))).toEqual([]);
  const before = pushing.acknowledged.length;
  await until('pushes are stored', () => pushing.acknowledged.length > before + 20);
  await pushing.stop();
  await until('every job has ended', async () => (await jobsLeft(daemon)) === 0);
  expect(pushing.acknowledged.filter((id) => !receiver.arrivals.has(id))).toEqual([]);
  expect((await reload(daemon)).code).toBe(0);
});

it('kill -9 of the master: both generations end, and the next start finds everything in order', async () => {
  const daemon = await startDaemon();
  const old = daemon.pidOf('dq-store');
  const receiver = await startReceiver();
  await addTopic(daemon, 't', receiver.url, { timeout: '60s' });
  const answer = reload(daemon);
  await second(daemon, 'dq-store', old);
  expect((await daemon.push('t', '{}', { id: 'a', delay: 3_000 })).status).toBe(201);
  const workers = childrenOf(daemon.pid).map(({ pid }) => pid);
  process.kill(daemon.pid, 'SIGKILL');
  expect((await answer).code).not.toBe(0);
  await until('the master is gone', () => !isAlive(daemon.pid));
  const next = await startDaemon({ directory: daemon.directory });
  await until('no previous worker is left', () => !workers.some(isAlive));
  // Twice if the old notifier called it just before its end.
  await until('the job is delivered', () => (receiver.arrivals.get('a') ?? 0) > 0);
  expect((await reload(next)).code).toBe(0);
});
