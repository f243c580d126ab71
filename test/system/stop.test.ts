// Tests running work during a stop of the daemon. Simulated worlds show that a stop ends in time and leaves
// no worker, and that a job whose call is cut counts no attempt.
import { readdirSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { calling } from '../support/calling.ts';
import type { Daemon } from '../support/daemon.ts';
import { isAlive, openFilesOf, startDaemon } from '../support/daemon.ts';
import { runDq } from '../support/run-dq.ts';
import { until } from '../support/until.ts';

const stateOf = async (daemon: Daemon, id: string) =>
  (await daemon.api('GET', `/v1/topics/t/jobs/${id}`)).body.state as string | undefined;
const titles = (daemon: Daemon) => daemon.workers().map(({ title }) => title);

async function expectEnd(daemon: Daemon): Promise<void> {
  await until('the daemon has ended', () => daemon.child.exitCode !== null);
  expect(daemon.child.exitCode).toBe(0);
}

it('stop: lets a callback finish, or is over at once; no outcome is lost', async () => {
  const first = await startDaemon();
  const { directory } = first;
  const sink = await calling(first);

  // SIGUSR1: every process closes its log files at once and opens new ones.
  await until('the push is logged', () => first.log('request').some(({ id }) => id === 'a'));
  for (const name of readdirSync(first.logDir))
    renameSync(join(first.logDir, name), join(first.logDir, `${name}.1`));
  const pids = [first.pid, ...first.workers().map(({ pid }) => pid)];
  const rotated = () => pids.flatMap(openFilesOf).filter((path) => path.endsWith('.log.1'));
  expect(rotated().length).toBeGreaterThan(1);
  first.child.kill('SIGUSR1');
  // No process writes a line now, so none reopens by itself.
  await until('no process has an old file open', () => rotated().length === 0);

  first.child.kill('SIGTERM');
  // Idle processes have ended; those needed to the end still run: the store, upkeep, and the one notifier
  // with a call.
  const leftOver = /^dq-notifier-\d \(draining\) dq-store dq-upkeep$/;
  await until('only the needed processes are left', () => leftOver.test(titles(first).sort().join(' ')));
  sink.finish(sink.open()[0]);
  await expectEnd(first);
  expect(sink.arrivals.map(({ broken }) => broken)).toEqual([false]);
  const written = readdirSync(first.logDir);
  expect(written.some((name) => name.startsWith('notify-') && name.endsWith('.log'))).toBe(true);

  // A second signal: the callback hangs, and the stop would wait for shutdownTimeout.
  const second = await startDaemon({ directory, config: { shutdownTimeout: '10m' } });
  expect(await stateOf(second, 'a')).toBe('done');
  await second.push('t', '{}', { id: 'b' });
  await until('a callback is running', () => sink.open().length === 1);
  const workers = second.workers().map(({ pid }) => pid);
  second.child.kill('SIGTERM');
  await until('it drains', () => titles(second).some((title) => title.includes('(draining)')));
  second.child.kill('SIGINT');
  await expectEnd(second);
  expect(workers.filter(isAlive)).toEqual([]);

  const third = await startDaemon({ directory });
  // Recovered by the list of living notifiers: its lease lasts more than a minute.
  await until('it is called again', () => sink.arrivals.length === 3);
  const stopped = await runDq(['stop', '--timeout', '100ms', '--data-dir', third.dataDir]);
  expect(stopped).toMatchObject({ code: 0, stdout: '', stderr: 'dq: stopped\n' });

  // The next daemon can start at once.
  sink.answer((arrival) => sink.finish(arrival));
  const fourth = await startDaemon({ directory });
  await until('it is done', async () => (await stateOf(fourth, 'b')) === 'done');
  const [, ...ofB] = sink.arrivals;
  expect(ofB.map(({ id, attempt }) => `${id} ${attempt}`)).toEqual(['b 1', 'b 1', 'b 1']);
  expect(new Set(ofB.map(({ webhookId }) => webhookId)).size).toBe(1);
});
