import { describe, expect, it } from 'vitest';
import { isAlive, startDaemon } from '../support/daemon.ts';
import { runDq } from '../support/run-dq.ts';
import { until } from '../support/until.ts';

describe('kill -9 of a worker', () => {
  it.each(['dq-store', 'dq-server-0', 'dq-timer-0', 'dq-notifier-1', 'dq-upkeep'])(
    '%s is started again, the others live on',
    async (title) => {
      const daemon = await startDaemon();
      const before = daemon.workers();
      const killed = daemon.pidOf(title);
      process.kill(killed, 'SIGKILL');
      await until('it is back and everything is ready', async () => {
        const status = await runDq(['status', '--json', '--data-dir', daemon.dataDir], {
          cwd: daemon.directory,
        });
        const { processes } = JSON.parse(status.stdout) as {
          processes: { title: string; pid: number; state: string; restarts: number }[];
        };
        const back = processes.find((one) => one.title === title);
        return (
          back !== undefined &&
          back.pid !== killed &&
          back.restarts === 1 &&
          processes.every((one) => one.state === 'ready')
        );
      });
      const others = (workers: typeof before) =>
        workers.filter((one) => one.title !== title).sort((a, b) => a.pid - b.pid);
      expect(others(daemon.workers())).toEqual(others(before));
      await until(
        'it is served',
        async () => (await daemon.api('GET', '/readyz').catch(() => null))?.status === 200,
      );
    },
  );

  it('again and again, with none of its role alive: the daemon gives up with exit 70 and the reason', {
    timeout: 90_000,
  }, async () => {
    const daemon = await startDaemon();
    const killed = new Set<number>();
    await until(
      'the daemon has given up',
      () => {
        const worker = daemon
          .workers()
          .find((one) => one.title.startsWith('dq-upkeep') && !killed.has(one.pid));
        if (worker !== undefined && daemon.child.exitCode === null) {
          process.kill(worker.pid, 'SIGKILL');
          killed.add(worker.pid);
        }
        return daemon.child.exitCode !== null;
      },
      80_000,
    );
    expect(daemon.child.exitCode).toBe(70);
    expect(daemon.output()).toMatch(
      /^dq: dq-upkeep died 10 times within 60 s; the last time: dq-upkeep \(pid \d+\) was ended by SIGKILL$/m,
    );
    expect(daemon.workers()).toEqual([]);
  });
});

describe('kill -9 of the master', () => {
  it('its workers end by themselves', async () => {
    const daemon = await startDaemon();
    const workers = daemon.workers().map((worker) => worker.pid);
    process.kill(daemon.pid, 'SIGKILL');
    await until('no worker is left', () => !workers.some(isAlive), 15_000);
  });

  it('a new start takes over at once, and ends a worker that was stopped', async () => {
    const daemon = await startDaemon();
    const workers = daemon.workers().map((worker) => worker.pid);
    const stopped = [daemon.pidOf('dq-store'), daemon.pidOf('dq-notifier-0')];
    for (const pid of stopped) process.kill(pid, 'SIGSTOP');
    process.kill(daemon.pid, 'SIGKILL');
    await until('the master is gone', () => !isAlive(daemon.pid));
    const next = await startDaemon({ directory: daemon.directory });
    expect(workers.filter(isAlive)).toEqual([]);
    expect((await next.api('GET', '/readyz')).status).toBe(200);
    expect(await next.stop()).toBe(0);
  });
});
