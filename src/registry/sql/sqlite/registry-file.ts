// Opens the file of the embedded registry: readable by its owner alone, whole, of a schema that this version knows, with the
// key that its secrets are sealed with. A file that is not is refused before the first byte of it is changed.

import { closeSync, openSync, statSync } from 'node:fs';
import { DqError, reasonOf } from '../../../core/errors.ts';
import { limits } from '../../../core/limits.ts';
import type { Database } from '../../../runtime/database.ts';
import { askAndForget, openDatabase, pragma, sqliteCode, sqliteCodes } from '../../../runtime/database.ts';
import type { Sealer } from '../keys/encryption.ts';
import type { KeyOptions } from '../keys/registry-key.ts';
import { existingSealer, holdsPlainSecrets, openSealer } from '../keys/registry-key.ts';
import { encryptPlainHeaders, holdsPlainHeaders } from '../keys/stored-headers.ts';
import { sqlLimits } from '../limits.ts';
import type { RegistryEngine } from '../registry-engine.ts';
import { checkSchema, migrate } from '../schema/migrate.ts';
import type { RegistrySchema } from '../schema/registry-schema.ts';
import { registrySchema, sealedSince } from '../schema/registry-schema.ts';
import { toStoreError } from '../store-failure.ts';
import { openRegistryId } from '../tables/registry-id.ts';
import { addOneByOne } from '../tables/registry-stats.ts';
import { kyselyOver } from './sqlite-dialect.ts';
import { untilFree } from './until-free.ts';

export interface RegistryFileOptions extends KeyOptions {
  /** An empty file is what a first start leaves that was cut off, and is taken for a new one; beside jobs it is a damage. */
  readonly refuseEmpty?: boolean;
}

/** Rejects with a DqError whose message is a sentence for the user. */
export async function openRegistryFile(
  path: string,
  options: RegistryFileOptions,
): Promise<{ readonly engine: RegistryEngine; readonly sealer: Sealer; readonly id: string }> {
  const what = `the registry ${path}`;
  let database: Database | undefined;
  try {
    if (options.refuseEmpty === true && statSync(path, { throwIfNoEntry: false })?.size === 0)
      throw damaged(what, 'it is empty');
    createPrivately(path);
    database = openDatabase(path);
    const opened = database;
    const db = kyselyOver<RegistrySchema>(opened);
    const engine: RegistryEngine = {
      db,
      // A writing transaction has taken its lock before its first statement.
      lock: async () => {},
      addStats: addOneByOne,
      attempt: untilFree,
      failureOf: toStoreError,
    };
    const { sealer, id } = await untilFree(async () => {
      checkWhole(opened, what);
      const step = await checkSchema(db, registrySchema, what);
      if (step >= sealedSince) await existingSealer(db, what, options);
      // WAL: readers never wait for the writer. FULL: an acknowledged topic survives a power cut.
      opened.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL');
      opened.exec(`PRAGMA journal_size_limit = ${sqlLimits.registryWalBytesMax};
        PRAGMA wal_autocheckpoint = ${sqlLimits.registryLogPagesMax}`);
      await migrate(db, registrySchema, Date.now);
      // Before they are encrypted: a process that dies between encrypting and rewriting leaves the rewriting to the next start.
      if ((await holdsPlainSecrets(db)) || (await holdsPlainHeaders(db)))
        opened.exec(`PRAGMA user_version = ${traced}`);
      const sealer = await openSealer(engine, what, options);
      await encryptPlainHeaders(engine, sealer);
      if (pragma(opened, 'user_version') === traced) removeTraces(opened, what, options);
      return { sealer, id: await openRegistryId(engine, what) };
    });
    return { engine, sealer, id };
  } catch (error) {
    database?.close();
    if (error instanceof DqError) throw error;
    if (isDamage(error)) throw damaged(what, reasonOf(error), error);
    throw new DqError('unavailable', `${what} cannot be opened: ${reasonOf(error)}`, { cause: error });
  }
}

/** Whether the schema of a registry that another process has open is this version's very own. Changes nothing. */
export function isOfThisSchema(path: string): boolean {
  const db = openDatabase(path, { readOnly: true, waitMs: limits.registryBusyMs });
  try {
    return Number(askAndForget(db, 'max(number)', 'migration')) === registrySchema.migrations.at(-1)?.number;
  } finally {
    db.close();
  }
}

/** In the header of the file (user_version, else 0): secrets or headers have lain in it in the clear, and it was not rewritten since. */
const traced = 1;

/** What was stored in the clear must not stay behind in free pages and in the log. */
function removeTraces(database: Database, what: string, { warn }: KeyOptions): void {
  try {
    database.exec('VACUUM; PRAGMA wal_checkpoint(TRUNCATE); PRAGMA user_version = 0');
  } catch (error) {
    // They are sealed where they are read: no reason to serve nobody until there is room.
    if (sqliteCode(error) !== sqliteCodes.full) throw error;
    warn(
      `${what} may still hold traces of secrets or headers in the clear, because the disk has no space to rewrite it; the next start tries again`,
    );
  }
}

/** Only a new file: opening and closing an existing one would drop the locks that this process holds on it. */
function createPrivately(path: string): void {
  try {
    closeSync(openSync(path, 'wx', 0o600));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}

function checkWhole(database: Database, what: string): void {
  const verdict = pragma(database, 'quick_check(1)');
  if (verdict !== 'ok') throw damaged(what, String(verdict).replaceAll(/\s+/g, ' '));
}

function isDamage(error: unknown): boolean {
  const code = sqliteCode(error);
  return code === sqliteCodes.notADatabase || code === corrupt;
}
const corrupt = 11;

function damaged(what: string, detail: string, cause?: unknown): DqError {
  return new DqError('unavailable', `${what} is damaged (${detail}); restore it from a backup`, { cause });
}
