// Tests `profile: small`: the processes that it starts, and that the joined process of upkeep and timer is
// restarted and reloaded as any other.
import { expect, it } from 'vitest';
import { startDaemon } from '../support/daemon.ts';
import { addTopic } from '../support/producing.ts';
import { processesOf, reload, writeConfig } from '../support/reloading.ts';
import { startSink } from '../support/sink.ts';
import { until } from '../support/until.ts';

const joined = 'dq-upkeep+timer';

it('the joined process delivers, restarts after kill -9, and is reloaded without a refused connection', async () => {
  const daemon = await startDaemon({ args: ['--profile', 'small'], config: {} });
  const sink = await startSink();
  await addTopic(daemon, 't', sink.url);
  const titles = async () => (await processesOf(daemon)).map(({ title }) => title).sort();
  expect(await titles()).toEqual(['dq-master', 'dq-notifier-0', 'dq-server-0', 'dq-store', joined]);
  expect((await daemon.api('GET', '/v1/processes')).body.processes).toContainEqual(
    expect.objectContaining({ title: joined, role: 'upkeep', alsoRuns: ['timer'], state: 'ready' }),
  );
  const delivered = async (id: string) => {
    expect((await daemon.push('t', '1', { id, delay: 50 })).status).toBe(201);
    await until(`${id} arrives`, () => sink.arrivals.some((arrival) => arrival.id === id));
  };
  await delivered('first');

  const killed = daemon.pidOf(joined);
  process.kill(killed, 'SIGKILL');
  await delivered('after the kill');
  await until('it is ready again', async () =>
    (await processesOf(daemon)).some(
      ({ title, state, restarts }) => title === joined && state === 'ready' && restarts === 1,
    ),
  );

  // Explicit counts win over the profile.
  writeConfig(daemon, { timer: { workers: 1 }, notifier: { workers: 2 } });
  let isOver = false;
  const failures: unknown[] = [];
  const asking = (async () => {
    while (!isOver) await daemon.api('GET', '/livez').catch((error: unknown) => failures.push(error));
  })();
  expect((await reload(daemon)).code).toBe(0);
  await until('the previous processes are gone', async () => !(await titles()).includes(joined));
  isOver = true;
  await asking;
  expect(failures).toEqual([]);
  expect(await titles()).toEqual([
    'dq-master',
    'dq-notifier-0',
    'dq-notifier-1',
    'dq-server-0',
    'dq-store',
    'dq-timer-0',
    'dq-upkeep',
  ]);

  writeConfig(daemon, {});
  expect((await reload(daemon)).code).toBe(0);
  await until('the joined process is back', async () => !(await titles()).includes('dq-timer-0'));
  await delivered('after the reloads');
});
