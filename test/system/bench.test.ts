// Tests dq bench: the report is complete, and no topic is left. No test judges the speed of a machine.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { type Daemon, launcher, startDaemon } from '../support/daemon.ts';
import { runDq } from '../support/run-dq.ts';
import { until } from '../support/until.ts';

const topicsOf = async (daemon: Daemon) =>
  ((await daemon.api('GET', '/v1/topics')).body.items as { topic: string }[]).map(({ topic }) => topic);

it('bench: reports its load and leaves no topic and no job, also after Ctrl-C', async () => {
  const daemon = await startDaemon();
  const dataDir = ['--data-dir', daemon.dataDir];
  const fast = await runDq(['bench', '-n', '4', '-d', '2s', '--size', '100', '--json', ...dataDir]);
  expect(fast.code, fast.stderr).toBe(0);
  const report = JSON.parse(fast.stdout);
  expect(report).toMatchObject({ refused: {}, lateness: null, push: { count: report.accepted } });
  expect(report.accepted).toBeGreaterThan(4);
  expect(report.push.p50Ms).toBeGreaterThan(0);
  expect(report.push.p50Ms).toBeLessThanOrEqual(report.push.p99Ms);
  expect(report.push.p99Ms).toBeLessThanOrEqual(report.push.maxMs);
  const pushed = () =>
    daemon.log('request').filter(({ status, bytes }) => status === 201 && bytes === 100).length;
  await until('all are logged', () => pushed() >= report.accepted);
  expect(pushed()).toBe(report.accepted);

  // -c is the configuration file, as in every other command.
  const file = join(daemon.dataDir, 'bench.yaml');
  writeFileSync(file, `dataDir: ${JSON.stringify(daemon.dataDir)}\n`);
  const late = await runDq(['bench', '--e2e', '-d', '1s', '--rate', '20', '-c', file]);
  expect(late.code, late.stderr).toBe(0);
  expect(late.stderr).not.toContain('Warning');
  // Twenty, less those that a busy machine did not send.
  expect(late.stdout).toMatch(/^MS +COUNT +P50 .*\npush +(1\d|20) .*\nlateness +\1 /);
  expect(await topicsOf(daemon)).toEqual([]);
  const { states, orphaned } = (await daemon.api('GET', '/v1/stats')).body;
  expect({ states, orphaned }).toEqual({
    states: { delayed: 0, ready: 0, reserved: 0, dead: 0 },
    orphaned: 0,
  });

  // Ctrl-C ends it with a report.
  const child = spawn(
    process.execPath,
    [launcher, 'bench', '-d', '10m', '--rate', '50', '--data-dir', daemon.dataDir],
    {
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  );
  // After `exit`, output can still arrive.
  const closed = once(child, 'close');
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await closed;
  });
  let stdout = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  const before = daemon.log('request').length;
  await until('it pushes', () => daemon.log('request').length > before + 20);
  child.kill('SIGINT');
  expect(await closed).toEqual([0, null]);
  expect(stdout).toMatch(/^push +\d\d/m);
  expect(await topicsOf(daemon)).toEqual([]);
  for (const wrong of [
    ['-n', '0'],
    ['-d', '11m'],
    ['--rate', '1.5'],
    ['--size', '-1'],
  ])
    expect((await runDq(['bench', ...wrong, '--data-dir', daemon.dataDir])).code, wrong.join(' ')).toBe(2);
  const elsewhere = await runDq(['bench', '--e2e', '--url', 'http://192.0.2.1:6789']);
  expect(elsewhere).toMatchObject({ code: 2, stderr: expect.stringContaining('one clock') });
});
