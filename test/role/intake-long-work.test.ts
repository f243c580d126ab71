// Tests backup and fsck over HTTP: one call starts them, another shows their state.
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { adminToken, bearer, startIntake, type TestIntake } from '../support/intake.ts';
import { problem } from '../support/problem.ts';
import { temporaryDirectory } from '../support/sqlite-store.ts';
import { until } from '../support/until.ts';

const owner = bearer(adminToken);

async function ended(dq: TestIntake, path: string) {
  return until('it has ended', async () => {
    const { body } = await dq.api('GET', path);
    return body.state === 'running' ? null : body;
  });
}

function newDirectory(): string {
  const { path, remove } = temporaryDirectory();
  onTestFinished(remove);
  return join(path, 'copy');
}

it('backup: copies store and registry into a new directory, once', async () => {
  const dq = await startIntake();
  await dq.api('POST', '/v1/topics', { topic: 't', callbackUrl: 'http://127.0.0.1:9000/' });
  expect(await dq.api('GET', '/v1/backup')).toMatchObject({ status: 200, body: { state: 'none' } });
  const directory = newDirectory();
  const start = () => dq.api('POST', '/v1/backup', { directory }, owner);
  expect(await start()).toMatchObject({ status: 202, body: { startedAt: expect.stringMatching(/Z$/) } });
  expect(await ended(dq, '/v1/backup')).toEqual({
    ...{ state: 'done', startedAt: expect.any(String), endedAt: expect.any(String), directory },
    bytes: expect.any(Number),
  });
  expect(readdirSync(directory)).toContain('jobs.db');
  expect((await start()).status).toBe(202);
  expect(await ended(dq, '/v1/backup')).toMatchObject({
    state: 'failed',
    reason: expect.stringContaining('already exists'),
  });
});

it('backup: accepts only the token of this start', async () => {
  const dq = await startIntake();
  const directory = newDirectory();
  const { body } = await dq.api('POST', '/v1/tokens', { name: 'admin', scopes: ['admin'] });
  const call = dq.api('POST', '/v1/backup', { directory }, bearer(body.token));
  expect(await call).toMatchObject(problem(403, 'forbidden'));
  await dq.call('DELETE', '/v1/tokens/admin', { headers: bearer(adminToken) });
  const stranger = await startIntake();
  expect(await stranger.api('POST', '/v1/backup', { directory })).toMatchObject(problem(403, 'forbidden'));
  expect(existsSync(directory)).toBe(false);
});

it('backup: the directory must be an absolute path', async () => {
  const dq = await startIntake();
  for (const directory of ['', 'x', './x', '/a\0b', `/${'x'.repeat(5_000)}`])
    expect(await dq.api('POST', '/v1/backup', { directory }, owner)).toMatchObject(
      problem(400, 'invalid', 'directory'),
    );
  expect((await dq.api('GET', '/v1/backup')).body).toEqual({ state: 'none' });
});

it('fsck: counts the examined jobs and lists the problems', async () => {
  const dq = await startIntake();
  await dq.api('POST', '/v1/topics', { topic: 't', callbackUrl: 'http://127.0.0.1:9000/' });
  await dq.push('t', '1', '?id=a&delay=1h');
  expect((await dq.api('POST', '/v1/fsck')).status).toBe(202);
  expect(await ended(dq, '/v1/fsck')).toMatchObject({ state: 'done', jobs: 1, problems: [] });
  await dq.sqlite.owner.inspect((db) => db.exec('DELETE FROM body'));
  expect((await dq.api('POST', '/v1/fsck')).status).toBe(202);
  expect(await ended(dq, '/v1/fsck')).toMatchObject({
    state: 'done',
    problems: [{ invariant: 'I1', count: 1, examples: [expect.any(String)] }],
  });
});

it('relink: is 409 no_shards for jobs in one file', async () => {
  const dq = await startIntake();
  const reply = await dq.api('POST', '/v1/fsck?relink=true');
  expect(reply).toMatchObject(problem(409, 'no_shards'));
  expect((await dq.api('GET', '/v1/fsck')).body).toEqual({ state: 'none' });
});

it('one runs at a time: the second is 409', async () => {
  const dq = await startIntake({
    store: (store) => ({
      ...store,
      admin: { ...store.admin, startFsck: async () => 'busy', startBackup: async () => 'busy' },
    }),
  });
  expect(await dq.api('POST', '/v1/fsck')).toMatchObject(problem(409, 'work_running'));
  const backup = await dq.api('POST', '/v1/backup', { directory: '/nowhere' }, owner);
  expect(backup).toMatchObject(problem(409, 'work_running'));
});
