// Copies the content of registry.db to MySQL, for `dq move`. A note in the data directory names the copy,
// from before its COMMIT until MySQL is in force: a copy that a crash left behind may be replaced, another
// registry never. Invariants: what must not be lost is copied in one transaction; registry.db is only read.
// Sessions are not copied: people sign in again.

import { readFileSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { type RawBuilder, sql } from 'kysely';
import { firstAuditId } from '../../core/audit.ts';
import { DqError, messageOf } from '../../core/errors.ts';
import { type RegistryCounts, registryText } from '../../core/left-behind.ts';
import { inBatches, partsWithin } from '../../core/lists.ts';
import { type MysqlServer, placeOf } from '../../core/url/server-url.ts';
import { writeDurably } from '../../runtime/files.ts';
import { wallNow } from '../../runtime/time.ts';
import { existingCipher } from './keys/registry-key.ts';
import { sqlLimits } from './limits.ts';
import { kyselyOverMysql, lockRegistry, migrateMysql } from './mysql/mysql-engine.ts';
import { CommitError, type Db, findRegistryId, headOf } from './registry-engine.ts';
import { type RegistrySchema, registryTables } from './schema/registry-schema.ts';

interface MoveNote {
  /** MySQL, without user and password */
  readonly to: string;
  /** of the copied registry */
  readonly id: string;
  /** of the copy in MySQL */
  readonly revision: number;
  /** MySQL has a list of Redis servers of its own, whose markers name its id */
  readonly keepsList: boolean;
  /** `copied`: the copy is whole, and registry.db takes no change until this daemon ends */
  readonly state: 'copying' | 'copied';
}

const noteIn = (dataDir: string): string => join(dataDir, 'registry-move.json');

/** null: no copy, or an unreadable note: then MySQL with topics counts as another registry. */
export function readMoveNote(dataDir: string): MoveNote | null {
  try {
    return JSON.parse(readFileSync(noteIn(dataDir), 'utf8')) as MoveNote;
  } catch {
    return null;
  }
}

export const writeMoveNote = (dataDir: string, note: MoveNote): Promise<void> =>
  writeDurably(noteIn(dataDir), `${JSON.stringify(note)}\n`);

const removeMoveNote = (dataDir: string): void => rmSync(noteIn(dataDir), { force: true });

/** The names that registry.db has after its move. */
const movedName = 'registry.db.moved';

/** MySQL is in force: gives a copied registry.db another name, so that no start takes it for the registry. */
export function putAside(dataDir: string): void {
  for (const end of ['', '-wal', '-shm'])
    try {
      renameSync(join(dataDir, `registry.db${end}`), join(dataDir, `${movedName}${end}`));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    }
  removeMoveNote(dataDir);
}

/** What MySQL holds. `isOurs`: an earlier copy of this registry that was never in force, or nothing */
interface MoveTarget extends RegistryCounts {
  readonly isOurs: boolean;
}

/** Read only; also of a database without tables. */
export async function moveTargetOf(db: Db, place: string, note: MoveNote | null): Promise<MoveTarget> {
  const tables = new Set((await db.introspection.getTables()).map(({ name }) => name));
  const count = async (table: 'topic' | 'token' | 'schedule'): Promise<number> => {
    if (!tables.has(table)) return 0;
    const { n } = await db
      .selectFrom(table)
      .select((eb) => eb.fn.countAll<number>().as('n'))
      .executeTakeFirstOrThrow();
    return Number(n);
  };
  const found = {
    topics: await count('topic'),
    tokens: await count('token'),
    schedules: await count('schedule'),
  };
  if (found.topics + found.tokens + found.schedules === 0) return { ...found, isOurs: true };
  const isNamed =
    note !== null &&
    note.to === place &&
    note.id === (await findRegistryId(db)) &&
    note.revision === (await headOf(db)).revision;
  return { ...found, isOurs: isNamed };
}

export const whyNotInto = (target: MoveTarget, place: string): string | null =>
  target.isOurs ? null : `registry: ${place} has ${registryText(target)}; give an empty database`;

interface MoveOptions {
  readonly dataDir: string;
  readonly keyPath: string;
  /** Rejects changes of registry.db from now on, and waits for those that run. */
  readonly close: () => Promise<void>;
}

/** Rejects with a one-sentence DqError; then MySQL is as before, or the note names the copy in it. */
export async function copyRegistry(source: Db, server: MysqlServer, options: MoveOptions): Promise<void> {
  const place = placeOf(server);
  try {
    await onMysql(server, async (db) => {
      const what = `the registry in MySQL ${place}`;
      await migrateMysql(db, server, what);
      // Secrets are copied as they are: MySQL must have no other key.
      await existingCipher(db, what, { keyPath: options.keyPath, isShared: true, warn: () => {} });
      await new Copy(source, db, place, options).run();
    });
  } catch (error) {
    if (error instanceof DqError) throw error;
    const cause = error instanceof CommitError ? error.cause : error;
    throw new DqError('unavailable', `cannot copy the registry to MySQL ${place}: ${messageOf(cause)}`, {
      cause: error,
    });
  }
}

/** Undoes a copy that was not put in force. Rejects when MySQL does not answer: the note still names it. */
export async function removeCopy(server: MysqlServer, dataDir: string): Promise<void> {
  const place = placeOf(server);
  const note = readMoveNote(dataDir);
  if (note === null) return;
  await writeMoveNote(dataDir, { ...note, state: 'copying' });
  await onMysql(server, async (db) => {
    await db.transaction().execute(async (trx) => {
      await lockRegistry(trx);
      if ((await moveTargetOf(trx, place, note)).isOurs) await empty(trx, note);
    });
    removeMoveNote(dataDir);
  });
}

async function onMysql(server: MysqlServer, work: (db: Db) => Promise<void>): Promise<void> {
  const { MysqlConnections } = await import('./mysql/mysql-pool.ts');
  const connections = new MysqlConnections(server, sqlLimits.mysqlMoveMs / 1_000);
  try {
    await work(kyselyOverMysql<RegistrySchema>(connections, sqlLimits.mysqlMoveMs));
  } finally {
    await connections.close();
  }
}

/** Copied in one transaction, after the two large ones. */
const small = ['topic', 'topic_tombstone', 'topic_stat', 'token', 'schedule', 'operation'] as const;
type Table = (typeof small)[number] | 'series' | 'audit';
type Row = Readonly<Record<string, unknown>>;

class Copy {
  readonly #source: Db;
  readonly #target: Db;
  readonly #place: string;
  readonly #options: MoveOptions;

  constructor(source: Db, target: Db, place: string, options: MoveOptions) {
    this.#source = source;
    this.#target = target;
    this.#place = place;
    this.#options = options;
  }

  async run(): Promise<void> {
    const { dataDir, close } = this.#options;
    const before = readMoveNote(dataDir);
    await this.#check(this.#target, before);
    // Without a transaction, while changes go on: the rest is short.
    const began = wallNow();
    await this.#copy(this.#target, 'series');
    await this.#copy(this.#target, 'audit');
    await close();
    const { id, revision, keyCheck } = await this.#head();
    let note: MoveNote | null = null;
    try {
      await this.#target.transaction().execute(async (trx) => {
        await lockRegistry(trx);
        const found = await this.#check(trx, before);
        // An earlier copy; else MySQL may have operations of its own.
        if (found.topics + found.tokens + found.schedules > 0) await empty(trx, before);
        const target = await headOf(trx);
        const keepsList =
          (await trx.selectFrom('shard_list').select('only').executeTakeFirst()) !== undefined;
        const shift = target.revision;
        const shifted = (row: Row): Row => ({ ...row, revision: Number(row['revision']) + shift });
        await this.#copy(trx, 'topic', shifted);
        await this.#copy(trx, 'topic_tombstone', shifted);
        for (const table of ['topic_stat', 'token', 'schedule', 'operation'] as const)
          await this.#copy(trx, table);
        // An entry has the time of its request, and is written later than others of that time.
        const late = firstAuditId(began - sqlLimits.auditLateMs);
        await this.#copy(trx, 'audit', undefined, [late]);
        await this.#copySeriesSince(trx, Math.floor(began / 1_000));
        if (!keepsList) {
          const list = await this.#source.selectFrom('shard_list').selectAll().executeTakeFirst();
          if (list !== undefined) await this.#insert(trx, 'shard_list', [shifted(list)]);
          await this.#insert(trx, 'registry_id', [{ only: 1, id }]);
        }
        note = {
          to: this.#place,
          id: keepsList ? ((await findRegistryId(trx)) ?? id) : id,
          revision: revision + shift,
          keepsList,
          state: 'copying',
        };
        await trx
          .updateTable('registry')
          .set({ revision: note.revision, key_check: target.keyCheck ?? keyCheck })
          .execute();
        // Before the COMMIT: whatever dies now, the note names what may be in MySQL.
        await writeMoveNote(dataDir, note);
      });
    } catch (error) {
      if (note !== null && !(error instanceof CommitError)) removeMoveNote(dataDir);
      throw error;
    }
    if (note !== null) await writeMoveNote(dataDir, { ...(note as MoveNote), state: 'copied' });
  }

  async #check(db: Db, note: MoveNote | null): Promise<MoveTarget> {
    const target = await moveTargetOf(db, this.#place, note);
    const why = whyNotInto(target, this.#place);
    if (why !== null) throw new DqError('unavailable', why);
    return target;
  }

  async #head() {
    const id = await findRegistryId(this.#source);
    if (id === null) throw new Error('registry.db has no id');
    return { id, ...(await headOf(this.#source)) };
  }

  /** Pages in the order of the key, after `last`. */
  async #copy(
    target: Db,
    table: Table,
    change: (row: Row) => Row = (row) => row,
    last: readonly unknown[] | null = null,
  ): Promise<void> {
    const { key } = registryTables[table];
    const columns = sql.join(key.map((column) => sql.ref(column)));
    for (let reached = last; ; ) {
      const after = reached === null ? sql`` : sql`WHERE (${columns}) > (${sql.join(reached)})`;
      const rows = await this.#read(sql`SELECT * FROM ${sql.table(table)} ${after}
        ORDER BY ${columns} LIMIT ${sql.lit(sqlLimits.registryPageRows)}`);
      const end = rows.at(-1);
      if (end === undefined) return;
      await this.#insert(target, table, rows.map(change));
      reached = key.map((column) => end[column]);
    }
  }

  /** Rows of a step are written until its end. */
  async #copySeriesSince(target: Db, since: number): Promise<void> {
    const rows = await this.#read(sql`SELECT * FROM series WHERE at + step >= ${since}`);
    await this.#insert(target, 'series', rows);
  }

  async #read(query: RawBuilder<unknown>): Promise<readonly Row[]> {
    return (await query.execute(this.#source)).rows as readonly Row[];
  }

  /** In statements that fit into a packet of MySQL. Rows of an earlier try are replaced. */
  async #insert(target: Db, table: keyof RegistrySchema, rows: readonly Row[]): Promise<void> {
    const stored = rows.map((row) => {
      const { packed } = row;
      return packed instanceof Uint8Array ? { ...row, packed: Buffer.from(packed).toString('base64') } : row;
    });
    for (const page of inBatches(stored, sqlLimits.registryPageRows))
      for (const some of partsWithin(page, sqlLimits.registryPageBytes, bytesOf))
        await target
          .replaceInto(table)
          .values(some as never)
          .execute();
  }
}

const bytesOf = (row: Row): number =>
  Object.values(row).reduce<number>((sum, value) => sum + String(value).length, 0);

/** Removes what an earlier copy has brought. */
async function empty(trx: Db, note: MoveNote | null): Promise<void> {
  for (const table of small) await trx.deleteFrom(table).execute();
  if (note?.keepsList === false) await trx.deleteFrom('shard_list').execute();
}
