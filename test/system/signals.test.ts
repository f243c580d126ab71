import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { Daemon } from '../support/daemon.ts';
import { isAlive, startDaemon } from '../support/daemon.ts';
import { until } from '../support/until.ts';

const pidsOf = (daemon: Daemon) => [daemon.pid, ...daemon.workers().map((worker) => worker.pid)];

/** Signals that are still waiting to be delivered to a process. */
const pending = (pid: number) =>
  [.../^(?:SigPnd|ShdPnd):\s+(\w+)/gm[Symbol.matchAll](readFileSync(`/proc/${pid}/status`, 'utf8'))].some(
    ([, mask]) => BigInt(`0x${mask}`) !== 0n,
  );

/** TCP ports that these processes listen on. */
function portsOf(pids: readonly number[]): number[] {
  const sockets = new Set(
    pids.flatMap((pid) => readdirSync(`/proc/${pid}/fd`).map((fd) => targetOf(`/proc/${pid}/fd/${fd}`))),
  );
  const lines = readFileSync('/proc/net/tcp', 'utf8').split('\n').slice(1);
  return lines.flatMap((line) => {
    const [, local, , state, , , , , , inode] = line.trim().split(/\s+/);
    if (state !== '0A' || !sockets.has(`socket:[${inode}]`)) return [];
    return [Number.parseInt(local?.split(':')[1] ?? '', 16)];
  });
}

function targetOf(link: string): string {
  try {
    return readlinkSync(link);
  } catch {
    return ''; // closed between the listing and the reading
  }
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

describe('signals that mean nothing to a worker', () => {
  it.each(['SIGUSR1', 'SIGUSR2', 'SIGHUP', 'SIGINT', 'SIGQUIT', 'SIGPIPE'] as const)(
    '%s to every process: all live on, none opens a debugger',
    async (signal) => {
      const daemon = await startDaemon();
      const workers = daemon.workers();
      const toMaster = signal === 'SIGINT' || signal === 'SIGQUIT' ? [] : [daemon.pid];
      const pids = [...toMaster, ...workers.map((worker) => worker.pid)];
      for (const pid of pids) process.kill(pid, signal);
      await until('all have taken it', () => !pids.some(pending));
      expect((await daemon.api('GET', '/livez')).status).toBe(200);
      expect(daemon.workers()).toEqual(workers);
      expect(daemon.output()).not.toMatch(/debugger/i);
      expect(portsOf(pidsOf(daemon))).toEqual([Number(new URL(daemon.url).port)]);
    },
  );

  it.each(['SIGUSR1', 'SIGUSR2', 'SIGHUP', 'SIGPIPE'] as const)(
    '%s to the process group: all live on',
    async (signal) => {
      const daemon = await startDaemon({ group: true });
      const workers = daemon.workers();
      process.kill(-daemon.pid, signal);
      await until('all have taken it', () => !pidsOf(daemon).some(pending));
      expect((await daemon.api('GET', '/livez')).status).toBe(200);
      expect(daemon.workers()).toEqual(workers);
    },
  );

  it('SIGTERM to the process group stops as SIGTERM to the master does', async () => {
    const daemon = await startDaemon({ group: true });
    const pids = pidsOf(daemon);
    process.kill(-daemon.pid, 'SIGTERM');
    await until('the master has ended', () => daemon.child.exitCode !== null);
    expect(daemon.child.exitCode).toBe(0);
    expect(pids.filter(isAlive)).toEqual([]);
  });

  it('SIGTERM to dq-store alone does nothing: it is the last to leave', async () => {
    const daemon = await startDaemon();
    const store = daemon.pidOf('dq-store');
    process.kill(store, 'SIGTERM');
    await until('it has taken it', () => !pending(store));
    expect((await daemon.api('GET', '/readyz')).status).toBe(200);
    expect(daemon.pidOf('dq-store')).toBe(store);
  });

  it('SIGTERM to another worker alone: it drains and is started again', async () => {
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
