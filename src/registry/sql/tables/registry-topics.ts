// Stores topics: a change compares the revision, and a deletion leaves its name for caches that missed it.

import { topicNamePattern } from '../../../core/topic/fields.ts';
import {
  type OutcomeField,
  type OutcomeProblem,
  type OutcomeTopics,
  outcomeFields,
  outcomeProblem,
} from '../../../core/topic/outcome-topics.ts';
import type { NamingTopic, Registry, TopicDraft, TopicRemains } from '../../../ports/registry.ts';
import { wallNow } from '../../../runtime/time.ts';
import type { SecretCipher } from '../keys/encryption.ts';
import { sqlLimits } from '../limits.ts';
import type { Db, RegistryAccess } from '../registry-engine.ts';
import type { RegistrySchema } from '../schema/registry-schema.ts';
import { removeSeries } from './registry-series.ts';
import { removeStats } from './registry-stats.ts';
import { type PageSize, TopicPages } from './topic-pages.ts';
import { readTopic, secretsOf, toColumns, toTopic } from './topic-row.ts';

export function topicVerbs(db: RegistryAccess, cipher: () => SecretCipher, page: PageSize) {
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
        if (row === null) return null;
        const { revision, on_done: onDone, on_dead: onDead } = row;
        return { revision, secrets: readableSecrets(row, cipher()), onDone, onDead };
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
        if ((await naming(trx, topic)) !== null) return 'in_use';
        const revision = await draw();
        await trx.deleteFrom('topic').where('name', '=', topic).execute();
        await trx.insertInto('topic_tombstone').values({ name: topic, revision }).execute();
        await removeStats(trx, topic);
        await removeSeries(trx, topic);
        return 'removed';
      }),
    outcomeProblem: (draft) =>
      db.read(async (tables) => problemOf(tables, draft, await find(tables, draft.topic))),
    namedBy: (topic) => db.read((tables) => naming(tables, topic)),
  } satisfies Partial<Registry>;
}

/** In the transaction of a change: the revision row lets no other change of a topic run beside it. */
async function problemOf(
  db: Db,
  draft: Pick<TopicDraft, 'topic' | OutcomeField>,
  old: RegistrySchema['topic'] | null,
): Promise<OutcomeProblem | null> {
  const targets = outcomeFields.map((field) => draft[field]).filter((name) => name !== '');
  if (targets.length === 0) return null;
  if (old !== null && old.on_done === draft.onDone && old.on_dead === draft.onDead) return null;
  const missing = new Set<string>();
  for (const target of targets)
    if (target !== draft.topic && (await find(db, target)) === null) missing.add(target);
  const stored = new Map([
    ...(await reached(db, draft.topic === '' ? [] : [draft.topic], sourcesOf, ({ name }) => [name])),
    ...(await reached(db, targets, namedOf, ({ on_done, on_dead }) => [on_done, on_dead])),
  ]);
  return outcomeProblem(draft.topic, draft, stored, missing);
}

type NamingRow = Pick<RegistrySchema['topic'], 'name' | 'on_done' | 'on_dead'>;

/** All topics on the ways from these on. Stored ways have at most limits.outcomeTopicsMax steps. */
async function reached(
  db: Db,
  from: readonly string[],
  step: (db: Db, names: readonly string[]) => Promise<readonly NamingRow[]>,
  next: (row: NamingRow) => readonly string[],
): Promise<ReadonlyMap<string, OutcomeTopics>> {
  const found = new Map<string, OutcomeTopics>();
  const asked = new Set(['']);
  for (let ahead = [...from]; ahead.length > 0; ) {
    const names = ahead.slice(0, sqlLimits.registryPageRows);
    for (const name of names) asked.add(name);
    const rows = await step(db, names);
    for (const { name, on_done: onDone, on_dead: onDead } of rows) found.set(name, { onDone, onDead });
    const further = [...ahead.slice(names.length), ...rows.flatMap(next)];
    ahead = [...new Set(further)].filter((name) => !asked.has(name));
  }
  return found;
}

const outcomes = (db: Db) => db.selectFrom('topic').select(['name', 'on_done', 'on_dead']);
const sourcesOf = (db: Db, names: readonly string[]): Promise<readonly NamingRow[]> =>
  outcomes(db)
    .where((has) => has.or([has('on_done', 'in', names), has('on_dead', 'in', names)]))
    .execute();
const namedOf = (db: Db, names: readonly string[]): Promise<readonly NamingRow[]> =>
  outcomes(db).where('name', 'in', names).execute();

/** One topic that names this one, other than itself. */
async function naming(db: Db, wanted: string): Promise<NamingTopic | null> {
  const row = await outcomes(db)
    .where((has) => has.or([has('on_done', '=', wanted), has('on_dead', '=', wanted)]))
    .where('name', '!=', wanted)
    .limit(1)
    .executeTakeFirst();
  return row === undefined ? null : { topic: row.name, field: row.on_done === wanted ? 'onDone' : 'onDead' };
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
