// Tests dq start, in the foreground and in the background, and dq status.
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { runDirOf, writeMasterRecord } from '../../src/master/data/run-record.ts';
import { childrenOf, isAlive, launcher, startDaemon } from '../support/daemon.ts';
import { testDirectory } from '../support/directory.ts';
import { listening } from '../support/listening.ts';
import { runDq } from '../support/run-dq.ts';
import { until } from '../support/until.ts';

let directory: string;
beforeEach(() => {
  directory = testDirectory();
});

const places = () => ['--data-dir', join(directory, 'data'), '--log-dir', join(directory, 'logs')];

describe('dq start', () => {
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
    const port = await listening(createServer());
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
});

function watchStatus(command: string, ...args: readonly string[]) {
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

  // dq restart waits as this does: move.test.ts.
  it('start -d: exits with 4 while Redis is unavailable; the daemon runs', async () => {
    const at = ['--data-dir', join(directory, 'data')];
    const dq = (...args: string[]) =>
      runDq([...args, ...at], {
        cwd: directory,
        env: { DQ_LOGDIR: join(directory, 'logs'), DQ_REDIS: 'redis://127.0.0.1:1' },
      });
    onTestFinished(async () => void (await dq('stop')));
    const started = await dq('start', '-d', '--port', '0');
    expect(started).toMatchObject({
      code: 4,
      stderr: expect.stringMatching(
        /^dq: not ready yet: [\s\S]*\ndq: the daemon runs, and is not ready: .*ECONNREFUSED.*\n$/,
      ),
    });
    expect(started.stdout).toMatch(/\nhttp:\S+\n/);
    expect(started.stdout).not.toContain('ready in');
    expect((await dq('status')).stderr).toMatch(/: not ready, up /);
  });
});

describe('a daemon that runs', async () => {
  // The first test reads its output, the last ones kill its server and end it.
  const daemon = await startDaemon({ scope: 'file', args: ['--notifiers', '3', '--timers', '2'] });
  const dataDir = ['--data-dir', daemon.dataDir];

  it('start: prints store, address and duration; runs every role under its title', async () => {
    await until('it has printed all', () => daemon.output().includes('ready in'));
    expect(daemon.output()).toMatch(
      /^dq \S+ \(pid \d+\) on the embedded store in \S+\ndurability: .+\nhttp:\/\/127\.0\.0\.1:\d+\nready in \d+ ms\n(dq: .*\n)*$/,
    );
    expect(daemon.output()).toContain(daemon.url);
    const titles = daemon.workers().map((worker) => worker.title);
    expect(titles.sort()).toEqual([
      ...['dq-notifier-0', 'dq-notifier-1', 'dq-notifier-2', 'dq-server-0', 'dq-store'],
      ...['dq-timer-0', 'dq-timer-1', 'dq-upkeep'],
    ]);
    expect(readFileSync(`/proc/${daemon.pid}/cmdline`, 'utf8').replaceAll('\0', '')).toBe('dq-master');
  });

  it('start: rejects a directory in use, also with -d, names the pid, and harms no daemon', async () => {
    const says = new RegExp(
      `^dq: already running on ${daemon.dataDir} \\(pid ${daemon.pid}, since \\d{4}-\\d\\d-\\d\\dT[^)]+, ${daemon.url}\\); end it with dq stop --data-dir ${daemon.dataDir}, .* another --data-dir and --port\\n$`,
    );
    for (const more of [[], ['-d', '--log-dir', daemon.logDir]])
      expect(await runDq(['start', '--port', '0', ...dataDir, ...more], { cwd: directory })).toMatchObject({
        code: 1,
        stdout: '',
        stderr: expect.stringMatching(says),
      });
    expect((await daemon.api('GET', '/livez')).status).toBe(200);
    expect(existsSync(join(daemon.dataDir, 'run/dq.json'))).toBe(true);
  });

  it('status: shows every process with cost and age; --watch repeats', async ({ skip }) => {
    const once = await runDq(['status', ...dataDir]);
    expect(once.code, once.stderr).toBe(0);
    const [head, ...rows] = once.stdout.trimEnd().split('\n');
    expect(head).toMatch(/^PROCESS +PID +STATE +UP +CPU % +RSS MiB +IN FLIGHT +RESTARTS +VERSION +PSS MiB$/);
    const shown = rows.map((row) => row.split(/ +/).slice(0, 2).join(' '));
    expect(shown[0]).toBe(`dq-master ${daemon.pid}`);
    const running = daemon.workers().map(({ title, pid }) => `${title} ${pid}`);
    expect(shown.slice(1).sort()).toEqual(running.sort());
    for (const row of rows)
      expect(row).toMatch(
        /^dq-\S+ +\d+ +ready +(?:\d+m)?\d+s +\d+\.\d +\d+\.\d +\d+ +0 +\d+\.\d+\.\d+ +\d+\.\d$/,
      );
    expect(once.stderr).toContain(daemon.url);
    const shares = rows.map((row) => Number(row.split(/ +/).at(-1)));
    const sum = shares.reduce((all, one) => all + one, 0);
    const printed = Number(/^memory: (\d+\.\d) MiB \(sum of PSS/m.exec(once.stderr)?.[1]);
    // Each number is rounded.
    expect(Math.abs(printed - sum)).toBeLessThanOrEqual(0.05 * (rows.length + 1) + 1e-9);

    const json = watchStatus(process.execPath, launcher, 'status', '--watch', '--json', ...dataDir);
    const lines = () => json.stdout().split('\n').slice(0, -1);
    await until('two looks', () => lines().length >= 2);
    for (const line of lines()) expect(JSON.parse(line).processes[0]).toMatchObject({ title: 'dq-master' });
    json.child.kill('SIGINT');
    expect(await json.exited).toEqual([0, null]);

    // util-linux provides the terminal.
    if (spawnSync('script', ['--version']).status !== 0) skip('no script(1) here');
    // `exec`: dash would stay and end by the Ctrl-C itself, with its own code.
    const command = ['exec', process.execPath, launcher, 'status', '--watch', ...dataDir].join(' ');
    const terminal = watchStatus('script', '-qec', command, '/dev/null');
    await until('it is drawn twice', () => terminal.stdout().split('\u001b[H').length > 2);
    terminal.child.stdin.write('\u0003');
    expect(await terminal.exited).toEqual([0, null]);
    expect(terminal.stdout()).toContain('dq-notifier-1');
  });

  it('copied data directory: commands and a daemon of it do not touch the original', async () => {
    // cp fails when a file vanishes: the temporary one of workers.json, which is written at each fork.
    const workers = await until('every worker is ready and recorded', async () => {
      const { processes } = (await daemon.api('GET', '/v1/processes')).body;
      if (processes.some(({ state }: { state: string }) => state !== 'ready')) return null;
      const text = readFileSync(join(daemon.dataDir, 'run/workers.json'), 'utf8');
      const recorded = (JSON.parse(text) as { pid: number }[]).map(({ pid }) => pid);
      const now = daemon.workers();
      return recorded.length === now.length && now.every(({ pid }) => recorded.includes(pid)) && now;
    });
    const copied = join(directory, 'data');
    execFileSync('cp', ['-a', daemon.dataDir, copied]);
    for (const args of [['stop'], ['status'], ['restart'], ['reload'], ['topic', 'ls'], ['push', 't', '{}']])
      expect(await runDq([...args, '--data-dir', copied], { cwd: directory })).toMatchObject({
        ...{ code: 3, stderr: expect.stringContaining(`no daemon is running on ${copied}`) },
      });
    const copy = await startDaemon({ dataDir: copied, directory });
    expect(daemon.workers()).toEqual(workers);
    for (const one of [daemon, copy]) expect((await one.api('GET', '/readyz')).status).toBe(200);
    expect(copy.log('notice').map(({ message }) => message)).not.toContainEqual(
      expect.stringContaining('ended workers of a killed master'),
    );
    // Commands reach each daemon by its own directory.
    const found = await runDq(['status', '--json', '--data-dir', copied]);
    expect(found.stdout).toContain(copy.url);
    expect(await copy.stop()).toBe(0);
    expect((await daemon.api('GET', '/livez')).status).toBe(200);
  });

  it('keeps its port when its only server was killed; a watch ends with it', async () => {
    const before = daemon.pidOf('dq-server-0');
    process.kill(before, 'SIGKILL');
    await until('another server answers at the same address', async () => {
      const answered = await daemon.api('GET', '/livez').catch(() => null);
      return answered?.status === 200 && daemon.pidOf('dq-server-0') !== before;
    });
    const plain = watchStatus(process.execPath, launcher, 'status', '--watch', ...dataDir);
    await until('it has looked', () => plain.stdout().includes('dq-upkeep'));
    expect(plain.stdout()).not.toContain('\u001b');
    await daemon.stop();
    expect(await plain.exited).toEqual([3, null]);
  });
});

/** What status says of a master that answers so. */
async function statusOf(answer: (socket: Socket, server: Server) => void) {
  const dataDir = testDirectory();
  mkdirSync(runDirOf(dataDir));
  const controlSocket = join(runDirOf(dataDir), 'control.sock');
  writeMasterRecord(dataDir, { pid: process.pid, startedAt: 1, controlSocket });
  const server = createServer((socket) => answer(socket, server));
  onTestFinished(() => void server.close());
  await once(server.listen(controlSocket), 'listening');
  return await runDq(['status', '--data-dir', dataDir]);
}

it('status: a daemon that ends during the question does not run', async () => {
  // As a master that ends: it removes its socket and leaves the question unread.
  const { code } = await statusOf((socket, server) => {
    server.close();
    socket.destroy();
  });
  expect(code).toBe(3);
});

it.each([
  [[], 'dq-server has died'],
  [[{ title: 'dq-server-0', role: 'server', state: 'starting' }], 'dq-server-0 starts again'],
])(
  'status: without a server that listens dq is not ready, and the line says why: %j',
  async (servers, why) => {
    const timer = { title: 'dq-timer-0', role: 'timer', state: 'ready' };
    const processes = [timer, ...servers].map((one) => ({
      ...{
        pid: 1,
        version: '1',
        generation: 1,
        startedAt: 1,
        restarts: 1,
        inFlight: 0,
        rssBytes: 1,
        cpuPercent: 0,
      },
      ...{ pssBytes: null, ...one },
    }));
    const { code, stderr } = await statusOf((socket) => {
      const daemon = { version: '1', state: 'ready', startedAt: 1, url: null, console: null, dataDir: '/d' };
      const rest = { compat: {}, durability: null, leadership: null, noDeliveries: false, processes };
      const answer = `${JSON.stringify({ status: { ...daemon, ...rest } })}\n{"done":true,"exit":0}\n`;
      socket.once('data', () => socket.end(answer));
    });
    expect(code).toBe(0);
    expect(stderr).toMatch(/^dq 1: not ready, up /);
    expect(stderr).toContain(`\nnot ready: no server listens: ${why}; the error log has the cause\n`);
  },
);
