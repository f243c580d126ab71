// Tests running work during a stop of the daemon.
import { readdirSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { calling } from '../support/calling.ts';
import type { Daemon } from '../support/daemon.ts';
import { isAlive, openFilesOf, startDaemon } from '../support/daemon.ts';
import { runDq } from '../support/run-dq.ts';
import { until } from '../support/until.ts';

const ended = (daemon: Daemon) => until('the daemon has ended', () => daemon.child.exitCode !== null);
const stateOf = async (daemon: Daemon) =>
  (await daemon.api('GET', '/v1/topics/t/jobs/a')).body.state as string | undefined;

describe('a stop', () => {
  it('stop: lets a running callback finish; its outcome counts', async () => {
    const { sink, daemon } = await calling();
    daemon.child.kill('SIGTERM');
    // Idle processes have ended; those needed to the end still run: the store, upkeep, and the one notifier
    // with a call.
    const leftOver = /^dq-notifier-\d \(draining\) dq-store dq-upkeep$/;
    await until('only the needed processes are left', () =>
      leftOver.test(
        daemon
          .workers()
          .map((worker) => worker.title)
          .sort()
          .join(' '),
      ),
    );
    sink.finish(sink.open()[0]);
    await ended(daemon);
    expect(daemon.child.exitCode).toBe(0);
    expect(sink.arrivals.map((arrival) => arrival.broken)).toEqual([false]);

    const next = await startDaemon({ directory: daemon.directory });
    expect((await next.api('GET', '/v1/topics/t/jobs/a')).body.state).toBe('done');
  });

  it('stop: cuts a callback at shutdownTimeout; the job keeps its attempt', async () => {
    const { sink, daemon } = await calling({ shutdownTimeout: '200ms' });
    daemon.child.kill('SIGTERM');
    await ended(daemon);
    expect(daemon.child.exitCode).toBe(0);
    sink.answer((arrival) => sink.finish(arrival));
    const next = await startDaemon({ directory: daemon.directory });
    await until('it is called again', () => sink.arrivals.length === 2);
    expect(sink.arrivals.map((arrival) => arrival.attempt)).toEqual([1, 1]);
    expect(sink.arrivals[1]?.webhookId).toBe(sink.arrivals[0]?.webhookId);
    await until('it is done', async () => (await stateOf(next)) === 'done');
  });

  it.each([
    ['a second SIGTERM', (daemon: Daemon) => daemon.child.kill('SIGTERM')],
    ['a SIGINT after it', (daemon: Daemon) => daemon.child.kill('SIGINT')],
  ])('is over at once with %s, and loses nothing', async (_name, again) => {
    const { sink, daemon } = await calling({ shutdownTimeout: '10m' });
    const pids = daemon.workers().map((worker) => worker.pid);
    daemon.child.kill('SIGTERM');
    await until('it drains', () => daemon.workers().some((worker) => worker.title.includes('(draining)')));
    again(daemon);
    // The callback hangs, and the stop would wait for shutdownTimeout.
    await ended(daemon);
    expect(daemon.child.exitCode).toBe(0);
    expect(pids.filter(isAlive)).toEqual([]);
    sink.answer((arrival) => sink.finish(arrival));
    const next = await startDaemon({ directory: daemon.directory });
    // Recovered by the list of living notifiers: its lease lasts more than a minute.
    await until('it is called again', () => sink.arrivals.length === 2);
    await until('it is done', async () => (await stateOf(next)) === 'done');
  });

  it('dq stop --timeout: waits for the end', async () => {
    const { daemon } = await calling();
    const at = ['--data-dir', daemon.dataDir];
    const stopped = await runDq(['stop', '--timeout', '100ms', ...at], { cwd: daemon.directory });
    expect(stopped).toMatchObject({ code: 0, stdout: '', stderr: 'dq: stopped\n' });
    // The next daemon can start at once.
    const next = await startDaemon({ directory: daemon.directory });
    expect(await stateOf(next)).not.toBe('dead');
  });
});

describe('SIGUSR1 to the master', () => {
  it('SIGUSR1: every process closes its log files at once and opens new ones', async () => {
    const { daemon, sink } = await calling();
    await until('the push is logged', () => daemon.log('request').length === 1);
    for (const name of readdirSync(daemon.logDir))
      renameSync(join(daemon.logDir, name), join(daemon.logDir, `${name}.1`));
    const pids = [daemon.pid, ...daemon.workers().map((worker) => worker.pid)];
    const rotated = () => pids.flatMap(openFilesOf).filter((path) => path.endsWith('.log.1'));
    expect(rotated().length).toBeGreaterThan(1);
    daemon.child.kill('SIGUSR1');
    // No process writes a line now, so none reopens by itself.
    await until('no process has an old file open', () => rotated().length === 0);
    sink.finish(sink.open()[0]);
    await until('the attempt is logged in a new file', () =>
      readdirSync(daemon.logDir).some((name) => name.startsWith('notify-') && name.endsWith('.log')),
    );
  });
});
