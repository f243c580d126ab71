// Tests dq status, also with --watch on a terminal.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { runDirOf, writeMasterRecord } from '../../src/master/data/run-record.ts';
import { launcher, startDaemon } from '../support/daemon.ts';
import { runDq } from '../support/run-dq.ts';
import { until } from '../support/until.ts';

interface Status {
  readonly processes: readonly { readonly title: string; readonly pid: number }[];
}

function start(command: string, ...args: readonly string[]) {
  const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'pipe'] });
  const exited = once(child, 'exit') as Promise<[number | null]>;
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await exited;
  });
  let stdout = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  return { child, exited, stdout: () => stdout };
}

it('status: shows every process with cost and age; --watch repeats', async ({ skip }) => {
  const daemon = await startDaemon();
  const dataDir = ['--data-dir', daemon.dataDir];
  const once = await runDq(['status', ...dataDir]);
  expect(once.code, once.stderr).toBe(0);
  const [head, ...rows] = once.stdout.trimEnd().split('\n');
  expect(head).toMatch(/^PROCESS +PID +STATE +UP +CPU % +RSS MiB +IN FLIGHT +RESTARTS +VERSION$/);
  const shown = rows.map((row) => row.split(/ +/).slice(0, 2).join(' '));
  expect(shown[0]).toBe(`dq-master ${daemon.pid}`);
  expect(shown.slice(1).sort()).toEqual(
    daemon
      .workers()
      .map(({ title, pid }) => `${title} ${pid}`)
      .sort(),
  );
  for (const row of rows)
    expect(row).toMatch(/^dq-\S+ +\d+ +ready +(?:\d+m)?\d+s +\d+\.\d +\d+\.\d +\d+ +0 +\d+\.\d+\.\d+$/);
  expect(once.stderr).toContain(daemon.url);

  const json = start(process.execPath, launcher, 'status', '--watch', '--json', ...dataDir);
  const lines = () => json.stdout().split('\n').slice(0, -1);
  await until('two looks', () => lines().length >= 2);
  for (const line of lines())
    expect((JSON.parse(line) as Status).processes.map(({ title }) => title)).toContain('dq-master');
  json.child.kill('SIGINT');
  expect(await json.exited).toEqual([0, null]);

  // util-linux provides the terminal.
  if (spawnSync('script', ['--version']).status !== 0) skip('no script(1) here');
  // `exec`: dash would stay and end by the Ctrl-C itself, with its own code.
  const command = ['exec', process.execPath, launcher, 'status', '--watch', ...dataDir].join(' ');
  const terminal = start('script', '-qec', command, '/dev/null');
  await until('it is drawn twice', () => terminal.stdout().split('\u001b[H').length > 2);
  terminal.child.stdin.write('\u0003');
  expect(await terminal.exited).toEqual([0, null]);
  expect(terminal.stdout()).toContain('dq-notifier-1');

  const plain = start(process.execPath, launcher, 'status', '--watch', ...dataDir);
  await until('it has looked', () => plain.stdout().includes('dq-upkeep'));
  expect(plain.stdout()).not.toContain('\u001b');
  await daemon.stop();
  expect(await plain.exited).toEqual([3, null]);
  expect((await runDq(['status', ...dataDir])).code).toBe(3);
});

it('status: a daemon that ends during the question does not run', async () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'dq-status-'));
  onTestFinished(() => rmSync(dataDir, { recursive: true }));
  mkdirSync(runDirOf(dataDir));
  const controlSocket = join(runDirOf(dataDir), 'control.sock');
  writeMasterRecord(dataDir, { pid: process.pid, startedAt: 1, controlSocket });
  // As a master that ends: it removes its socket and leaves the question unread.
  const server = createServer((socket) => {
    server.close();
    socket.destroy();
  });
  await once(server.listen(controlSocket), 'listening');
  expect((await runDq(['status', '--data-dir', dataDir])).code).toBe(3);
});
