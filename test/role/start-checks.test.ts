import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it, onTestFinished } from 'vitest';
import { whyNotStart } from '../../src/cli/start-checks.ts';
import { loadConfig } from '../../src/config/load.ts';
import type { Config } from '../../src/config/options.ts';
import { allRights, makeToken } from '../../src/core/token.ts';
import { ControlSocket } from '../../src/master/control-socket.ts';
import { DataDirectory } from '../../src/master/data-directory.ts';
import { openRegistryDb } from '../../src/sql/registry-db.ts';

let root = '';
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'dq-checks-'));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

function why(dataDir: string, flags: Readonly<Record<string, unknown>> = {}): Promise<string | null> {
  const loaded = loadConfig({
    flags: { dataDir, 'server.port': '0', ...flags },
    env: {},
    cwd: root,
  });
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems));
  const config: Config = loaded.config;
  return whyNotStart({ config, pidFile: null, running: 1 });
}

it('start checks: a directory that can be made or used passes, and nothing is made', async () => {
  expect(await why(join(root, 'a/b/c'))).toBeNull();
  mkdirSync(join(root, 'data'));
  expect(await why(join(root, 'data'))).toBeNull();
});

it('start checks: a file or a read-only place instead of the data directory is named', async () => {
  writeFileSync(join(root, 'file'), '');
  expect(await why(join(root, 'file'))).toMatch(/^the data directory .*file cannot be used: it is a file$/);
  expect(await why('/proc/1/dq')).toMatch(/^the data directory \/proc\/1\/dq cannot be made: E/);
});

it('start checks: a data directory of another daemon is in use', async () => {
  const data = await DataDirectory.open(join(root, 'data'));
  onTestFinished(() => data.close());
  const control = new ControlSocket({ status: () => ({ url: null }) } as never);
  onTestFinished(() => control.close());
  await control.listen(data.controlSocket);
  expect(await why(join(root, 'data'))).toBe(
    `the data directory ${join(root, 'data')} is in use: already running (pid ${process.pid})`,
  );
});

it('start checks: an address of other machines needs a token, in a new and in an old registry', async () => {
  const dataDir = join(root, 'data');
  const flags = { 'server.host': '0.0.0.0' };
  const sentence = /^server\.host: 0\.0\.0\.0 can be reached from other machines and no access token exists/;
  expect(await why(dataDir, flags)).toMatch(sentence);
  expect(await why(dataDir, { ...flags, noAuth: true })).toBeNull();
  mkdirSync(dataDir);
  const registry = await openRegistryDb(join(dataDir, 'registry.db'));
  onTestFinished(() => registry.close());
  expect(await why(dataDir, flags)).toMatch(sentence);
  await registry.createToken({ ...makeToken(), ...allRights, name: 'ops', createdAt: 0 });
  expect(await why(dataDir, flags)).toBeNull();
});

it('start checks: MySQL that does not answer is not judged, as a start does not wait for it', async () => {
  expect(await why(join(root, 'data'), { 'mysql.url': 'mysql://u:p@127.0.0.1:1/dq' })).toBeNull();
});
