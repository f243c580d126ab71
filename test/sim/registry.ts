// The registry of a world: its topics are those of the TopicTable; schedules, operations and statistics are
// in the real tables of registry.db, over a database in memory. It dies with no process, and fails only as a
// whole.
// Left out: topics and tokens in tables. Each poll of each process would cost a query.

import type { Kysely } from 'kysely';
import type { StatName } from '../../src/core/series.ts';
import { noShards } from '../../src/core/shard-list.ts';
import type { Registry } from '../../src/ports/registry.ts';
import { StoreError } from '../../src/ports/store-error.ts';
import { type RegistryDb, registryOver } from '../../src/registry/sql/registry-db.ts';
import { migrate } from '../../src/registry/sql/schema/migrate.ts';
import { type RegistrySchema, registrySchema } from '../../src/registry/sql/schema/registry-schema.ts';
import { kyselyOver, sqliteEngine } from '../../src/registry/sql/sqlite/sqlite-engine.ts';
import { type Database, openDatabase, type Statement } from '../../src/runtime/database.ts';
import type { Occasions } from './occasions.ts';
import { ShardTable } from './redis/shard-table.ts';
import type { TopicTable } from './topics.ts';

export const registryId = 'r1';

/** Writes after which dq-store can die before it replies. */
export const registryWrites = [
  'addStats',
  'claimSchedules',
  'endTicks',
  'claimOperation',
  'checkpointOperation',
] as const;
type RegistryWrite = (typeof registryWrites)[number];

/** Of all worlds, one after the other: a migration of each would cost as much as the rest of its start. */
interface Tables {
  readonly database: Database;
  readonly db: Kysely<RegistrySchema>;
  /** statements that remove what a world has left */
  readonly empty: string;
}
let tables: Tables | null = null;

/** What rules see of the registry: each answer, before its caller has it. */
export type RegistryWatch = {
  readonly [M in keyof Registry]?: Registry[M] extends (...given: infer G) => Promise<infer R>
    ? (result: R, ...given: G) => void
    : never;
};

/** Before the first world, once. */
export async function loadRegistry(): Promise<void> {
  const database = openDatabase(':memory:');
  const db = kyselyOver<RegistrySchema>(database);
  await migrate(db, registrySchema, () => 0);
  const names = database.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").all() as {
    name: string;
  }[];
  const filled = names.flatMap(({ name }) => insertsOf(database, name));
  const removed = names.map(({ name }) => `DELETE FROM ${name};`);
  tables = { database, db, empty: ['BEGIN;', ...removed, ...filled, 'COMMIT'].join('\n') };
}

/** Statements that write what the table holds now. */
function insertsOf(database: Database, table: string): readonly string[] {
  const rows = database.prepare(`SELECT * FROM ${table}`, { returnArrays: true }).all() as unknown[][];
  const textOf = (value: unknown) => (typeof value === 'string' ? `'${value}'` : String(value));
  return rows.map((row) => `INSERT INTO ${table} VALUES (${row.map(textOf).join(', ')});`);
}

type Seen = (result: unknown, ...given: readonly unknown[]) => void;

/** Methods that ask no file. */
const isLocal = (name: string) => name === 'read' || name === 'close' || name === 'onChange';

export class RegistryTables {
  readonly #database: Database;
  readonly #db: RegistryDb;
  readonly #overdue: Statement;
  readonly watches: RegistryWatch[] = [];

  /** `topics`: their names */
  constructor(topics: readonly string[]) {
    if (tables === null) throw new Error('loadRegistry() was not called');
    const { database, db, empty } = tables;
    this.#database = database;
    if (database.isTransaction) database.exec('ROLLBACK');
    database.exec(empty);
    // Statistics of an unregistered topic are dropped.
    for (const name of topics)
      this.#database.prepare(`INSERT INTO topic VALUES (?, 'active', '', '', 1, 0, 0, '', '')`).run(name);
    this.#overdue = this.#database.prepare('SELECT name FROM schedule WHERE next_at < ?');
    const engine = { ...sqliteEngine(db), close: async () => {} };
    this.#db = registryOver(engine, null, registryId);
  }

  registry(topics: TopicTable, occasions: Occasions, shards: ShardTable | null): Registry {
    const db = this.#db;
    const writing = (write: RegistryWrite) => {
      const act = db[write].bind(db) as (...given: unknown[]) => Promise<unknown>;
      const done = async (...given: unknown[]) => {
        const result = await act(...given);
        occasions.happened('registry', write);
        return result;
      };
      return [write, done];
    };
    const methods: Partial<Registry> = {
      ...Object.fromEntries(registryWrites.map(writing)),
      ...(shards ?? new ShardTable(noShards)).registry,
      // The tables stay for the next dq-store.
      close: async () => {},
      ...topics.registry,
    };
    return new Proxy<Registry>(db, {
      get: (_, name) => {
        const value = methods[name as keyof Registry] ?? db[name as keyof RegistryDb];
        if (typeof value !== 'function') return value;
        const act = value.bind(db) as (...given: unknown[]) => unknown;
        if (isLocal(String(name))) return act;
        return async (...given: unknown[]) => {
          if (topics.isAway) throw new StoreError({ kind: 'not_stored', code: 'busy' });
          const result = await act(...given);
          for (const watch of this.watches)
            (watch[name as keyof Registry] as Seen | undefined)?.(result, ...given);
          return result;
        };
      },
    });
  }

  /** names of the schedules whose next instant is before this time */
  overdue(wall: number): readonly string[] {
    const rows = this.#overdue.all(wall) as { readonly name: string }[];
    return rows.map(({ name }) => name);
  }

  /** Sum over all topics. */
  recorded(name: StatName): number {
    const sum = this.#database.prepare('SELECT sum(total) AS n FROM topic_stat WHERE name = ?').get(name);
    return (sum as { n: number | null }).n ?? 0;
  }
}
