// Tests the sd_notify messages of a daemon, and the unit. The receiver is a real datagram socket, in Python
// because Node cannot open one.
import { spawn, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { freePorts } from '../../scripts/services/free-port.ts';
import { startDaemon } from '../support/daemon.ts';
import { testDirectory } from '../support/directory.ts';
import { runDq } from '../support/run-dq.ts';
import { until } from '../support/until.ts';

const lacks = (command: string) => spawnSync(command, ['--version']).status !== 0;
const missing = ['systemd-notify', 'python3'].find(lacks) ?? null;
const unit = join(import.meta.dirname, '../../scripts/systemd/dq.service');

/** Prints one line of JSON per message: its lines. */
const receiver = `
import json, socket, struct, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
s.bind(sys.argv[1])
print("[]", flush=True)
while True:
    data, extra, _, _ = s.recvmsg(65536, 256)
    for level, kind, content in extra:
        if kind == socket.SCM_RIGHTS:
            import os
            for fd in struct.unpack("%di" % (len(content) // 4), content): os.close(fd)
    print(json.dumps(data.decode().split("\\n")), flush=True)
`;

async function startReceiver() {
  const directory = testDirectory();
  const socket = join(directory, 'notify');
  const child = spawn('python3', ['-c', receiver, socket], { stdio: ['ignore', 'pipe', 'inherit'] });
  onTestFinished(() => {
    child.kill('SIGKILL');
  });
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
  await until('the receiver listens', () => text !== '');
  /** All messages except the barrier of systemd-notify. */
  const received = () =>
    text
      .split('\n')
      .slice(1, -1)
      .map((line) => JSON.parse(line) as string[])
      .filter(([first]) => first !== 'BARRIER=1');
  return { socket, received };
}

describe.skipIf(missing !== null)(`systemd${missing === null ? '' : `: no ${missing} here`}`, () => {
  it('gets READY, RELOADING and STOPPING in this order', async () => {
    const { socket, received } = await startReceiver();
    const daemon = await startDaemon({ env: { NOTIFY_SOCKET: socket }, config: { 'log.days': 1 } });
    const receivedCount = (n: number) => until(`message ${n}`, () => received().length >= n);
    await receivedCount(1);
    expect(received()).toEqual([['READY=1', `STATUS=ready, ${daemon.url}`]]);
    // Workers do not inherit the socket. (systemd-notify, also a child of the master, may still wait.)
    for (const { pid } of daemon.workers().filter(({ title }) => title.startsWith('dq-')))
      expect(readFileSync(`/proc/${pid}/environ`, 'utf8')).not.toContain('NOTIFY_SOCKET');

    const before = process.hrtime.bigint() / 1_000n;
    daemon.child.kill('SIGUSR2');
    await receivedCount(3);
    const [reloading, ready] = received().slice(1);
    expect(reloading).toEqual([
      'RELOADING=1',
      expect.stringMatching(/^MONOTONIC_USEC=\d+$/),
      'STATUS=reloading',
    ]);
    const at = BigInt(reloading?.[1]?.split('=')[1] ?? '');
    expect(at).toBeGreaterThanOrEqual(before);
    expect(at).toBeLessThan(process.hrtime.bigint() / 1_000n);
    expect(ready).toEqual(['READY=1', `STATUS=ready, ${daemon.url}`]);

    // More problems than an argument of a process can hold.
    const wrong = Array.from({ length: 3_000 }, (_, n) => `nothing${n}: 1`);
    writeFileSync(join(daemon.directory, 'dq.yaml'), ['log.dayz: 1', ...wrong].join('\n'));
    daemon.child.kill('SIGHUP');
    await receivedCount(5);
    expect(received()[3]?.[0]).toBe('RELOADING=1');
    expect(received()[4]).toEqual([
      'READY=1',
      expect.stringMatching(/^STATUS=the last reload was rejected: .*log\.days\?/),
    ]);

    expect(await daemon.stop()).toBe(0);
    await receivedCount(6);
    expect(received().slice(5)).toEqual([['STOPPING=1', 'STATUS=stopping']]);
  });

  it('without systemd or its tool: one error in the log, and one line when messages arrive again', async () => {
    const directory = testDirectory();
    const [tool, works] = [join(directory, 'systemd-notify'), join(directory, 'works')];
    writeFileSync(tool, `#!/bin/sh\ntest -e ${works}\n`, { mode: 0o755 });
    const PATH = `${directory}:${process.env['PATH']}`;
    const daemon = await startDaemon({ env: { PATH, NOTIFY_SOCKET: '/nowhere/notify' } });
    const logged = (level: 'error' | 'notice') =>
      daemon.log(level).filter(({ message }) => String(message).includes('service-manager'));
    await until('it is logged', () => logged('error').length === 1);
    daemon.child.kill('SIGUSR2');
    await until('it is reloaded', () => daemon.log('notice').some(({ message }) => message === 'reloaded'));
    expect((await daemon.api('GET', '/readyz')).status).toBe(200);
    writeFileSync(works, '');
    daemon.child.kill('SIGUSR2');
    await until('a message arrives', () => logged('notice').length === 1);
    expect(await daemon.stop()).toBe(0);
    expect(logged('error')).toHaveLength(1);
    expect(logged('notice')).toMatchObject([{ message: 'service-manager: notifies systemd again' }]);
  });
});

it('unit: commands find its daemon by the configuration file from any directory', async () => {
  const root = mkdtempSync(join(tmpdir(), 'dq-unit-'));
  const [port = 0] = await freePorts(1);
  const here = (text: string) =>
    text.replaceAll(/\/(?:var\/lib|var\/log|run|etc)\/dq\b/g, (path) => `${root}${path}`);
  for (const name of ['var/lib/dq', 'var/log/dq', 'run/dq', 'etc/dq', 'elsewhere'])
    mkdirSync(join(root, name), { recursive: true });
  const file = join(root, 'etc/dq/dq.yaml');
  const example = readFileSync(join(unit, '../dq.yaml'), 'utf8');
  writeFileSync(file, `${here(example)}server: {port: ${port}, workers: 1}\n`);
  const line = /^ExecStart=\S+ \S+\/bin\/dq (.*)$/m.exec(readFileSync(unit, 'utf8'))?.[1] ?? '';
  const dq = (...args: string[]) => runDq(args, { cwd: join(root, 'elsewhere') });
  onTestFinished(async () => {
    await dq('stop', '-c', file);
    rmSync(root, { recursive: true });
  });
  expect(await dq(...here(line).split(' '), '-d')).toMatchObject({ code: 0 });
  for (const command of ['status', 'reload'])
    expect(await dq(command, '-c', file), command).toMatchObject({ code: 0 });
  const checked = await dq('doctor', '-c', file, '--json');
  const of = (text: string, name: string) =>
    (JSON.parse(text) as { check: string; state: string; about: string }[]).filter(
      ({ check }) => check === name,
    );
  expect(of(checked.stdout, 'daemon')).toMatchObject([
    { state: 'ok', about: expect.stringContaining('ready') },
  ]);
  expect(of(checked.stdout, 'port')).toEqual([]);
  // Another data directory with the same port: dq's own port is no other program.
  writeFileSync(join(root, 'other.yaml'), `dataDir: other\nserver: {port: ${port}}\n`);
  const other = await dq('doctor', '-c', join(root, 'other.yaml'), '--json');
  expect(of(other.stdout, 'port')).toMatchObject([
    {
      state: 'warning',
      about: `a dq of another data directory serves 127.0.0.1:${port}; to check it give -c or --data-dir`,
    },
  ]);
});

describe.skipIf(lacks('systemd-analyze'))(
  `scripts/systemd/dq.service${lacks('systemd-analyze') ? ': no systemd-analyze here' : ''}`,
  () => {
    it('systemd-analyze accepts the unit without a warning', () => {
      const directory = testDirectory();
      // Replaces only paths and the user, which must exist.
      const text = readFileSync(unit, 'utf8')
        .replaceAll('/usr/bin/node', process.execPath)
        .replaceAll('User=dq', 'User=root')
        .replaceAll('/opt/dq/current/README.md', unit);
      const path = join(directory, 'dq.service');
      writeFileSync(path, text);
      const run = spawnSync('systemd-analyze', ['verify', '--man=no', path], { encoding: 'utf8' });
      expect({
        status: run.status,
        about: run.stderr.split('\n').filter((line) => line.includes('dq')),
      }).toEqual({
        status: 0,
        about: [],
      });
    });
  },
);
