import { readFileSync } from 'node:fs';
import { describe, expect, it, vi } from 'vitest';
import { calling } from '../support/calling.ts';
import type { Daemon } from '../support/daemon.ts';
import { isAlive, openFilesOf, startDaemon } from '../support/daemon.ts';
import { runDq } from '../support/run-dq.ts';
import { until } from '../support/until.ts';

// Several starts in one test, on a machine that does other things too.
vi.setConfig({ testTimeout: 60_000 });

/** A TCP connection of this process to that port of this machine. */
function openSocketsTo(pid: number, port: number): boolean {
  const hex = port.toString(16).toUpperCase().padStart(4, '0');
  const files = new Set(openFilesOf(pid));
  return readFileSync('/proc/net/tcp', 'utf8')
    .split('\n')
    .some((line) => {
      const [, , remote, , , , , , , inode] = line.trim().split(/\s+/);
      return remote?.endsWith(`:${hex}`) === true && files.has(`socket:[${inode}]`);
    });
}

interface Listed {
  readonly title: string;
  readonly pid: number;
  readonly state: string;
  readonly restarts: number;
}

/** As the master sees them. */
async function processesOf(daemon: Daemon): Promise<Listed[]> {
  const { stdout } = await runDq(['status', '--json', '--data-dir', daemon.dataDir], {
    cwd: daemon.directory,
  });
  return (JSON.parse(stdout) as { processes: Listed[] }).processes;
}

describe('kill -9 of a worker', () => {
  it('each role is started again while the others live on', async () => {
    const daemon = await startDaemon();
    for (const title of ['dq-store', 'dq-server-0', 'dq-timer-0', 'dq-notifier-1', 'dq-upkeep']) {
      const others = () =>
        daemon
          .workers()
          .filter((one) => one.title !== title)
          .map((one) => one.pid)
          .sort();
      const before = others();
      process.kill(daemon.pidOf(title), 'SIGKILL');
      await until(`${title} is back and everything is ready`, async () => {
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

describe('kill -9 of a notifier in the middle of a callback', () => {
  it('gives its job to another at once, not when its lease ends', async () => {
    const { daemon, sink } = await calling();
    const [first] = sink.arrivals;
    const caller = daemon.workers().find((worker) => openSocketsTo(worker.pid, sink.port));
    process.kill(caller?.pid as number, 'SIGKILL');
    sink.answer((arrival) => sink.finish(arrival));
    await until('it was called again', () => sink.arrivals.length === 2, 20_000);
    expect(sink.arrivals[1]).toMatchObject({ id: 'a', attempt: 1, webhookId: first?.webhookId });
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
