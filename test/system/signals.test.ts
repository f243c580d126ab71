// Tests every usual signal, to each process and to the process group, in operation and during the start.
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { Daemon } from '../support/daemon.ts';
import { childrenOf, isAlive, launcher, startDaemon } from '../support/daemon.ts';
import { portsOf } from '../support/sockets.ts';
import { until } from '../support/until.ts';

const pidsOf = (daemon: Daemon) => [daemon.pid, ...daemon.workers().map((worker) => worker.pid)];
const portOf = (daemon: Daemon) => Number(new URL(daemon.url).port);

/** Signals that a process has not received yet. */
const pending = (pid: number) =>
  [.../^(?:SigPnd|ShdPnd):\s+(\w+)/gm[Symbol.matchAll](readFileSync(`/proc/${pid}/status`, 'utf8'))].some(
    ([, mask]) => BigInt(`0x${mask}`) !== 0n,
  );

/** The API answers, every place is filled, and no debugger listens. */
async function works(daemon: Daemon, titles: readonly string[], what: string): Promise<void> {
  await until(`${what}: all have received it`, () => !pidsOf(daemon).some(pending));
  await until(`${what}: it answers`, async () => (await daemon.api('GET', '/readyz')).status === 200);
  await until(`${what}: every place is filled`, () => {
    const now = daemon.workers().map((worker) => worker.title);
    return titles.every((title) => now.includes(title));
  });
  expect(isAlive(daemon.pid), what).toBe(true);
  expect(daemon.output(), what).not.toMatch(/debugger/i);
  expect(new Set(portsOf(pidsOf(daemon))), what).toEqual(new Set([portOf(daemon)]));
}

const stopping = ['SIGTERM', 'SIGINT', 'SIGQUIT'] as const;
/** A reload may replace every worker. */
const reloading = ['SIGHUP', 'SIGUSR2'] as const;
const harmless = ['SIGUSR1', 'SIGPIPE'] as const;

// One to the master alone is how other tests stop a daemon.
it.each(stopping)(
  '%s to the process group stops everything, exit 0, and leaves no record',
  async (signal) => {
    const daemon = await startDaemon({ group: true });
    const pids = pidsOf(daemon);
    process.kill(-daemon.pid, signal);
    await until('the master has ended', () => daemon.child.exitCode !== null || daemon.child.signalCode);
    expect([daemon.child.exitCode, daemon.child.signalCode]).toEqual([0, null]);
    expect(pids.filter(isAlive)).toEqual([]);
    const records = ['dq.json', 'master.json', 'control.sock'].map((name) =>
      join(daemon.dataDir, 'run', name),
    );
    expect(records.filter((path) => existsSync(path))).toEqual([]);
    expect(daemon.log('error')).toEqual([]);
  },
);

describe('one daemon, in this order', { timeout: 300_000 }, async () => {
  // Each test leaves a whole daemon behind. The last ones write errors.
  const daemon = await startDaemon({ group: true, scope: 'file' });
  const titles = daemon.workers().map(({ title }) => title);

  it('signals to a single process: the same processes continue', async () => {
    const workers = daemon.workers();
    const cases: readonly (readonly [string, number, NodeJS.Signals])[] = [
      ...harmless.map((signal) => ['dq-master', daemon.pid, signal] as const),
      ...workers.flatMap(({ title, pid }) =>
        ([...harmless, ...reloading, 'SIGINT', 'SIGQUIT'] as const).map(
          (signal) => [title, pid, signal] as const,
        ),
      ),
    ];
    expect(cases.length).toBe(2 + 6 * 6);
    for (const [title, pid, signal] of cases) {
      process.kill(pid, signal);
      await works(daemon, titles, `${signal} to ${title}`);
      expect(daemon.workers(), `${signal} to ${title}`).toEqual(workers);
    }
    expect(daemon.log('error')).toEqual([]);
  });

  it('signals to the process group: the same processes continue', async () => {
    const workers = daemon.workers();
    for (const signal of harmless) {
      process.kill(-daemon.pid, signal);
      await works(daemon, titles, `${signal} to all`);
      expect(daemon.workers(), signal).toEqual(workers);
    }
  });

  it('SIGTERM to dq-store does nothing: it drains last', async () => {
    const store = daemon.pidOf('dq-store');
    process.kill(store, 'SIGTERM');
    await works(daemon, titles, 'TERM to dq-store');
    expect(daemon.pidOf('dq-store')).toBe(store);
  });

  it('SIGTERM drains any other worker, and the master starts another', async () => {
    const others = daemon.workers().filter(({ title }) => title !== 'dq-store');
    for (const { pid } of others) process.kill(pid, 'SIGTERM');
    await until('each is restarted', () =>
      others.every(({ title, pid }) =>
        daemon.workers().some((now) => now.title === title && now.pid !== pid),
      ),
    );
    await works(daemon, titles, 'TERM to all but dq-store');
    // It ended without a signal.
    for (const { title, pid } of others)
      await until(`the log names ${title}`, () =>
        daemon
          .log('notice')
          .some(({ message }) => message === `${title} (pid ${pid}) drained after a signal of its own`),
      );
    expect(daemon.log('error')).toEqual([]);
  });

  it.each(reloading)(
    '%s to the master, and to the process group: the daemon continues with all workers',
    async (signal) => {
      for (const target of [daemon.pid, -daemon.pid]) {
        process.kill(target, signal);
        await works(daemon, titles, `${signal} to ${target > 0 ? 'the master' : 'all'}`);
      }
    },
  );

  it('closed stdout and stderr end no process', async () => {
    // A reload of the test before may still run.
    await until('one worker of each place is left', () => daemon.workers().length === titles.length);
    daemon.child.stdout?.destroy();
    daemon.child.stderr?.destroy();
    const timer = daemon.pidOf('dq-timer-0');
    // The master writes a line about a dead worker.
    process.kill(timer, 'SIGKILL');
    await until(
      'the timer is restarted',
      () => daemon.workers().length === titles.length && daemon.pidOf('dq-timer-0') !== timer,
    );
    expect((await daemon.api('GET', '/livez')).status).toBe(200);
    expect(isAlive(daemon.pid)).toBe(true);
  });
});

describe('signals to the process group during the start', { timeout: 400_000 }, () => {
  /** Starts a daemon in its own group; resolves when the master holds the data directory and no worker is
   *  ready. */
  async function begin(): Promise<{ child: ChildProcess; directory: string; pid: number }> {
    const directory = mkdtempSync(join(tmpdir(), 'dq-begin-'));
    const places = ['--data-dir', join(directory, 'data'), '--log-dir', join(directory, 'logs')];
    const child = spawn(process.execPath, [launcher, 'start', '--port', '0', ...places], {
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    });
    const pid = child.pid as number;
    onTestFinished(async () => {
      const pids = [pid, ...childrenOf(pid).map((worker) => worker.pid)].filter(isAlive);
      for (const one of pids) process.kill(one, 'SIGKILL');
      await until('all are gone', () => !pids.some(isAlive));
      rmSync(directory, { recursive: true, force: true });
    });
    await until('the first worker is forked', () => childrenOf(pid).length > 0, { everyMs: 1 });
    return { child, directory, pid };
  }

  it.each(['SIGHUP', 'SIGUSR1', 'SIGUSR2'] as const)(
    '%s repeatedly: the daemon starts, without a debugger',
    async (signal) => {
      const { child, directory, pid } = await begin();
      const record = join(directory, 'data/run/dq.json');
      let sent = 0;
      // Less often than a worker needs for its first line; otherwise no worker would get there.
      await until(
        'twenty were sent',
        () => {
          if (child.exitCode === null) process.kill(-pid, signal);
          sent += 1;
          return sent === 20;
        },
        { everyMs: 90 },
      );
      const ended = () => child.exitCode !== null || child.signalCode !== null;
      await until('it is ready, or has ended', () => existsSync(record) || ended());
      expect([child.exitCode, child.signalCode]).toEqual([null, null]);
      const dq = JSON.parse(readFileSync(record, 'utf8')) as { url: string; console: string };
      expect((await fetch(`${dq.url}/readyz`)).status).toBe(200);
      const ports = [dq.url, dq.console].map((url) => new URL(url).port).sort();
      // dq closes a debugger that Node opens late `debuggerCloseMs` after the process is ready.
      await until('only dq listens', () => {
        const pids = [pid, ...childrenOf(pid).map((worker) => worker.pid)];
        const listening = [...new Set(portsOf(pids))].map(String).sort();
        if (listening.join() !== ports.join()) throw new Error(`ports ${listening}, not ${ports}`);
        return true;
      });
    },
  );

  it.each(stopping)('%s: the daemon ends, exit 0, no process is left', async (signal) => {
    const { child, pid } = await begin();
    process.kill(-pid, signal);
    await until('the master has ended', () => child.exitCode !== null || child.signalCode !== null);
    expect([child.exitCode, child.signalCode]).toEqual([0, null]);
    expect(childrenOf(pid)).toEqual([]);
  });
});
