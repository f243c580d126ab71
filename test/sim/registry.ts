// The registry of a world: its topics are those of the TopicTable; schedules, operations and statistics are
// in the real tables of registry.db, over a database in memory. It dies with no process, and fails only as a
// whole.
// Left out: topics and tokens in tables. Each poll of each process would cost a query.

import { noShards, type ShardList } from '../../src/core/shard-list.ts';
import type { Registry, StatName } from '../../src/ports/registry.ts';
import { StoreError } from '../../src/ports/store-error.ts';
import { RegistryDb } from '../../src/registry/sql/registry-db.ts';
import type { RegistryEngine } from '../../src/registry/sql/registry-engine.ts';
import { migrate } from '../../src/registry/sql/schema/migrate.ts';
import { type RegistrySchema, registrySchema } from '../../src/registry/sql/schema/registry-schema.ts';
import { kyselyOver } from '../../src/registry/sql/sqlite/sqlite-dialect.ts';
import { toStoreError, untilFree } from '../../src/registry/sql/sqlite/sqlite-failure.ts';
import { putRowsOneByOne } from '../../src/registry/sql/tables/registry-series.ts';
import { addOneByOne } from '../../src/registry/sql/tables/registry-stats.ts';
import { type Database, openDatabase } from '../../src/runtime/database.ts';
import type { Occasions } from './occasions.ts';
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

/** Statements that make an empty registry. */
let emptyRegistry: string | null = null;

/** Before the first world, once: a migration of each world would cost as much as the rest of its start. */
export async function loadRegistry(): Promise<void> {
  const database = openDatabase(':memory:');
  const db = kyselyOver<RegistrySchema>(database);
  await migrate(db, registrySchema, () => 0);
  const tables = database.prepare('SELECT sql FROM sqlite_master WHERE sql IS NOT NULL').all() as {
    sql: string;
  }[];
  const columns = Object.entries(database.prepare('SELECT * FROM registry').get() as object);
  const names = columns.map(([name]) => name).join(', ');
  const values = columns.map(([, value]) => (typeof value === 'string' ? `'${value}'` : String(value)));
  emptyRegistry = `BEGIN; ${tables.map(({ sql }) => `${sql};`).join('\n')}
    INSERT INTO registry (${names}) VALUES (${values.join(', ')}); COMMIT`;
  await db.destroy();
}

/** Methods that ask no file. */
const isLocal = (name: string) => name === 'read' || name === 'close' || name === 'onChange';

export class RegistryTables {
  readonly #database: Database;
  readonly #db: RegistryDb;

  /** `topics`: their names */
  constructor(topics: readonly string[]) {
    if (emptyRegistry === null) throw new Error('loadRegistry() was not called');
    this.#database = openDatabase(':memory:');
    this.#database.exec(emptyRegistry);
    // Statistics of an unregistered topic are dropped.
    for (const name of topics)
      this.#database.prepare(`INSERT INTO topic VALUES (?, 'active', '', '', 1, 0, 0)`).run(name);
    const engine: RegistryEngine = {
      db: kyselyOver<RegistrySchema>(this.#database),
      lock: async () => {},
      addStats: addOneByOne,
      putSeries: putRowsOneByOne,
      attempt: untilFree,
      failureOf: toStoreError,
      close: async () => {},
    };
    this.#db = new RegistryDb(engine, null, registryId);
  }

  registry(topics: TopicTable, occasions: Occasions, list: ShardList = noShards): Registry {
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
      shards: async () => ({ revision: 1, list }),
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
          return act(...given);
        };
      },
    });
  }

  /** Sum over all topics. */
  recorded(name: StatName): number {
    const sum = this.#database.prepare('SELECT sum(total) AS n FROM topic_stat WHERE name = ?').get(name);
    return (sum as { n: number | null }).n ?? 0;
  }

  close(): void {
    this.#database.close();
  }
}
