// Tests dq restart, in the background and in the foreground, and its checks.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { stringify } from 'yaml';
import { freePorts } from '../../scripts/services/free-port.ts';
import { isAlive, startDaemon } from '../support/daemon.ts';
import { listening } from '../support/listening.ts';
import { addTopic } from '../support/producing.ts';
import { runDq } from '../support/run-dq.ts';
import { until } from '../support/until.ts';

interface Record {
  readonly pid: number;
  readonly url: string;
}

describe('dq restart', () => {
  it('in the background: same arguments, environment and jobs, another master', async () => {
    const directory = mkdtempSync(join(tmpdir(), 'dq-restart-'));
    const dataDir = join(directory, 'data');
    const dq = (...args: string[]) =>
      runDq([...args, '--data-dir', dataDir], {
        cwd: directory,
        env: { DQ_LOGDIR: join(directory, 'logs'), DQ_TIMER__WORKERS: '2' },
      });
    onTestFinished(async () => {
      await dq('stop');
      rmSync(directory, { recursive: true, force: true });
    });
    const record = () => JSON.parse(readFileSync(join(dataDir, 'run/dq.json'), 'utf8')) as Record;
    expect((await dq('start', '-d', '--port', '0', '--notifiers', '1')).code).toBe(0);
    const before = record();
    await dq('topic', 'add', 't', '--callback', 'http://127.0.0.1:9/');
    expect((await dq('push', 't', '{}', '--id', 'a', '--delay', '1h')).code).toBe(0);
    // The daemon was started without it.
    const other = join(directory, 'other.yaml');
    writeFileSync(other, '');
    const unread = `dq: warning: the daemon reads no configuration file, and not ${other}; `;
    expect((await dq('reload', '-c', other)).stderr).toContain(unread);
    expect((await dq('topic', 'ls', '-c', other)).stderr).toContain(unread);
    const { code, stderr } = await dq('restart', '-c', other);
    expect({ code, stderr }).toMatchObject({ code: 0, stderr: expect.stringContaining('restarted') });
    expect(stderr).toContain(unread);
    const after = record();
    expect(after.pid).not.toBe(before.pid);
    expect(isAlive(before.pid)).toBe(false);
    const { stdout } = await dq('status', '--json');
    const titles = (JSON.parse(stdout) as { processes: { title: string }[] }).processes.map(
      ({ title }) => title,
    );
    expect(titles).toContain('dq-timer-1');
    expect(titles).not.toContain('dq-notifier-1');
    expect((await dq('get', 't', 'a')).code).toBe(0);
  });

  it('a changed dataDir: says that the data has to be moved, and finds the daemon of the new one', async () => {
    const directory = mkdtempSync(join(tmpdir(), 'dq-moved-'));
    const [port = 0, consolePort = 0] = await freePorts(2);
    const [old, next] = [join(directory, 'old'), join(directory, 'next')];
    const config = (dataDir: string) =>
      writeFileSync(
        join(directory, 'dq.yaml'),
        stringify({
          dataDir,
          logDir: join(directory, 'logs'),
          server: { port },
          console: { port: consolePort },
        }),
      );
    const dq = (...args: string[]) => runDq(args, { cwd: directory });
    onTestFinished(async () => {
      for (const dataDir of [old, next]) await dq('stop', '--data-dir', dataDir);
      rmSync(directory, { recursive: true, force: true });
    });
    config(old);
    expect((await dq('start', '-d')).code).toBe(0);
    await dq('topic', 'add', 't', '--callback', 'http://127.0.0.1:9/');
    for (const id of ['a', 'b']) await dq('push', 't', '{}', '--id', id, '--delay', '1h');
    expect((await dq('config', 'test')).stderr).not.toContain('warning');

    config(next);
    const other = `the daemon at http://127.0.0.1:${port} runs on ${old}: after a change of dataDir `;
    expect((await dq('config', 'test')).stderr).toContain(`dq: warning: no daemon runs on ${next}; ${other}`);
    for (const verb of ['reload', 'restart', 'status'])
      expect(await dq(verb)).toMatchObject({ code: 3, stderr: expect.stringContaining(`; ${other}`) });
    expect(await dq('reload', '--data-dir', old)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining(`dataDir was changed from ${old} to ${next}; dq moves no data: `),
    });
    const { code, stderr } = await dq('restart', '--data-dir', old);
    expect({ code, stderr }).toMatchObject({
      code: 0,
      stderr: expect.stringMatching(/: restarted: version /),
    });
    expect(stderr).toContain(
      `dq: warning: dataDir is now ${next}, which is empty; ${old} keeps 2 jobs and its topics, `,
    );
    expect((await dq('status')).code).toBe(0);

    config(old);
    expect((await dq('restart', '--data-dir', next)).stderr).toContain(
      `dq: dataDir is now ${old}; before, it was ${next}\n`,
    );
    expect((await dq('get', 't', 'a')).code).toBe(0);
  });

  // role/start-checks has the other reasons.
  it('in the foreground: names the reason why a start would fail; else exits with 75 and waits for it', async () => {
    const directory = mkdtempSync(join(tmpdir(), 'dq-restart-'));
    const pids = join(directory, 'pids');
    mkdirSync(pids);
    // Its port is in the file too: the check must recognize the daemon's own port.
    const [port = 0] = await freePorts(1);
    const config = (server: object) =>
      writeFileSync(join(directory, 'dq.yaml'), stringify({ server: { port, workers: 1, ...server } }));
    const daemon = await startDaemon({
      directory,
      config: { server: { port, workers: 1 } },
      portInFile: true,
      args: ['--pid-file', join(pids, 'dq.pid')],
    });
    await addTopic(daemon, 't', 'http://127.0.0.1:9/');
    const workers = daemon.workers();
    const refusal = async (): Promise<string> => {
      const { code, stderr } = await runDq(['restart', '--data-dir', daemon.dataDir], { cwd: directory });
      expect(code).toBe(1);
      return stderr;
    };
    const before = 'dq: the restart was rejected, the daemon still runs: ';

    writeFileSync(join(directory, 'dq.yaml'), 'notifier: {workers: many}');
    expect(await refusal()).toMatch(
      /the restart was rejected, the daemon still runs: the configuration is wrong\n.*dq\.yaml:1:\d+/,
    );
    const taken = await listening(createServer());
    config({ port: taken });
    expect(await refusal()).toBe(
      `${before}another program uses port ${taken} on 127.0.0.1; choose a port with --port\n`,
    );

    config({});
    rmSync(pids, { recursive: true });
    expect(await refusal()).toMatch(/the daemon still runs: cannot write the pid file .*: ENOENT/);
    mkdirSync(pids);

    expect(daemon.workers()).toEqual(workers);
    expect((await daemon.api('GET', '/readyz')).status).toBe(200);
    expect((await daemon.push('t', '{}', { id: 'a', delay: '1h' })).status).toBe(201);
    // All checks pass: the daemon ends.
    const restarted = runDq(['restart', '--data-dir', daemon.dataDir], { cwd: directory });
    await until('it has ended', () => daemon.child.exitCode !== null);
    expect(daemon.child.exitCode).toBe(75);
    const next = await startDaemon({ directory, config: { server: { port, workers: 1 } }, portInFile: true });
    const { code, stderr } = await restarted;
    expect({ code, stderr }).toMatchObject({ code: 0, stderr: expect.stringContaining(`(pid ${next.pid})`) });
    expect(stderr).toContain('dq: the daemon has ended; waiting until its supervisor starts it\n');
    expect(stderr).not.toContain('warning');
  });
});
