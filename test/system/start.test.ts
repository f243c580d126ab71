// Tests dq start, in the foreground and in the background.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import type { AddressInfo } from 'node:net';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { childrenOf, isAlive, launcher, startDaemon } from '../support/daemon.ts';
import { runDq } from '../support/run-dq.ts';
import { until } from '../support/until.ts';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'dq-start-'));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
});

const places = () => ['--data-dir', join(directory, 'data'), '--log-dir', join(directory, 'logs')];

describe('dq start', () => {
  it('runs every role under its title', async () => {
    const daemon = await startDaemon({ args: ['--notifiers', '11', '--servers', '2', '--timers', '2'] });
    const notifiers = Array.from({ length: 11 }, (_, n) => `dq-notifier-${n}`);
    expect(
      daemon
        .workers()
        .map((worker) => worker.title)
        .sort(),
    ).toEqual(
      [
        ...notifiers,
        'dq-server-0',
        'dq-server-1',
        'dq-store',
        'dq-timer-0',
        'dq-timer-1',
        'dq-upkeep',
      ].sort(),
    );
    expect(readFileSync(`/proc/${daemon.pid}/cmdline`, 'utf8').replaceAll('\0', '')).toBe('dq-master');
  });

  it('start: of many at once on one directory one wins; the others name it', async () => {
    // Like after a power cut: the run record names a process that has ended.
    mkdirSync(join(directory, 'data/run'), { recursive: true });
    const left = { pid: 999_999_999, startedAt: 1, controlSocket: join(directory, 'data/run/control.sock') };
    writeFileSync(join(directory, 'data/run/master.json'), JSON.stringify(left));
    const starts = Array.from({ length: 6 }, () => {
      const child = spawn(process.execPath, [launcher, 'start', '--port', '0', ...places()], {
        stdio: ['ignore', 'ignore', 'pipe'],
      });
      let stderr = '';
      child.stderr.on('data', (chunk: Buffer) => (stderr += chunk));
      return { child, closed: once(child, 'close'), stderr: () => stderr };
    });
    onTestFinished(async () => {
      for (const { child } of starts) child.kill('SIGKILL');
      await Promise.all(starts.map(({ closed }) => closed));
      const workers = JSON.parse(readFileSync(join(directory, 'data/run/workers.json'), 'utf8'));
      await until('no worker is left', () => !workers.some(({ pid }: { pid: number }) => isAlive(pid)));
    });
    await until('one is ready', () => existsSync(join(directory, 'data/run/dq.json')));
    await until(
      'the others have ended',
      () => starts.filter(({ child }) => child.exitCode === null).length === 1,
    );
    const [winner] = starts.filter(({ child }) => child.exitCode === null);
    const others = starts.filter((one) => one !== winner);
    // With all their output.
    await Promise.all(others.map(({ closed }) => closed));
    const sentence = new RegExp(
      `^dq: already running on \\S+ \\(pid ${winner?.child.pid}, since \\d{4}-[^)]+\\); .*\\n$`,
    );
    expect(others.map(({ child }) => child.exitCode)).toEqual([1, 1, 1, 1, 1]);
    for (const other of others) expect(other.stderr()).toMatch(sentence);
    winner?.child.kill('SIGTERM');
    await winner?.closed;
    expect(winner?.child.exitCode).toBe(0);
  });

  it('start: exits with 1 on a used port and leaves no process', async () => {
    const taken = createServer().listen(0, '127.0.0.1');
    onTestFinished(() => void taken.close());
    await until('it listens', () => taken.listening);
    const { port } = taken.address() as AddressInfo;
    const rejected = await runDq(['start', '--port', String(port), ...places()], { cwd: directory });
    expect(rejected.code).toBe(1);
    expect(rejected.stderr).toMatch(new RegExp(`^dq: .*${port}.*\\n$`));
    expect(existsSync(join(directory, 'data/run/dq.json'))).toBe(false);
    expect(readFileSync(join(directory, 'data/run/workers.json'), 'utf8')).toBe('[]\n');
  });

  it.each(['data', 'logs', 'dq.pid'])(
    'start: exits with 1 and one sentence for an unusable %s',
    async (name) => {
      writeFileSync(join(directory, 'file'), '');
      const at = (one: string) => join(directory, one === name ? 'file' : '', one);
      const args = ['--data-dir', at('data'), '--log-dir', at('logs'), '--pid-file', at('dq.pid')];
      const rejected = await runDq(['start', '--port', '0', ...args], { cwd: directory });
      expect(rejected).toMatchObject({ code: 1, stdout: '' });
      expect(rejected.stderr).toMatch(
        new RegExp(
          `^dq: (cannot \\w+ )?the (data directory|log directory|pid file) \\S+/file/${name}(: | cannot be ).*\\n$`,
        ),
      );
    },
  );

  it.each([
    [['--port', '70000'], 78],
    [['--redis', 'http://127.0.0.1'], 78],
    [['--prot', '1'], 2],
  ])('%j exits %i before anything is touched', async (args, code) => {
    expect(await runDq(['start', ...args, ...places()], { cwd: directory })).toMatchObject({
      code,
      stdout: '',
    });
    expect(existsSync(join(directory, 'data'))).toBe(false);
  });

  it('start: exits with 78 beyond this machine without a token, leaves no process', async () => {
    const rejected = await runDq(['start', '--host', '0.0.0.0', ...places()], { cwd: directory });
    expect(rejected).toMatchObject({ code: 78, stdout: '' });
    expect(rejected.stderr).toContain('dq token add');
    // The tokens are in the registry, so the directory has been made; the next start finds it free.
    const daemon = await startDaemon({ directory });
    expect((await daemon.api('GET', '/livez')).status).toBe(200);
  });
});

/** `terminal` 0 = without a controlling terminal. */
function sessionOf(pid: number): { session: number; terminal: number } {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  const [, , , session, terminal] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return { session: Number(session), terminal: Number(terminal) };
}

describe('dq start -d', () => {
  it('start -d: returns when ready; status, pid file and stop find it; stop leaves nothing', async () => {
    const pidFile = join(directory, 'dq.pid');
    const started = await runDq(['start', '-d', '--port', '0', '--pid-file', pidFile, ...places()], {
      cwd: directory,
    });
    const pid = Number(readFileSync(pidFile, 'utf8'));
    onTestFinished(() => {
      for (const one of [pid, ...childrenOf(pid).map((child) => child.pid)])
        if (isAlive(one)) process.kill(one, 'SIGKILL');
    });
    expect(started).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/\nready in \d+ ms\n$/),
      stderr: '',
    });
    const at = ['--data-dir', join(directory, 'data')];
    const status = JSON.parse((await runDq(['status', '--json', ...at], { cwd: directory })).stdout);
    expect(status.processes[0]).toMatchObject({ title: 'dq-master', pid, state: 'ready' });
    expect(started.stdout).toContain(status.url);
    const workers = childrenOf(pid);
    expect(workers.length).toBe(status.processes.length - 1);
    for (const one of [pid, ...workers.map((worker) => worker.pid)]) {
      expect(sessionOf(one)).toEqual({ session: pid, terminal: 0 });
      const [stdin, stdout, stderr] = [0, 1, 2].map((fd) => readlinkSync(`/proc/${one}/fd/${fd}`));
      const output = join(directory, 'logs/dq-output.log');
      expect([stdin, stdout, stderr]).toEqual(['/dev/null', output, output]);
    }
    // A notice that a master in the foreground would print.
    const victim = workers.find(({ title }) => title === 'dq-timer-0')?.pid;
    process.kill(victim as number, 'SIGKILL');
    await until('it is replaced', () =>
      childrenOf(pid).some((now) => now.title === 'dq-timer-0' && now.pid !== victim),
    );
    expect(readFileSync(join(directory, 'logs/dq-output.log'), 'utf8')).toBe('');

    expect(await runDq(['stop', ...at], { cwd: directory })).toMatchObject({
      code: 0,
      stdout: '',
      stderr: 'dq: stopped\n',
    });
    await until('all are gone', () => ![pid, ...workers.map((worker) => worker.pid)].some(isAlive));
    expect(existsSync(pidFile)).toBe(false);
    expect((await runDq(['stop', ...at], { cwd: directory })).code).toBe(3);
    expect((await runDq(['status', ...at], { cwd: directory })).code).toBe(3);
  });
});

describe('a daemon that runs', async () => {
  // The first test reads its output, the last one kills its server.
  const daemon = await startDaemon({ scope: 'file' });

  it('start: prints store, address and duration', async () => {
    await until('it has printed all', () => daemon.output().includes('ready in'));
    expect(daemon.output()).toMatch(
      /^dq \S+ \(pid \d+\) on the embedded store in \S+\ndurability: .+\nhttp:\/\/127\.0\.0\.1:\d+\nready in \d+ ms\n$/,
    );
    expect(daemon.output()).toContain(daemon.url);
  });

  it('start: rejects a directory in use, names the pid, and harms no daemon', async () => {
    const second = await runDq(['start', '--port', '0', '--data-dir', daemon.dataDir], { cwd: directory });
    expect(second).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringMatching(
        new RegExp(
          `^dq: already running on ${daemon.dataDir} \\(pid ${daemon.pid}, since \\d{4}-\\d\\d-\\d\\dT[^)]+, ${daemon.url}\\); end it with dq stop --data-dir ${daemon.dataDir}, .* another --data-dir and --port\\n$`,
        ),
      ),
    });
    expect((await daemon.api('GET', '/livez')).status).toBe(200);
    expect(existsSync(join(daemon.dataDir, 'run/dq.json'))).toBe(true);
  });

  it('start -d: returns with the reason of a failed start', async () => {
    const args = ['start', '-d', '--port', '0', '--data-dir', daemon.dataDir, '--log-dir', daemon.logDir];
    expect(await runDq(args, { cwd: directory })).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(new RegExp(`^dq: already running on \\S+ \\(pid ${daemon.pid}, .*\\n$`)),
    });
  });

  it('keeps its port when its only server was killed', async () => {
    const before = daemon.pidOf('dq-server-0');
    process.kill(before, 'SIGKILL');
    await until('another server answers at the same address', async () => {
      const answered = await daemon.api('GET', '/livez').catch(() => null);
      return answered?.status === 200 && daemon.pidOf('dq-server-0') !== before;
    });
  });
});
