import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import type { Daemon } from '../support/daemon.ts';
import { isAlive, openFilesOf, startDaemon } from '../support/daemon.ts';
import { until } from '../support/until.ts';

// Several starts in one test, on a machine that does other things too.
vi.setConfig({ testTimeout: 60_000 });

const pidsOf = (daemon: Daemon) => [daemon.pid, ...daemon.workers().map((worker) => worker.pid)];

/** Signals that are still waiting to be delivered to a process. */
const pending = (pid: number) =>
  [.../^(?:SigPnd|ShdPnd):\s+(\w+)/gm[Symbol.matchAll](readFileSync(`/proc/${pid}/status`, 'utf8'))].some(
    ([, mask]) => BigInt(`0x${mask}`) !== 0n,
  );

/** TCP ports that these processes listen on. */
function portsOf(pids: readonly number[]): number[] {
  const sockets = new Set(pids.flatMap(openFilesOf));
  const lines = readFileSync('/proc/net/tcp', 'utf8').split('\n').slice(1);
  return lines.flatMap((line) => {
    const [, local, , state, , , , , , inode] = line.trim().split(/\s+/);
    if (state !== '0A' || !sockets.has(`socket:[${inode}]`)) return [];
    return [Number.parseInt(local?.split(':')[1] ?? '', 16)];
  });
}

describe.each(['SIGTERM', 'SIGINT', 'SIGQUIT'] as const)('%s to the master', (signal) => {
  it('stops everything, exit 0, and leaves no record', async () => {
    const daemon = await startDaemon();
    const pids = pidsOf(daemon);
    daemon.child.kill(signal);
    await until('the master has ended', () => daemon.child.exitCode !== null);
    expect(daemon.child.exitCode).toBe(0);
    expect(pids.filter(isAlive)).toEqual([]);
    expect(
      ['dq.json', 'master.json', 'control.sock'].filter((name) =>
        existsSync(join(daemon.dataDir, 'run', name)),
      ),
    ).toEqual([]);
  });
});

/** Whatever was sent: the same processes live, the API answers, and no debugger listens. */
async function unharmed(daemon: Daemon, workers: ReturnType<Daemon['workers']>): Promise<void> {
  await until('all have taken it', () => !pidsOf(daemon).some(pending));
  expect((await daemon.api('GET', '/readyz')).status).toBe(200);
  expect(daemon.workers()).toEqual(workers);
  expect(daemon.output()).not.toMatch(/debugger/i);
  expect(portsOf(pidsOf(daemon))).toEqual([Number(new URL(daemon.url).port)]);
}

describe('signals that end nobody', () => {
  it('USR1, USR2, HUP and PIPE to every process, INT and QUIT to every worker', async () => {
    const daemon = await startDaemon();
    const workers = daemon.workers();
    const pids = workers.map((worker) => worker.pid);
    for (const signal of ['SIGUSR1', 'SIGUSR2', 'SIGHUP', 'SIGPIPE'] as const) {
      for (const pid of [daemon.pid, ...pids]) process.kill(pid, signal);
      await unharmed(daemon, workers);
    }
    for (const signal of ['SIGINT', 'SIGQUIT'] as const) {
      for (const pid of pids) process.kill(pid, signal);
      await unharmed(daemon, workers);
    }
  });

  it('USR1, USR2, HUP and PIPE to the whole process group', async () => {
    const daemon = await startDaemon({ group: true });
    const workers = daemon.workers();
    for (const signal of ['SIGUSR1', 'SIGUSR2', 'SIGHUP', 'SIGPIPE'] as const) {
      process.kill(-daemon.pid, signal);
      await unharmed(daemon, workers);
    }
  });
});

describe('SIGTERM beside the master', () => {
  it('to the process group stops as one to the master does', async () => {
    const daemon = await startDaemon({ group: true });
    const pids = pidsOf(daemon);
    process.kill(-daemon.pid, 'SIGTERM');
    await until('the master has ended', () => daemon.child.exitCode !== null);
    expect(daemon.child.exitCode).toBe(0);
    expect(pids.filter(isAlive)).toEqual([]);
  });

  it('to dq-store alone does nothing: it is the last to leave', async () => {
    const daemon = await startDaemon();
    const store = daemon.pidOf('dq-store');
    process.kill(store, 'SIGTERM');
    await until('it has taken it', () => !pending(store));
    expect((await daemon.api('GET', '/readyz')).status).toBe(200);
    expect(daemon.pidOf('dq-store')).toBe(store);
  });

  it('to another worker alone: it drains and is started again', async () => {
    const daemon = await startDaemon();
    const before = daemon.pidOf('dq-timer-0');
    process.kill(before, 'SIGTERM');
    await until('another has its place', () => daemon.pidOf('dq-timer-0') !== before);
  });
});

describe('a terminal that goes away', () => {
  it('closed stdout and stderr kill nobody', async () => {
    const daemon = await startDaemon();
    const workers = daemon.workers();
    daemon.child.stdout?.destroy();
    daemon.child.stderr?.destroy();
    // A dead worker makes the master say so, whoever listens.
    process.kill(daemon.pidOf('dq-timer-0'), 'SIGKILL');
    await until(
      'the timer is back',
      () =>
        daemon.workers().length === workers.length &&
        daemon.pidOf('dq-timer-0') !== workers.find((one) => one.title === 'dq-timer-0')?.pid,
    );
    expect((await daemon.api('GET', '/livez')).status).toBe(200);
    expect(isAlive(daemon.pid)).toBe(true);
  });
});
