// Stores topics: a change compares the revision, and a deletion leaves its name for caches that missed it.

import { topicNamePattern } from '../../../core/topic/fields.ts';
import type { Registry, TopicRemains } from '../../../ports/registry.ts';
import { wallNow } from '../../../runtime/time.ts';
import type { SecretCipher } from '../keys/encryption.ts';
import type { Db, RegistryAccess } from '../registry-engine.ts';
import type { RegistrySchema } from '../schema/registry-schema.ts';
import { removeSeries } from './registry-series.ts';
import { removeStats } from './registry-stats.ts';
import { type PageSize, TopicPages } from './topic-pages.ts';
import { readTopic, secretsOf, toColumns, toTopic } from './topic-row.ts';

type TopicVerb = 'changes' | 'read' | 'get' | 'remains' | 'turn' | 'create' | 'update' | 'remove';

export function topicVerbs(
  db: RegistryAccess,
  cipher: () => SecretCipher,
  page: PageSize,
): Pick<Registry, TopicVerb> {
  const pages = new TopicPages(page);
  return {
    async changes(after) {
      const since = after.name === null ? after.revision : -1;
      const { revision, found } = await db.readSince(since, (trx) => pages.read(trx, after));
      return { revision, ...(found ?? { topics: [], deleted: [], next: null }) };
    },
    read: (record) => readTopic(record, cipher),
    get: (topic) =>
      db.read(async (tables) => {
        const row = await find(tables, topic);
        return row === null ? null : toTopic(row, cipher());
      }),
    remains: (topic) =>
      db.read(async (tables) => {
        const row = await find(tables, topic);
        return row === null ? null : { revision: row.revision, secrets: readableSecrets(row, cipher()) };
      }),
    turn: (topic, state, expectedRevision) =>
      db.change(async (trx, draw) => {
        const kind = judge(await find(trx, topic), expectedRevision);
        if (kind !== null) return { kind };
        const revision = await draw();
        const row = { state, revision, updated_at: wallNow() };
        await trx.updateTable('topic').set(row).where('name', '=', topic).execute();
        return { kind: 'updated', revision };
      }),
    create: (draft) =>
      db.change(async (trx, draw) => {
        const { topic: name } = draft;
        if ((await find(trx, name)) !== null) return { kind: 'exists' };
        const [revision, now] = [await draw(), wallNow()];
        const row = { name, ...toColumns(draft, cipher()), revision, created_at: now, updated_at: now };
        await trx.insertInto('topic').values(row).execute();
        await trx.deleteFrom('topic_tombstone').where('name', '=', name).execute();
        return { kind: 'created', topic: toTopic(row, cipher()) };
      }),
    update: (draft, expectedRevision) =>
      db.change(async (trx, draw) => {
        const { topic: name } = draft;
        const old = await find(trx, name);
        if (old === null) return { kind: 'absent' };
        if (old.revision !== expectedRevision) return { kind: 'changed' };
        const row = { ...toColumns(draft, cipher()), revision: await draw(), updated_at: wallNow() };
        await trx.updateTable('topic').set(row).where('name', '=', name).execute();
        return { kind: 'updated', topic: toTopic({ name, ...row, created_at: old.created_at }, cipher()) };
      }),
    remove: (topic, expectedRevision) =>
      db.change(async (trx, draw) => {
        const kind = judge(await find(trx, topic), expectedRevision);
        if (kind !== null) return kind;
        const revision = await draw();
        await trx.deleteFrom('topic').where('name', '=', topic).execute();
        await trx.insertInto('topic_tombstone').values({ name: topic, revision }).execute();
        await removeStats(trx, topic);
        await removeSeries(trx, topic);
        return 'removed';
      }),
  };
}

async function find(db: Db, name: string): Promise<RegistrySchema['topic'] | null> {
  // SQLite would cut a name at a NUL and find another topic.
  if (!topicNamePattern.test(name)) return null;
  return (await db.selectFrom('topic').selectAll().where('name', '=', name).executeTakeFirst()) ?? null;
}

/** null: the row that a compare-and-set expects. */
function judge(row: RegistrySchema['topic'] | null, expectedRevision: number): 'absent' | 'changed' | null {
  if (row === null) return 'absent';
  return row.revision === expectedRevision ? null : 'changed';
}

function readableSecrets(row: RegistrySchema['topic'], cipher: SecretCipher): TopicRemains['secrets'] {
  try {
    return secretsOf(row, cipher);
  } catch {
    return null; // a valid answer
  }
}
