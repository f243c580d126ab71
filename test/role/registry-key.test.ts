// Tests the registry's key file and files: never a plain secret, never a new key over secrets that another
// key encrypted.
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { topicDefaults } from '../../src/core/topic/topic.ts';
import type { Registry, TopicDraft } from '../../src/ports/registry.ts';
import { openRegistryDb } from '../../src/registry/sql/registry-db.ts';
import { renderSchema } from '../../src/registry/sql/schema/migrate.ts';
import { encryptedSince, registrySchema } from '../../src/registry/sql/schema/registry-schema.ts';
import { openDatabase } from '../../src/runtime/database.ts';
import { freeBytesIn, mountTmpfs, unmountable } from '../support/mounted.ts';
import { changesOf } from '../support/registry-pages.ts';

const secret = 'whsec_QXMgcGxhaW4gYXMgZGF5bGlnaHQsIDMyIGJ5dGVz';
const old = 'whsec_VGhlIG9uZSBiZWZvcmUgaXQsIG9mIDMyIGJ5dGVzLi4u';

let directory = '';
let path = '';
let keyPath = '';
const opened: Registry[] = [];
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'dq-key-'));
  path = join(directory, 'registry.db');
  keyPath = join(directory, 'secret.key');
});
afterEach(async () => {
  for (const registry of opened.splice(0)) await registry.close();
  rmSync(directory, { recursive: true, force: true });
});

async function open(warn: (sentence: string) => void = () => {}): Promise<Registry> {
  const registry = await openRegistryDb(path, { warn });
  opened.push(registry);
  return registry;
}

const draft = (topic: string): TopicDraft => ({
  ...topicDefaults,
  callbackUrl: 'http://127.0.0.1:9000/',
  topic,
  state: 'active',
  secrets: [
    { secret, untilAt: null },
    { secret: old, untilAt: 5_000_000_000_000 },
  ],
});

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
  expect(topic?.secrets).toEqual(draft('order.close').secrets);
  expect((await changesOf(registry, 0)).topics[0]?.secrets).toEqual(draft('order.close').secrets);
  for (const one of [secret, old]) {
    expect(everyByte().includes(one)).toBe(false);
    expect(everyByte().includes(one.slice(6, 30))).toBe(false);
  }
  await registry.close();
  expect((await (await open()).get('order.close'))?.secrets).toEqual(draft('order.close').secrets);
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

/** A registry without a key, with topics and counters. */
function plainRegistry(topics: number, counters = 0): void {
  const before = openDatabase(path);
  before.exec('PRAGMA journal_mode = WAL');
  before.exec(
    renderSchema('', {
      ...registrySchema,
      migrations: registrySchema.migrations.slice(0, encryptedSince - 1),
    }),
  );
  const insert = before.prepare("INSERT INTO topic VALUES (?, 'active', ?, ?, 1, 1, 1)");
  for (let n = 0; n < topics; n++)
    insert.run(`t${n}`, JSON.stringify({ callbackUrl: 'http://a/' }), JSON.stringify(draft('a').secrets));
  const count = before.prepare('INSERT INTO topic_stat VALUES (?, ?, 1, 1, 1)');
  before.exec('BEGIN');
  for (let n = 0; n < counters; n++) count.run(`t${n}`, 'pushed');
  before.exec('COMMIT; UPDATE registry SET revision = 1; PRAGMA wal_checkpoint(TRUNCATE)');
  before.close();
  expect(everyByte().includes(secret)).toBe(true);
}

it('plain secrets are encrypted by the start that creates the key, to the last byte', async () => {
  plainRegistry(50);
  const { secrets } = draft('a');
  const registry = await open();
  const { topics } = await changesOf(registry, 0);
  expect(topics).toHaveLength(50);
  for (const topic of topics) expect(topic.secrets).toEqual(secrets);
  expect(everyByte().includes(secret)).toBe(false);
  await registry.close();
  expect(everyByte().includes(secret)).toBe(false);
  expect(everyByte().includes(old)).toBe(false);
  expect((await (await open()).get('t49'))?.secrets).toEqual(secrets);
});

it('plain headers are encrypted by a start, to the last byte', async () => {
  const registry = await open();
  const names = Array.from({ length: 250 }, (_, n) => `t${n}`);
  for (const name of names) await registry.create({ ...draft(name), title: '"headers":{"x":' });
  await registry.close();
  const headers = { authorization: 'Bearer geheim-im-kopf' };
  const before = openDatabase(path);
  const write = before.prepare("UPDATE topic SET settings = json_set(settings, '$.headers', json(?))");
  write.run(JSON.stringify(headers));
  before.exec("UPDATE topic SET settings = '{\"headers\":{\"broken' WHERE name = 't9'");
  before.exec('PRAGMA wal_checkpoint(TRUNCATE)');
  before.close();
  expect(everyByte().includes('geheim-im-kopf')).toBe(true);
  const again = await open();
  expect(everyByte().includes('geheim-im-kopf')).toBe(false);
  for (const name of names.filter((one) => one !== 't9')) {
    const topic = await again.get(name);
    expect([topic?.headers, topic?.revision]).toEqual([headers, names.indexOf(name) + 1]);
  }
});

it.skipIf(unmountable !== null)(
  `plain secrets left by a start on a full disk are removed by the next${unmountable === null ? '' : `: ${unmountable}`}`,
  async () => {
    const small = mountTmpfs(4 * 1024 * 1024);
    path = join(small, 'registry.db');
    plainRegistry(50, 20_000);
    const filler = join(small, 'filler');
    writeFileSync(filler, Buffer.alloc(freeBytesIn(small) - 400 * 1024));
    const warnings: string[] = [];
    const first = await open((sentence) => warnings.push(sentence));
    expect(warnings).toEqual([expect.stringMatching(/^the registry \S+ may still hold plain secrets/)]);
    expect((await first.get('t49'))?.secrets).toEqual(draft('a').secrets);
    await first.close();
    rmSync(filler);
    await (await open((sentence) => warnings.push(sentence))).close();
    expect(warnings).toHaveLength(1);
    for (const one of [secret, old]) expect(everyByte().includes(one)).toBe(false);
  },
);
