// What a process knows of the registry's topics and tokens while answers come late and in another order, or the registry itself goes
// back.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { everyTopic, makeToken, type TokenRecord } from '../../src/core/token.ts';
import { topicDefaults } from '../../src/core/topic.ts';
import type { Registry } from '../../src/registry/registry.ts';
import { TokenBook } from '../../src/registry/token-book.ts';
import { TopicBook } from '../../src/registry/topic-book.ts';
import { openRegistryDb } from '../../src/sql/registry-db.ts';
import { silentLog } from '../../src/telemetry/log.ts';
import { secret } from './rig.ts';

const draft = {
  ...topicDefaults,
  callbackUrl: 'http://127.0.0.1:9/',
  topic: 't',
  state: 'active',
  secrets: [{ secret, untilAt: null }],
} as const;

it('an answer that was overtaken by a younger one takes nothing back', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'dq-book-'));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  const registry = await openRegistryDb(join(directory, 'registry.db'));
  onTestFinished(() => registry.close());
  let hold: Promise<void> = Promise.resolve();
  const slow: Registry = Object.assign(Object.create(registry) as Registry, {
    changes: async (since: number) => {
      const held = hold;
      const answer = await registry.changes(since);
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
  await registry.changes(0);
  hold = Promise.resolve();
  const again = await registry.create(draft);
  await book.refresh();
  expect(book.get('t')?.revision).toBe(again.kind === 'created' ? again.topic.revision : null);
  answerNow();
  await overtaken;
  expect(book.get('t')).toBeDefined();
});

/** What a process asks is answered by the one that `now` gives. */
function either(now: () => Registry): Registry {
  return {
    changes: (since: number) => now().changes(since),
    tokens: (since: number) => now().tokens(since),
    onChange: () => () => {},
  } as unknown as Registry;
}

it('a registry that was put back to an earlier state is read anew, and followed from there', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'dq-book-'));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  const open = async (name: string) => {
    const registry = await openRegistryDb(join(directory, name));
    onTestFinished(() => registry.close());
    return registry;
  };
  const [lost, restored] = [await open('lost.db'), await open('restored.db')];
  const { id, digest, token: text } = makeToken();
  const token: TokenRecord = { name: 'a', id, digest, scopes: ['push'], topics: [everyTopic], createdAt: 0 };
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
  const told = new Set<string>();
  topics.onChange((names) => {
    for (const name of names) told.add(name);
  });
  now = restored;
  await Promise.all([topics.refresh(), tokens.refresh()]);
  expect([...topics.all()].map(({ topic }) => topic)).toEqual(['t']);
  expect(told).toEqual(new Set(['t', 'u', 'v', 'w']));
  expect(errors).toEqual(['the registry has gone back to an earlier state: its topics are read anew']);
  await restored.removeToken('a');
  await restored.create({ ...draft, topic: 'x' });
  await Promise.all([topics.refresh(), tokens.refresh()]);
  expect(topics.get('x')).toBeDefined();
  expect(tokens.rightsOf(text, Buffer.from(digest, 'hex'))).toBeNull();
});
