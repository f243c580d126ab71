// Tests kill -9 of single workers and of the master.
import { describe, expect, it } from 'vitest';
import { calling } from '../support/calling.ts';
import type { Daemon } from '../support/daemon.ts';
import { isAlive, startDaemon } from '../support/daemon.ts';
import { runDq } from '../support/run-dq.ts';
import { openSocketsTo } from '../support/sockets.ts';
import { until } from '../support/until.ts';

interface Listed {
  readonly title: string;
  readonly pid: number;
  readonly state: string;
  readonly restarts: number;
}

/** The master's processes. */
async function processesOf(daemon: Daemon): Promise<Listed[]> {
  const { stdout } = await runDq(['status', '--json', '--data-dir', daemon.dataDir], {
    cwd: daemon.directory,
  });
  return (JSON.parse(stdout) as { processes: Listed[] }).processes;
}

describe('kill -9 of a worker', async () => {
  const daemon = await startDaemon({ args: ['--port', '0', '--servers', '2'], scope: 'file' });

  it('each role restarts while the others continue', async () => {
    for (const title of ['dq-store', 'dq-server-0', 'dq-timer-0', 'dq-notifier-1', 'dq-upkeep']) {
      const others = () =>
        daemon
          .workers()
          .filter((one) => one.title !== title)
          .map((one) => one.pid)
          .sort();
      const before = others();
      process.kill(daemon.pidOf(title), 'SIGKILL');
      await until(`${title} is replaced and everything is ready`, async () => {
        const processes = await processesOf(daemon);
        return (
          processes.find((one) => one.title === title)?.restarts === 1 &&
          processes.every((one) => one.state === 'ready')
        );
      });
      expect(others()).toEqual(before);
      await until(
        'it is served',
        async () => (await daemon.api('GET', '/readyz').catch(() => null))?.status === 200,
      );
    }
  });

  it('of all servers before one of them has its successor: the port that the system chose stays', async () => {
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

  it('of a notifier during a callback: another one gets its job before the lease expires', async () => {
    const sink = await calling(daemon);
    const [first] = sink.arrivals;
    const caller = daemon.workers().find((worker) => openSocketsTo(worker.pid, sink.port));
    process.kill(caller?.pid as number, 'SIGKILL');
    sink.answer((arrival) => sink.finish(arrival));
    await until('it was called again', () => sink.arrivals.length === 2);
    expect(sink.arrivals[1]).toMatchObject({ id: 'a', attempt: 1, webhookId: first?.webhookId });
  });
});

describe('kill -9 of the master', () => {
  it('its workers exit; a new start uses its port at once and ends stopped ones', async () => {
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
});
