// A new process that hangs: the reload gives up after 15 s and ends all new processes.
import { expect, it } from 'vitest';
import { startDaemon } from '../support/daemon.ts';
import { reload } from '../support/reloading.ts';
import { until } from '../support/until.ts';

it('a new process stopped before it is ready: the reload fails after 15 s', {
  timeout: 180_000,
}, async () => {
  const daemon = await startDaemon();
  const workers = daemon.workers();
  const old = daemon.pidOf('dq-timer-0');
  const answer = reload(daemon);
  let stuck: number | undefined;
  await until(
    'a new timer is there',
    () => {
      stuck = daemon.workers().find(({ title, pid }) => title.startsWith('dq-timer-0') && pid !== old)?.pid;
      return stuck !== undefined;
    },
    90_000,
    1,
  );
  process.kill(stuck as number, 'SIGSTOP');
  const { code, stderr } = await answer;
  expect(code).toBe(1);
  expect(stderr).toMatch(/nothing has changed: dq-timer-0.* not ready within 15 s/);
  await until('no new process is left', () => daemon.workers().length === workers.length);
  expect(daemon.workers()).toEqual(workers);
  expect((await daemon.api('GET', '/readyz')).status).toBe(200);
  expect((await reload(daemon)).code).toBe(0);
});
