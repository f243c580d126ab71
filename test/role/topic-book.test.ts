import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { everyTopic, makeToken, type TokenRecord } from '../../src/core/token.ts';
import type { ChangePlace, Registry, TopicRecord } from '../../src/ports/registry.ts';
import { openRegistryDb } from '../../src/registry/sql/registry-db.ts';
import { TokenBook } from '../../src/registry/token-book.ts';
import { TopicBook } from '../../src/registry/topic-book.ts';
import { openDatabase } from '../../src/runtime/database.ts';
import { silentLog } from '../../src/telemetry/log.ts';
import { testDirectory } from '../support/directory.ts';
import { draft as draftOf } from './registry/case.ts';

const draft = draftOf('t');

it('topic book: an overtaken answer undoes nothing', async () => {
  const directory = testDirectory();
  const registry = await openRegistryDb(join(directory, 'registry.db'));
  onTestFinished(() => registry.close());
  let hold: Promise<void> = Promise.resolve();
  const slow: Registry = Object.assign(Object.create(registry) as Registry, {
    changes: async (after: ChangePlace) => {
      const held = hold;
      const answer = await registry.changes(after);
      await held;
      return answer;
    },
  });
  const book = new TopicBook(slow, silentLog);
  const made = await registry.create(draft);
  if (made.kind !== 'created') throw new Error('it is there already');
  await registry.remove('t', made.topic.revision);
  let answerNow = () => {};
  hold = new Promise((resolve) => {
    answerNow = resolve;
  });
  const overtaken = book.refresh();
  await registry.changes({ revision: 0, name: null });
  hold = Promise.resolve();
  const again = await registry.create(draft);
  await book.refresh();
  expect(book.get('t')?.revision).toBe(again.kind === 'created' ? again.topic.revision : null);
  answerNow();
  await overtaken;
  expect(book.get('t')).toBeDefined();
});

/** The registry that answers is the one that `now` returns. */
function either(now: () => Registry): Registry {
  return {
    changes: (after: ChangePlace) => now().changes(after),
    read: (record: TopicRecord) => now().read(record),
    tokens: (since: number) => now().tokens(since),
    onChange: () => () => {},
  } as unknown as Registry;
}

it('topic book: reads a restored registry again, and follows it', async () => {
  const directory = testDirectory();
  const open = async (name: string) => {
    const registry = await openRegistryDb(join(directory, name));
    onTestFinished(() => registry.close());
    return registry;
  };
  const [lost, restored] = [await open('lost.db'), await open('restored.db')];
  const { id, digest, token: text } = makeToken();
  const token: TokenRecord = {
    ...{ name: 'a', id, digest, scopes: ['push'], topics: [everyTopic], createdAt: 0, expiresAt: null },
    usedAt: null,
  };
  for (const registry of [lost, restored]) {
    await registry.create(draft);
    await registry.createToken(token);
  }
  for (const topic of ['u', 'v', 'w']) await lost.create({ ...draft, topic });
  let now = lost;
  const errors: string[] = [];
  const log = { ...silentLog, error: (message: string) => void errors.push(message) };
  const [topics, tokens] = [
    new TopicBook(
      either(() => now),
      log,
    ),
    new TokenBook(
      either(() => now),
      log,
    ),
  ];
  await Promise.all([topics.refresh(), tokens.refresh()]);
  const notified = new Set<string>();
  topics.onChange((names) => {
    for (const name of names) notified.add(name);
  });
  now = restored;
  await Promise.all([topics.refresh(), tokens.refresh()]);
  expect([...topics.all()].map(({ topic }) => topic)).toEqual(['t']);
  expect(notified).toEqual(new Set(['t', 'u', 'v', 'w']));
  expect(errors).toEqual(['registry: it went back to an earlier state; reading all topics again']);
  await restored.removeToken('a');
  await restored.create({ ...draft, topic: 'x' });
  await Promise.all([topics.refresh(), tokens.refresh()]);
  expect(topics.get('x')).toBeDefined();
  expect(tokens.rightsOf(text, Buffer.from(digest, 'hex'))).toBeNull();
});

async function openFile(page = {}) {
  const directory = testDirectory();
  const path = join(directory, 'registry.db');
  const registry = await openRegistryDb(path, { page });
  onTestFinished(() => registry.close());
  const run = (sql: string) => {
    const database = openDatabase(path);
    database.exec(sql);
    database.close();
  };
  return { registry, run };
}

it('topic book: names an unreadable topic once, and reads it after its replacement', async () => {
  const { registry, run } = await openFile();
  await registry.create(draft);
  await registry.create({ ...draft, topic: 'u' });
  const errors: unknown[] = [];
  const log = { ...silentLog, error: (_: string, __: unknown, fields = {}) => void errors.push(fields) };
  const book = new TopicBook(registry, log);
  await book.refresh();
  const notified: string[][] = [];
  book.onChange((names) => void notified.push([...names]));
  run(`UPDATE topic SET settings = '{', revision = 3 WHERE name = 't'; UPDATE registry SET revision = 3`);
  await book.refresh();
  expect([book.get('t'), notified]).toEqual([undefined, [['t']]]);
  await registry.update({ ...draft, topic: 'u', title: 'new' }, 2);
  await book.refresh();
  expect(book.get('u')?.title).toBe('new');
  run(`UPDATE topic SET revision = 5 WHERE name = 't'; UPDATE registry SET revision = 5`);
  await book.refresh();
  expect(errors).toEqual([{ topic: 't' }]);
  await registry.update(draft, 5);
  await book.refresh();
  expect(book.get('t')?.open().secrets).toEqual(draft.secrets);
  run(`UPDATE topic SET settings = '{', revision = 7 WHERE name = 't'; UPDATE registry SET revision = 7`);
  await book.refresh();
  expect(errors).toHaveLength(2);
});

it('topic book: an interrupted refresh continues after its last page', async () => {
  const { registry } = await openFile({ rows: 2 });
  for (let i = 0; i < 7; i += 1) await registry.create({ ...draft, topic: `t${i}` });
  let calls = 0;
  const failing: Registry = Object.assign(Object.create(registry) as Registry, {
    changes(after: ChangePlace) {
      calls += 1;
      return calls === 3 ? Promise.reject(new Error('cut off')) : registry.changes(after);
    },
    read: (record: TopicRecord) => registry.read(record),
  });
  const book = new TopicBook(failing, silentLog, { inOrder: true });
  const notified: string[] = [];
  book.onChange((names) => void notified.push(...names));
  await expect(book.refresh()).rejects.toThrow('cut off');
  expect([book.isKnown, notified]).toEqual([false, ['t0', 't1', 't2', 't3']]);
  await registry.remove('t1', 2);
  await book.refresh();
  expect(book.isKnown).toBe(true);
  expect(notified).toEqual(['t0', 't1', 't2', 't3', 't4', 't5', 't6', 't1']);
  expect(book.namesAfter('', 9)).toEqual(['t0', 't2', 't3', 't4', 't5', 't6']);
  expect(book.namesAfter('t3', 2)).toEqual(['t4', 't5']);
});
