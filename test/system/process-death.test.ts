// Tests kill -9 of all servers and of the master, where sockets and process groups decide. The death of any
// worker, and what becomes of its jobs: simulated worlds, and fault/total-queue on real processes.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { type Daemon, isAlive, startDaemon } from '../support/daemon.ts';
import { addTopic } from '../support/producing.ts';
import { processesOf, reload } from '../support/reloading.ts';
import { until } from '../support/until.ts';

it('kill -9 of all servers before one of them has its successor: the port that the system chose stays', async () => {
  const daemon = await startDaemon({ args: ['--servers', '2'] });
  const dead = daemon.pidOf('dq-server-0');
  process.kill(dead, 'SIGKILL');
  const successor = await until('the successor', () =>
    daemon.workers().find(({ title, pid }) => title === 'dq-server-0' && pid !== dead),
  );
  // Before it listens: then no process holds the socket when the other server is dead.
  process.kill(successor.pid, 'SIGSTOP');
  const last = daemon.pidOf('dq-server-1');
  process.kill(last, 'SIGKILL');
  await until('another successor', () =>
    daemon.workers().some(({ title, pid }) => title === 'dq-server-1' && pid !== last),
  );
  process.kill(successor.pid, 'SIGCONT');
  await until('both are ready', async () =>
    (await processesOf(daemon)).every(({ state }) => state === 'ready'),
  );
  expect((await daemon.api('GET', '/readyz')).status).toBe(200);
});

it('kill -9 of the master: its workers exit; a new start uses its port at once and ends stopped ones', async () => {
  const daemon = await startDaemon();
  const [stopped = 0, continued = 0] = ['dq-timer-0', 'dq-notifier-0'].map((title) => daemon.pidOf(title));
  // dq-store waits a while for the stopped one.
  const others = daemon
    .workers()
    .flatMap(({ title, pid }) => (pid === stopped || title === 'dq-store' ? [] : [pid]));
  for (const pid of [stopped, continued]) process.kill(pid, 'SIGSTOP');
  process.kill(daemon.pid, 'SIGKILL');
  await until('those that run have ended', () => others.every((pid) => pid === continued || !isAlive(pid)));
  expect([stopped, continued].filter(isAlive)).toEqual([stopped, continued]);
  process.kill(continued, 'SIGCONT');
  await until('the continued one has ended', () => !isAlive(continued));
  const port = Number(new URL(daemon.url).port);
  const next = await startDaemon({ directory: daemon.directory, port });
  expect(isAlive(stopped)).toBe(false);
  expect(next.url).toBe(daemon.url);
  expect((await next.api('GET', '/readyz')).status).toBe(200);
  const ended = /^ended workers of a killed master: .*dq-timer-0/;
  await until('it is logged', () => next.log('notice').some(({ message }) => ended.test(String(message))));
  expect(await next.stop()).toBe(0);
});

it('kill -9 of the master in a stop: a server that reads its last message late drains all the same', async () => {
  const daemon = await startDaemon({ args: ['--servers', '2'] });
  const [late, other] = [daemon.pidOf('dq-server-0'), daemon.pidOf('dq-server-1')];
  process.kill(late, 'SIGSTOP');
  process.kill(daemon.pid, 'SIGTERM');
  // The master sends both their drain at once.
  await until('the other server has ended', () => !isAlive(other));
  process.kill(daemon.pid, 'SIGKILL');
  await until('the master has ended', () => !isAlive(daemon.pid));
  process.kill(late, 'SIGCONT');
  await until('the late server has ended', () => !isAlive(late));
  expect(daemon.log('error').filter(({ message }) => message === 'crashed')).toEqual([]);
});

it('since when a topic fails, and how often, survives kill -9 of its notifier, a reload and a restart', async () => {
  const args = ['--notifiers', '1'];
  const daemon = await startDaemon({ args });
  await addTopic(daemon, 't', 'http://127.0.0.1:9/');
  for (const id of ['a', 'b', 'c']) await daemon.push('t', '{}', { id });
  const callsOf = async (of: Daemon) =>
    (await of.api('GET', '/v1/topics/t/capacity')).body.attention?.calls ?? {};
  const rowOf = async (of: Daemon) => {
    const { failuresInRow, since } = await callsOf(of);
    return { failuresInRow, since };
  };
  const row = await until('all attempts failed', async () => {
    const found = await rowOf(daemon);
    return found.failuresInRow === 3 && found;
  });
  const file = join(daemon.dataDir, 'failing.json');
  await until('the row is kept', () => existsSync(file) && readFileSync(file, 'utf8').includes('Row":3'));
  const dead = daemon.pidOf('dq-notifier-0');
  process.kill(dead, 'SIGKILL');
  await until('its successor is ready', async () =>
    (await processesOf(daemon)).some(
      ({ title, pid, state }) => title === 'dq-notifier-0' && pid !== dead && state === 'ready',
    ),
  );
  expect(await rowOf(daemon)).toEqual(row);
  expect((await reload(daemon)).code).toBe(0);
  expect(await rowOf(daemon)).toEqual(row);
  expect(await daemon.stop()).toBe(0);
  const next = await startDaemon({ args, directory: daemon.directory });
  expect(await rowOf(next)).toEqual(row);
});
