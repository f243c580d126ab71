// Defines the registry tables once for SQLite and MySQL: the type of their rows, their statements, and the
// migration steps of SQLite (MySQL: mysql-schema.ts). Notes become comments inside the statements, which are
// part of the released checksums.
// A later step has statements of its own for both databases, and adds its columns to RegistrySchema.

import { type MigrationSchema, renderSchema, type Schema } from './migrate.ts';

/** `T`: a value of it in a row. */
interface Kind<T> {
  readonly sqlite: string;
  readonly mysql: string;
  /** never set */
  readonly value?: T;
}

interface Column<T> extends Kind<T> {
  readonly note: string;
  /** name of the unique key of this column in MySQL */
  readonly uniqueKey?: string;
}

type Columns = Readonly<Record<string, Column<unknown>>>;

interface Table<C = Columns> {
  readonly columns: C;
  /** columns of the primary key; empty: the only row */
  readonly key: readonly string[];
  readonly indexes: Readonly<Record<string, readonly string[]>>;
  /** in SQLite the rows are in the index of the key */
  readonly isClustered: boolean;
}

const inAscii = 'CHARACTER SET ascii COLLATE ascii_bin';
const int: Kind<number> = { sqlite: 'INTEGER', mysql: 'INT' };
/** Times, revisions, counts. */
const big: Kind<number> = { sqlite: 'INTEGER', mysql: 'BIGINT' };
const text: Kind<string> = { sqlite: 'TEXT', mysql: 'TEXT' };
const longText: Kind<string> = { sqlite: 'TEXT', mysql: 'MEDIUMTEXT' };
const asciiText: Kind<string> = { sqlite: 'TEXT', mysql: `TEXT ${inAscii}` };
const longAsciiText: Kind<string> = { sqlite: 'TEXT', mysql: `MEDIUMTEXT ${inAscii}` };
/** MySQL: base64 */
const blob: Kind<string | Uint8Array> = { sqlite: 'BLOB', mysql: `TEXT ${inAscii}` };
const chars = (max: number): Kind<string> => ({ sqlite: 'TEXT', mysql: `VARCHAR(${max})` });
const ascii = (max: number): Kind<string> => ({ sqlite: 'TEXT', mysql: `VARCHAR(${max}) ${inAscii}` });
/** Names: a collation of MySQL would find `a` under `A`. Those of topics and tokens have at most 128 and 64
 *  ASCII characters (core/topic/fields.ts, core/token.ts); 191 and 128 leave space and keep every key within
 *  the 767 bytes of the oldest row formats. */
const name = (max: number): Kind<string> => ({ sqlite: 'TEXT', mysql: `VARBINARY(${max})` });

const needed = <T>({ sqlite, mysql }: Kind<T>, note = ''): Column<T> => ({
  sqlite: `${sqlite} NOT NULL`,
  mysql: `${mysql} NOT NULL`,
  note,
});
const orNull = <T>({ sqlite, mysql }: Kind<T>, note = ''): Column<T | null> => ({
  sqlite,
  mysql: `${mysql} NULL`,
  note,
});
const orEmpty = ({ sqlite, mysql }: Kind<string>, note = ''): Column<string> => ({
  sqlite: `${sqlite} NOT NULL DEFAULT ''`,
  mysql: `${mysql} NOT NULL DEFAULT ''`,
  note,
});
const unique = (uniqueKey: string, kind: Kind<string>, note: string): Column<string> => ({
  sqlite: `${kind.sqlite} NOT NULL UNIQUE`,
  mysql: `${kind.mysql} NOT NULL`,
  note,
  uniqueKey,
});
/** of a table with one row */
const only: Column<number> = {
  sqlite: 'INTEGER PRIMARY KEY CHECK (only = 1)',
  mysql: 'INT NOT NULL PRIMARY KEY',
  note: '',
};

function table<C extends Columns>(
  key: readonly (keyof NoInfer<C> & string)[],
  columns: C,
  { indexes = {}, isClustered = false }: Partial<Pick<Table, 'indexes' | 'isClustered'>> = {},
): Table<C> {
  return { key, columns, indexes, isClustered };
}

export const registryTables = {
  /** the counter of revisions, incremented by each change; no key_check: there is no key yet */
  registry: table([], {
    only,
    revision: needed(big),
    key_check: orNull(ascii(255), 'a text encrypted with the key of the secrets'),
  }),
  /** One row per registered topic. settings and secrets are JSON documents: readers need all of it, no query
   *  looks inside, and a new setting needs no migration. on_done and on_dead repeat two settings, so that an
   *  index finds the topics that name another one. */
  topic: table(
    ['name'],
    {
      name: needed(name(191)),
      state: needed(chars(20), 'active, paused, offline'),
      settings: needed(longText, 'JSON'),
      secrets: needed(asciiText, 'JSON, the current one first, encrypted'),
      revision: needed(big, 'of its last change'),
      created_at: needed(big, 'epoch ms'),
      updated_at: needed(big),
      on_done: orEmpty(name(191), 'topics that the settings name; empty: none'),
      on_dead: orEmpty(name(191)),
    },
    { indexes: { topic_revision: ['revision'], topic_on_done: ['on_done'], topic_on_dead: ['on_dead'] } },
  ),
  /** deleted names that were not created again, for caches that missed the deletion */
  topic_tombstone: table(
    ['name'],
    { name: needed(name(191)), revision: needed(big, 'of the deletion') },
    { indexes: { topic_tombstone_revision: ['revision'] } },
  ),
  /** Per topic and counter: total, and count of the newest day. Rows only for existing topics, so the table
   *  is bounded. A row per day would need cleanup, and nothing shows older days. */
  topic_stat: table(['topic', 'name'], {
    topic: needed(name(191)),
    name: needed(chars(20), 'pushed, delivered, retried, dead, cancelled'),
    total: needed(big),
    day: needed(int, 'yyyymmdd of today'),
    today: needed(big),
  }),
  /** access tokens: their digests, which do not reveal them */
  token: table(['name'], {
    name: needed(name(128)),
    id: unique('token_id', name(64), 'the readable part of the token'),
    digest: needed(chars(64), 'SHA-256 of the token, hexadecimal'),
    scopes: needed(text, 'JSON list'),
    topics: needed(longText, 'JSON list of globs'),
    created_at: needed(big, 'epoch ms'),
    ends_at: orNull(big, 'epoch ms; null: it does not end'),
    used_at: orNull(big, 'of the last known use'),
  }),
  /** one document, always read whole; encrypted, because URLs hold passwords */
  shard_list: table([], {
    only,
    revision: needed(big, 'of its last change'),
    list: needed(longAsciiText, 'JSON, encrypted'),
  }),
  /** drawn by the first process that opens the registry (registry-engine.ts) */
  registry_id: table([], {
    only,
    id: needed(ascii(64), '16 hexadecimal digits; in the mark of each Redis of this registry'),
  }),
  /** console sessions: digests of their two halves */
  session: table(['id'], {
    id: needed(ascii(64), 'names it in lists'),
    cookie_digest: unique('session_cookie', ascii(64), 'SHA-256, hexadecimal'),
    key_digest: needed(ascii(64)),
    name: needed(chars(128), 'of the token or link'),
    scopes: needed(text, 'JSON list'),
    topics: needed(longText, 'JSON list of globs'),
    token_id: orNull(ascii(64), 'the session ends with this token'),
    signed_in_by: needed(chars(20), 'token, link, machine'),
    address: needed(chars(64), 'IP address of the sign-in'),
    browser: needed(chars(64), 'names of the browser and its system; empty: unknown'),
    created_at: needed(big, 'epoch ms'),
    used_at: needed(big),
    ends_at: needed(big, 'at the latest'),
  }),
  /** unused links that begin a session */
  sign_in_link: table(['digest'], {
    digest: needed(ascii(64), 'SHA-256, hexadecimal'),
    name: needed(chars(128)),
    scopes: needed(text, 'JSON list'),
    topics: needed(longText, 'JSON list of globs'),
    token_id: orNull(ascii(64), 'the token that made it'),
    ends_at: needed(big, 'epoch ms'),
  }),
  /** bulk work, and the lease of its process */
  operation: table(['id'], {
    id: needed(ascii(64)),
    record: needed(longText, 'JSON: what readers see'),
    work: needed(longText, 'JSON: what its process needs to go on'),
    is_open: needed(int, '1: a process has to work on it'),
    token: needed(big, 'rises with each claim'),
    holder: orNull(ascii(64), 'instance.incarnation of its process; null: released'),
    lease_until: needed(big, 'epoch ms'),
    created_at: needed(big),
  }),
  /** Per topic, step and writer what happened in the step (core/series.ts). Bounded by the times that rows
   *  are kept, and by upkeepLimits.seriesTopicsMax. */
  series: table(
    ['topic', 'step', 'at', 'instance', 'incarnation'],
    {
      topic: needed(name(191), 'empty: all topics together'),
      step: needed(int, 'seconds'),
      at: needed(big, 'epoch s of its beginning'),
      instance: needed(big),
      incarnation: needed(big, 'of the process that wrote it'),
      packed: needed(blob, 'counts and histograms'),
    },
    { isClustered: true },
  ),
  /** Changes by operators, at most limits.auditMax; ids begin with the time. The log files of kind audit have
   *  all of them. */
  audit: table(
    ['id'],
    {
      id: needed(ascii(64), 'epoch ms and random digits, hexadecimal'),
      actor: needed(name(191), 'name of a token, link or session'),
      address: needed(chars(64), 'IP address of the caller'),
      action: needed(name(64), 'operationId of the call'),
      topic: orNull(name(191)),
      job: orNull(name(1024)),
      detail: orNull(longText, 'JSON: the difference, or filter and count'),
      status: needed(int, 'HTTP status of the answer'),
      code: orNull(chars(64), 'of the error'),
    },
    { indexes: { audit_topic: ['topic', 'id'] } },
  ),
  /** recurring jobs: the next instant, and the claim of the process that makes its job */
  schedule: table(
    ['name'],
    {
      name: needed(name(128)),
      record: needed(longText, 'JSON: what an operator sets'),
      revision: needed(big),
      next_at: orNull(big, 'epoch ms; null: paused, or no instant follows'),
      made_at: orNull(big, 'the last instant whose job was made'),
      claim_until: needed(big, 'epoch ms: a process makes the job of next_at'),
      claims: needed(int, 'of next_at, so far'),
      problem: orNull(text, 'why the last job was not made'),
    },
    { indexes: { schedule_due: ['next_at'] } },
  ),
};

type Tables = typeof registryTables;
type RowOf<C> = { -readonly [K in keyof C]: C[K] extends Column<infer T> ? T : never };

export type RegistrySchema = MigrationSchema & {
  readonly [T in keyof Tables]: RowOf<Tables[T]['columns']>;
};

/** The statements of these tables, and in SQLite those of their indexes. */
export function createTables(
  dialect: 'sqlite' | 'mysql',
  tables: readonly (keyof Tables)[],
): readonly string[] {
  return tables.flatMap((table) => {
    const { indexes, isClustered }: Table = registryTables[table];
    const body = bodyOf(registryTables[table], dialect);
    if (dialect === 'mysql')
      return [`CREATE TABLE IF NOT EXISTS ${table} (\n${body}) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4`];
    return [
      `CREATE TABLE ${table} (\n${body})${isClustered ? ' WITHOUT ROWID' : ''}`,
      ...Object.entries(indexes).map(
        ([index, its]) => `CREATE INDEX ${index} ON ${table} (${its.join(', ')})`,
      ),
    ];
  });
}

function bodyOf({ key, columns, indexes }: Table, dialect: 'sqlite' | 'mysql'): string {
  const lines = Object.entries(columns).map(([column, its]) => {
    const isKey = key.length === 1 && key[0] === column;
    return { line: `${column} ${its[dialect]}${isKey ? ' PRIMARY KEY' : ''}`, note: its.note };
  });
  const add = (line: string) => lines.push({ line, note: '' });
  if (key.length > 1) add(`PRIMARY KEY (${key.join(', ')})`);
  if (dialect === 'mysql') {
    for (const [column, { uniqueKey }] of Object.entries(columns))
      if (uniqueKey !== undefined) add(`UNIQUE KEY ${uniqueKey} (${column})`);
    for (const [index, its] of Object.entries(indexes)) add(`KEY ${index} (${its.join(', ')})`);
  }
  const last = lines.length - 1;
  return lines
    .map(({ line, note }, n) => `  ${line}${n < last ? ',' : ''}${note === '' ? '' : ` -- ${note}`}\n`)
    .join('');
}

/** Beside registry and schedule, in the order of their statements. */
export const tablesOfStep1 = [
  ...(['topic', 'topic_tombstone', 'topic_stat', 'token', 'shard_list', 'registry_id', 'session'] as const),
  ...(['sign_in_link', 'operation', 'series', 'audit'] as const),
];

export const registrySchema: Schema = {
  createTable: `CREATE TABLE IF NOT EXISTS migration (
  number INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  checksum TEXT NOT NULL,
  applied_at INTEGER NOT NULL -- epoch ms
)`,
  script: {
    begin: 'BEGIN;',
    end: 'COMMIT;',
    insert: 'INSERT',
    // unixepoch('subsec') needs SQLite 3.42.
    now: "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)",
  },
  migrations: [
    {
      number: 1,
      name: 'tables',
      statements: [
        ...createTables('sqlite', ['registry']),
        'INSERT INTO registry (only, revision) VALUES (1, 0)',
        ...createTables('sqlite', [...tablesOfStep1, 'schedule']),
      ],
    },
  ],
};

/** sql/sqlite/registry.sql, also printed by the command line. */
export function registrySchemaScript(): string {
  return renderSchema(
    "The registry's schema for SQLite, generated from src/registry/sql/schema/registry-schema.ts: sqlite3 registry.db < registry.sql",
    registrySchema,
  );
}
