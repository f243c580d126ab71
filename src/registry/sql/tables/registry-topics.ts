// Stores topics: a change compares the revision, and a deletion leaves its name for caches that missed it.

import { topicNamePattern } from '../../../core/topic/fields.ts';
import {
  type OutcomeProblem,
  type OutcomeTopics,
  outcomeFields,
  outcomeProblem,
} from '../../../core/topic/outcome-topics.ts';
import type { NamingTopic, Registry, TopicDraft, TopicRemains } from '../../../ports/registry.ts';
import { wallNow } from '../../../runtime/time.ts';
import type { SecretCipher } from '../keys/encryption.ts';
import type { Db, RegistryAccess } from '../registry-engine.ts';
import type { RegistrySchema } from '../schema/registry-schema.ts';
import { removeSeries } from './registry-series.ts';
import { removeStats } from './registry-stats.ts';
import { type PageSize, TopicPages } from './topic-pages.ts';
import { readTopic, secretsOf, toColumns, toTopic } from './topic-row.ts';

type TopicVerb = 'changes' | 'read' | 'get' | 'remains' | 'turn' | 'create' | 'update' | 'remove' | 'namedBy';

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
        const problem = await problemOf(trx, draft, null);
        if (problem !== null) return { kind: 'bad_outcome', problem };
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
        const problem = await problemOf(trx, draft, old);
        if (problem !== null) return { kind: 'bad_outcome', problem };
        const row = { ...toColumns(draft, cipher()), revision: await draw(), updated_at: wallNow() };
        await trx.updateTable('topic').set(row).where('name', '=', name).execute();
        return { kind: 'updated', topic: toTopic({ name, ...row, created_at: old.created_at }, cipher()) };
      }),
    remove: (topic, expectedRevision) =>
      db.change(async (trx, draw) => {
        const kind = judge(await find(trx, topic), expectedRevision);
        if (kind !== null) return kind;
        if (naming(topic, await outcomesOf(trx)) !== null) return 'in_use';
        const revision = await draw();
        await trx.deleteFrom('topic').where('name', '=', topic).execute();
        await trx.insertInto('topic_tombstone').values({ name: topic, revision }).execute();
        await removeStats(trx, topic);
        await removeSeries(trx, topic);
        return 'removed';
      }),
    namedBy: (topic) => db.read(async (tables) => naming(topic, await outcomesOf(tables))),
  };
}

/** In the transaction of the change: the revision row lets no other change of a topic run beside it. */
async function problemOf(
  db: Db,
  draft: TopicDraft,
  old: RegistrySchema['topic'] | null,
): Promise<OutcomeProblem | null> {
  const targets = outcomeFields.map((field) => draft[field]).filter((name) => name !== '');
  if (targets.length === 0) return null;
  const before = old === null ? null : outcomesIn(old.settings);
  if (before !== null && outcomeFields.every((field) => before[field] === draft[field])) return null;
  const missing = new Set<string>();
  for (const target of targets)
    if (target !== draft.topic && (await find(db, target)) === null) missing.add(target);
  return outcomeProblem(draft.topic, draft, await outcomesOf(db), missing);
}

/** Of all topics that name another one. */
async function outcomesOf(db: Db): Promise<ReadonlyMap<string, OutcomeTopics>> {
  // A text in JSON has no bare quotation mark, so no title looks like this.
  const rows = await db
    .selectFrom('topic')
    .select(['name', 'settings'])
    .where((has) =>
      has.or(
        outcomeFields.map((field) =>
          has.and([
            has('settings', 'like', `%"${field}":"%`),
            has('settings', 'not like', `%"${field}":""%`),
          ]),
        ),
      ),
    )
    .execute();
  return new Map(
    rows.flatMap(({ name, settings }) => {
      const found = outcomesIn(settings);
      return found === null ? [] : [[name, found] as const];
    }),
  );
}

/** null: of an unreadable record */
function outcomesIn(settings: string): OutcomeTopics | null {
  try {
    const { onDone = '', onDead = '' } = JSON.parse(settings) as Partial<OutcomeTopics>;
    return { onDone, onDead };
  } catch {
    return null; // its topic delivers nothing
  }
}

function naming(wanted: string, stored: ReadonlyMap<string, OutcomeTopics>): NamingTopic | null {
  for (const [topic, outcomes] of stored)
    for (const field of outcomeFields)
      if (topic !== wanted && outcomes[field] === wanted) return { topic, field };
  return null;
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
