// Tests the log files of a real daemon during rotation under load, at its end, and in a crash.
import { spawnSync } from 'node:child_process';
import { chmodSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { type Daemon, openFilesOf, startDaemon } from '../support/daemon.ts';
import { misbehaving } from '../support/misbehaving.ts';
import { addTopic } from '../support/producing.ts';
import { startSink } from '../support/sink.ts';
import { until } from '../support/until.ts';

const root = join(import.meta.dirname, '../..');
const noLogrotate = spawnSync('logrotate', ['--version']).status !== 0;

/** As an administrator: renames each file, then sends the signal. */
function renameAll(daemon: Daemon, round: number): void {
  for (const name of readdirSync(daemon.logDir).filter((one) => one.endsWith('.log')))
    renameSync(join(daemon.logDir, name), join(daemon.logDir, `${name}.round-${round}`));
  daemon.child.kill('SIGUSR1');
}

/** The example file with this daemon's paths, without compression, because the test reads the lines. */
function logrotate(daemon: Daemon): void {
  const text = readFileSync(join(root, 'scripts/logrotate/dq'), 'utf8')
    .replaceAll('/var/log/dq', daemon.logDir)
    .replaceAll('/run/dq/dq.pid', join(daemon.directory, 'dq.pid'))
    .replace(/^ +(delay)?compress\n/gm, '');
  const path = join(daemon.directory, 'logrotate.conf');
  writeFileSync(path, text);
  chmodSync(path, 0o644);
  const run = spawnSync('logrotate', ['-f', '-s', join(daemon.directory, 'logrotate.state'), path], {
    encoding: 'utf8',
  });
  expect({ status: run.status, stderr: run.stderr }).toEqual({ status: 0, stderr: '' });
}

/** The lines of all files of a kind, also rotated ones; fails for an incomplete line. */
function linesOf(daemon: Daemon, kind: string): Record<string, unknown>[] {
  return readdirSync(daemon.logDir)
    .filter((name) => name.startsWith(`${kind}-`))
    .flatMap((name) => {
      const text = readFileSync(join(daemon.logDir, name), 'utf8');
      expect(text === '' || text.endsWith('\n'), name).toBe(true);
      return text.split('\n').slice(0, -1);
    })
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}

/** Rotated files that a process of the daemon still has open. */
const oldFilesOpen = (daemon: Daemon) =>
  [daemon.pid, ...daemon.workers().map(({ pid }) => pid)]
    .flatMap(openFilesOf)
    .filter((path) => path.startsWith(daemon.logDir) && !path.endsWith('.log')).length;

const idsOf = (lines: readonly Record<string, unknown>[]) =>
  lines.map(({ id }) => Number(id)).sort((a, b) => a - b);

it('logs: rotated under load, by USR1 and by logrotate, lose and cut no line, and keep the last ones of a stop', async () => {
  const daemon = await startDaemon({ args: ['--servers', '2', '--pid-file', 'dq.pid'] });
  const sink = await startSink();
  await addTopic(daemon, 't', sink.url);
  let pushed = 0;
  let enough = false;
  const producers = Array.from({ length: 8 }, async () => {
    while (!enough) {
      const reply = await daemon.push('t', '1', { id: ++pushed });
      expect(reply.status).toBe(201);
    }
  });
  const more = () => {
    const goal = pushed + 50;
    return until('more jobs are pushed', () => pushed >= goal);
  };
  for (let round = 1; round <= 4; round += 1) {
    await more();
    if (round % 2 === 0 && !noLogrotate) logrotate(daemon);
    else renameAll(daemon, round);
    // Otherwise the next round might begin before every process has reopened its files.
    await until('no old file is open', () => oldFilesOpen(daemon) === 0);
  }
  await more();
  enough = true;
  await Promise.all(producers);
  await until('all were called', () => sink.arrivals.length >= pushed);
  expect(await daemon.stop()).toBe(0);
  const all = Array.from({ length: pushed }, (_, n) => n + 1);
  expect(
    idsOf(linesOf(daemon, 'request').filter(({ id, method }) => id !== undefined && method === 'POST')),
  ).toEqual(all);
  expect(idsOf(linesOf(daemon, 'notify').filter(({ outcome }) => outcome === 'delivered'))).toEqual(all);
  // Every rotation made its own files; otherwise the test proves nothing.
  const files = readdirSync(daemon.logDir).filter((name) => name.startsWith('notify-notifier-0'));
  expect(files.length).toBeGreaterThan(2);
  expect(linesOf(daemon, 'notice').filter(({ message }) => message === 'ended')).toHaveLength(1);
  const lost = ({ message }: Record<string, unknown>) => message === 'log: lines were lost';
  expect(linesOf(daemon, 'notice').filter(lost)).toEqual([]);
});

describe('a crash', () => {
  it('leaves its reason in the error logs of the worker and the master', async () => {
    const daemon = await startDaemon(misbehaving());
    process.kill(daemon.pidOf('dq-timer-0'), 'SIGWINCH');
    process.kill(daemon.pidOf('dq-server-0'), 'SIGURG');
    const reasons = ['broken by the test: a deeper reason', 'left alone by the test'] as const;
    const wanted = [
      {
        process: 'dq-timer-0',
        message: 'crashed',
        reason: reasons[0],
        stack: expect.stringContaining('misbehaving.mjs'),
      },
      { process: 'dq-server-0', reason: reasons[1] },
      ...reasons.map((reason) => ({ process: 'dq-master', message: expect.stringContaining(reason) })),
    ];
    await until('all reasons are logged', () => {
      const errors = linesOf(daemon, 'error');
      for (const line of wanted) expect(errors).toContainEqual(expect.objectContaining(line));
      return true;
    });

    daemon.child.kill('SIGWINCH');
    await until('it has ended', () => daemon.child.exitCode !== null);
    expect(daemon.child.exitCode).not.toBe(0);
    expect(linesOf(daemon, 'error')).toContainEqual(
      expect.objectContaining({
        process: 'dq-master',
        pid: daemon.pid,
        message: 'crashed',
        reason: 'broken by the test: a deeper reason',
      }),
    );
  });
});
