// Tests a daemon as a container runs it: as process 1 of its own processes, with its log lines on the
// standard output, and a health check by a command.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect, it, onTestFinished } from 'vitest';
import { childrenOf, environment, launcher } from '../support/daemon.ts';
import { testDirectory } from '../support/directory.ts';
import { runDq } from '../support/run-dq.ts';
import { until } from '../support/until.ts';

type Line = Record<string, unknown>;

const own = ['--pid', '--fork', '--mount-proc', '--kill-child', '--map-root-user', '--user'];
const noNamespace = spawnSync('unshare', [...own, 'true']).status !== 0;

/** `ended`: code of the container, and what the daemon wrote. */
function startContainer(directory: string, dataDir: string) {
  const args = ['start', '--port', '0', '--data-dir', dataDir, '--log-dir', '-', '--no-console'];
  const unshare = spawn('unshare', [...own, process.execPath, launcher, ...args], {
    cwd: directory,
    env: environment(),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  onTestFinished(() => void unshare.kill('SIGKILL'));
  const exited = once(unshare, 'exit') as Promise<[number | null]>;
  const ended = Promise.all([exited, text(unshare.stdout), text(unshare.stderr)]).then(
    ([[code], stdout, stderr]) => ({ code, stdout, stderr }),
  );
  /** of process 1, as this machine counts it */
  const master = () => Number(readFileSync(`/proc/${unshare.pid}/task/${unshare.pid}/children`, 'utf8'));
  return { ended, master };
}

const linesOf = (stdout: string): Line[] =>
  stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Line);

it.skipIf(noNamespace)(
  'process 1: replaces a killed notifier, leaves no zombie, ends by TERM, starts again after a kill',
  async () => {
    const directory = testDirectory();
    const dataDir = join(directory, 'data');
    const dq = (...args: string[]) => runDq([...args, '--data-dir', dataDir]);
    const live = () => dq('status', '--live');
    expect(await live()).toMatchObject({ code: 3, stdout: '' });

    const first = startContainer(directory, dataDir);
    await until('it is live', async () => (await live()).code === 0);
    expect(await live()).toMatchObject({ code: 0, stdout: '', stderr: 'live\n' });
    const notifier = () => childrenOf(first.master()).find(({ title }) => title === 'dq-notifier-0')?.pid;
    const victim = await until('it has a notifier', notifier);
    process.kill(victim, 'SIGKILL');
    await until('it is replaced', () => ![undefined, victim].includes(notifier()));
    // A child that has ended and was not waited for.
    const children = readFileSync(`/proc/${first.master()}/task/${first.master()}/children`, 'utf8');
    const states = children
      .trim()
      .split(' ')
      .map((pid) => /^State:\s+(\w)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]);
    expect(states).not.toContain('Z');
    expect(await dq('topic', 'add', 't', '--pull')).toMatchObject({ code: 0 });
    expect(await dq('push', 't', '1')).toMatchObject({ code: 0 });
    process.kill(first.master(), 'SIGTERM');
    const { code, stdout, stderr } = await first.ended;
    expect(code).toBe(0);
    const lines = linesOf(stdout);
    expect(lines.filter(({ process: title }) => title === 'dq-master')[0]).toMatchObject({ pid: 1 });
    expect(new Set(lines.map(({ kind }) => kind))).toEqual(new Set(['notice', 'error', 'audit', 'request']));
    for (const message of ['ready', 'ended'])
      expect(lines).toContainEqual(
        expect.objectContaining({ kind: 'notice', process: 'dq-master', message }),
      );
    // The lines of a start for people, and no log line twice.
    expect(stderr).toMatch(/^dq \S+ \(pid 1\) on the embedded store/);
    expect(stderr).not.toContain('dq-notifier-0');
    expect(readdirSync(directory)).toEqual(['data']);
    expect(await live()).toMatchObject({ code: 3 });

    const second = startContainer(directory, dataDir);
    await until('it is live again', async () => (await live()).code === 0);
    process.kill(second.master(), 'SIGKILL');
    await second.ended;
    expect((await live()).code).not.toBe(0);
    const third = startContainer(directory, dataDir);
    await until('it is live after the kill', async () => (await live()).code === 0);
    process.kill(third.master(), 'SIGTERM');
    expect(await third.ended).toMatchObject({ code: 0 });
  },
);

it('start -d: rejects the standard output for its log lines', async () => {
  const directory = testDirectory();
  const run = await runDq(['start', '-d', '--log-dir', '-', '--data-dir', join(directory, 'data')]);
  expect(run).toMatchObject({
    code: 78,
    stdout: '',
    stderr:
      'dq: logDir: a daemon in the background has no standard output; name a directory with --log-dir\n',
  });
  expect(readdirSync(directory)).toEqual([]);
});
