// Tests the registry's key file and files: never a plain secret, never a new key over secrets that another
// key encrypted.
import { chmodSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { Registry } from '../../src/ports/registry.ts';
import { openRegistryDb } from '../../src/registry/sql/registry-db.ts';
import { openDatabase } from '../../src/runtime/database.ts';
import { testDirectory } from '../support/directory.ts';
import { changesOf } from '../support/registry-pages.ts';
import { draft as draftOf } from './registry/case.ts';

const secret = 'whsec_QXMgcGxhaW4gYXMgZGF5bGlnaHQsIDMyIGJ5dGVz';
const old = 'whsec_VGhlIG9uZSBiZWZvcmUgaXQsIG9mIDMyIGJ5dGVzLi4u';

let directory = '';
let path = '';
let keyPath = '';
const opened: Registry[] = [];
beforeEach(() => {
  directory = testDirectory();
  path = join(directory, 'registry.db');
  keyPath = join(directory, 'secret.key');
});
afterEach(async () => {
  for (const registry of opened.splice(0)) await registry.close();
});

async function open(warn: (sentence: string) => void = () => {}): Promise<Registry> {
  const registry = await openRegistryDb(path, { warn });
  opened.push(registry);
  return registry;
}

const secrets = [
  { secret, untilAt: null },
  { secret: old, untilAt: 5_000_000_000_000 },
];
const draft = (topic: string) => draftOf(topic, { secrets });

/** A closed registry with a topic. */
async function prepared(): Promise<void> {
  const registry = await open();
  await registry.create(draft('order.close'));
  await registry.close();
}

function everyByte(): string {
  return readdirSync(dirname(path))
    .map((name) => readFileSync(join(dirname(path), name), 'latin1'))
    .join('\n');
}

it('a first start creates a private key, and no other file', async () => {
  await open();
  expect(statSync(keyPath).mode & 0o777).toBe(0o600);
  expect(readFileSync(keyPath, 'latin1')).toMatch(/^v1:[A-Za-z0-9+/]{43}=\n$/);
  expect(readdirSync(directory).filter((name) => !name.startsWith('registry.db'))).toEqual(['secret.key']);
});

it('secrets are read back and are plain in no file, WAL included', async () => {
  const registry = await open();
  await registry.create(draft('order.close'));
  const topic = await registry.get('order.close');
  await registry.update({ ...draft('order.close'), title: 'x' }, topic?.revision ?? 0);
  expect(topic?.secrets).toEqual(secrets);
  expect((await changesOf(registry, 0)).topics[0]?.secrets).toEqual(secrets);
  for (const one of [secret, old]) {
    expect(everyByte().includes(one)).toBe(false);
    expect(everyByte().includes(one.slice(6, 30))).toBe(false);
  }
  await registry.close();
  expect((await (await open()).get('order.close'))?.secrets).toEqual(secrets);
});

it('the key stays the same from start to start', async () => {
  await prepared();
  const key = readFileSync(keyPath);
  await prepared();
  expect(readFileSync(keyPath)).toEqual(key);
});

it('a key file without a registry is used: its start may have died', async () => {
  const key = `v1:${Buffer.alloc(32, 7).toString('base64')}\n`;
  writeFileSync(keyPath, key, { mode: 0o600 });
  await prepared();
  expect(readFileSync(keyPath, 'latin1')).toBe(key);
  expect((await (await open()).get('order.close'))?.secrets[0]?.secret).toBe(secret);
});

it('two concurrent starts use one key', async () => {
  const both = await Promise.all([open(), open()]);
  await both[0].create(draft('order.close'));
  expect((await both[1].get('order.close'))?.secrets[0]?.secret).toBe(secret);
});

it('a missing key file is rejected with its remedy, and not created', async () => {
  await prepared();
  const before = readFileSync(path);
  rmSync(keyPath);
  await expect(open()).rejects.toThrow(
    /^the key file \S+secret\.key is missing, and the secrets in the registry \S+ are unreadable without it; restore it from a backup/,
  );
  expect(readdirSync(directory).filter((name) => name.startsWith('secret'))).toEqual([]);
  expect(readFileSync(path)).toEqual(before);
});

it('another key is rejected with its remedy, and changes nothing', async () => {
  await prepared();
  const before = readFileSync(path);
  const right = readFileSync(keyPath);
  const wrong = `v1:${Buffer.alloc(32, 7).toString('base64')}\n`;
  writeFileSync(keyPath, wrong);
  await expect(open()).rejects.toThrow(/does not fit the secrets .* restore the key file/);
  expect(readFileSync(path)).toEqual(before);
  expect(readFileSync(keyPath, 'latin1')).toBe(wrong);
  writeFileSync(keyPath, right);
  expect((await (await open()).get('order.close'))?.secrets[0]?.secret).toBe(secret);
});

it.each([
  '',
  '\n',
  'v1:',
  `v1:${'A'.repeat(42)}`,
  `v2:${'A'.repeat(43)}=`,
  `${'A'.repeat(43)}=`,
  'v1:x\nv1:y',
])('a key file that holds %j is rejected as damaged, with and without secrets', async (text) => {
  writeFileSync(keyPath, text, { mode: 0o600 });
  await expect(open()).rejects.toThrow(/secret\.key is damaged; restore it from a backup/);
  rmSync(keyPath);
  await prepared();
  writeFileSync(keyPath, text, { mode: 0o600 });
  await expect(open()).rejects.toThrow(/secret\.key is damaged/);
  expect(readFileSync(keyPath, 'latin1')).toBe(text);
});

it('a key file accessible to others is a warning, and works', async () => {
  await prepared();
  const warnings: string[] = [];
  for (const mode of [0o640, 0o604, 0o660]) {
    chmodSync(keyPath, mode);
    await open((sentence) => warnings.push(sentence));
  }
  expect(warnings).toHaveLength(3);
  expect(warnings[0]).toMatch(/is accessible to other users \(mode 0640\); run chmod 600 \S+secret\.key$/);
  chmodSync(keyPath, 0o400);
  await open((sentence) => warnings.push(sentence));
  expect(warnings).toHaveLength(3);
});

it('secrets in the row of another topic are invalid', async () => {
  const registry = await open();
  await registry.create(draft('a'));
  await registry.create({ ...draft('b'), secrets: [{ secret: old, untilAt: null }] });
  const beside = openDatabase(path);
  beside.exec("UPDATE topic SET secrets = (SELECT secrets FROM topic WHERE name = 'b') WHERE name = 'a'");
  beside.close();
  await expect(registry.get('a')).rejects.toMatchObject({
    failure: { kind: 'not_stored', code: 'unreadable_topic' },
  });
  expect((await registry.get('b'))?.secrets[0]?.secret).toBe(old);
});
