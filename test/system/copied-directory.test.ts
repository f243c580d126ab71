// Tests a data directory that was copied while its daemon runs.
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import type { ProcessInfo } from '../../src/process/messages.ts';
import { startDaemon } from '../support/daemon.ts';
import { runDq } from '../support/run-dq.ts';
import { until } from '../support/until.ts';

// It starts two daemons and seven commands.
it('copied data directory: commands and daemon do not touch the original', { timeout: 300_000 }, async () => {
  const original = await startDaemon();
  // cp fails when a file vanishes: the temporary one of workers.json, which is written at each fork.
  const workers = await until('every worker is ready and recorded', async () => {
    const { processes } = (await original.api('GET', '/v1/processes')).body as { processes: ProcessInfo[] };
    if (processes.some(({ state }) => state !== 'ready')) return null;
    const text = readFileSync(join(original.dataDir, 'run/workers.json'), 'utf8');
    const recorded = (JSON.parse(text) as { pid: number }[]).map(({ pid }) => pid);
    const now = original.workers();
    return recorded.length === now.length && now.every(({ pid }) => recorded.includes(pid)) && now;
  });
  const root = mkdtempSync(join(tmpdir(), 'dq-copied-'));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  const dataDir = join(root, 'data');
  execFileSync('cp', ['-a', original.dataDir, dataDir]);

  const here = { cwd: root };
  for (const args of [['stop'], ['status'], ['restart'], ['reload'], ['topic', 'ls'], ['push', 't', '{}']])
    expect(await runDq([...args, '--data-dir', dataDir], here)).toMatchObject({
      code: 3,
      stderr: expect.stringContaining(`no daemon is running on ${dataDir}`),
    });

  const logDir = join(root, 'logs');
  mkdirSync(logDir);
  const copy = await startDaemon({ dataDir, logDir, directory: root });
  expect(original.workers()).toEqual(workers);
  expect((await original.api('GET', '/readyz')).status).toBe(200);
  expect((await copy.api('GET', '/readyz')).status).toBe(200);
  expect(copy.log('notice').map(({ message }) => message)).not.toContainEqual(
    expect.stringContaining('ended workers of a killed master'),
  );
  // Commands reach each daemon by its own directory.
  const found = await runDq(['status', '--json', '--data-dir', dataDir], here);
  expect(found.stdout).toContain(copy.url);
  expect(await copy.stop()).toBe(0);
  expect((await original.api('GET', '/livez')).status).toBe(200);
});
