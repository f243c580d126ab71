// Opens registry.db: private, undamaged, of a known schema, with the key of its secrets. A file that fails a
// check is rejected before any byte changes.

import { closeSync, openSync, statSync } from 'node:fs';
import { DqError, reasonOf } from '../../../core/errors.ts';
import { limits } from '../../../core/limits.ts';
import type { Database } from '../../../runtime/database.ts';
import {
  askAndForget,
  isDamage,
  openDatabase,
  pragma,
  sqliteCode,
  sqliteCodes,
} from '../../../runtime/database.ts';
import { foreignLogText, readHeader } from '../../../runtime/database-header.ts';
import type { SecretCipher } from '../keys/encryption.ts';
import type { KeyOptions } from '../keys/registry-key.ts';
import { existingCipher, holdsPlainSecrets, openCipher } from '../keys/registry-key.ts';
import { encryptPlainHeaders, holdsPlainHeaders } from '../keys/stored-headers.ts';
import { sqlLimits } from '../limits.ts';
import type { RegistryEngine } from '../registry-engine.ts';
import { checkSchema, migrate } from '../schema/migrate.ts';
import type { RegistrySchema } from '../schema/registry-schema.ts';
import { encryptedSince, registrySchema } from '../schema/registry-schema.ts';
import { openRegistryId } from '../tables/registry-id.ts';
import { putRowsOneByOne } from '../tables/registry-series.ts';
import { addOneByOne } from '../tables/registry-stats.ts';
import { kyselyOver } from './sqlite-dialect.ts';
import { toStoreError, untilFree } from './sqlite-failure.ts';

export interface RegistryFileOptions extends KeyOptions {
  /** An interrupted first start leaves an empty file, which counts as new; beside jobs it counts as
   *  damage. */
  readonly rejectEmpty?: boolean;
}

/** Rejects with a one-sentence DqError for the user. */
export async function openRegistryFile(
  path: string,
  options: RegistryFileOptions,
): Promise<{ readonly engine: RegistryEngine; readonly cipher: SecretCipher; readonly id: string }> {
  const what = `the registry ${path}`;
  let database: Database | undefined;
  try {
    if (options.rejectEmpty === true && statSync(path, { throwIfNoEntry: false })?.size === 0)
      throw damaged(what, 'it is empty');
    if (!createPrivate(path)) checkLog(path);
    database = openDatabase(path);
    count(path, 1);
    const opened = database;
    const db = kyselyOver<RegistrySchema>(opened, () => count(path, -1));
    const engine: RegistryEngine = {
      db,
      // The dialect takes the lock at BEGIN.
      lock: async () => {},
      addStats: addOneByOne,
      putSeries: putRowsOneByOne,
      attempt: untilFree,
      failureOf: toStoreError,
    };
    const { cipher, id } = await untilFree(async () => {
      checkWhole(opened, what);
      const step = await checkSchema(db, registrySchema, what);
      if (step >= encryptedSince) await existingCipher(db, what, options);
      // WAL: readers never wait for the writer. FULL: an acknowledged topic survives a power cut.
      opened.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL');
      opened.exec(`PRAGMA journal_size_limit = ${sqlLimits.registryWalBytesMax};
        PRAGMA wal_autocheckpoint = ${sqlLimits.registryLogPagesMax}`);
      await migrate(db, registrySchema, Date.now);
      // Set before encrypting: if the process dies before the rewrite, the next start does it.
      if ((await holdsPlainSecrets(db)) || (await holdsPlainHeaders(db)))
        opened.exec(`PRAGMA user_version = ${mayHoldPlain}`);
      const cipher = await openCipher(engine, what, options);
      await encryptPlainHeaders(engine, cipher);
      if (pragma(opened, 'user_version') === mayHoldPlain) rewriteFile(opened, what, options);
      return { cipher, id: await openRegistryId(engine, what) };
    });
    return { engine, cipher, id };
  } catch (error) {
    if (database !== undefined) count(path, -1);
    database?.close();
    if (error instanceof DqError) throw error;
    if (isDamage(error)) throw damaged(what, reasonOf(error), error);
    throw new DqError('unavailable', `cannot open ${what}: ${reasonOf(error)}`, { cause: error });
  }
}

/** Whether a registry that another process has open has exactly this version's schema. Read only. */
export function isOfThisSchema(path: string): boolean {
  const db = openDatabase(path, { readOnly: true, waitMs: limits.registryBusyMs });
  try {
    return Number(askAndForget(db, 'max(number)', 'migration')) === registrySchema.migrations.at(-1)?.number;
  } finally {
    db.close();
  }
}

/** In the file header (user_version, otherwise 0): plain secrets or headers may remain in free pages. */
const mayHoldPlain = 1;

/** Removes plain texts from free pages and from the WAL. */
function rewriteFile(database: Database, what: string, { warn }: KeyOptions): void {
  try {
    database.exec('VACUUM; PRAGMA wal_checkpoint(TRUNCATE); PRAGMA user_version = 0');
  } catch (error) {
    // The rows are encrypted; a full disk must not prevent the start.
    if (sqliteCode(error) !== sqliteCodes.full) throw error;
    warn(
      `${what} may still hold plain secrets or headers in free pages, because the disk has no space to rewrite it; the next start tries again`,
    );
  }
}

/** Connections of this process, by path: reading such a file by other means would drop their locks. */
const connections = new Map<string, number>();

function count(path: string, change: 1 | -1): void {
  const now = (connections.get(path) ?? 0) + change;
  if (now > 0) connections.set(path, now);
  else connections.delete(path);
}

/** Returns whether it is new. Opening and closing an existing one would drop the locks of this process. */
function createPrivate(path: string): boolean {
  try {
    closeSync(openSync(path, 'wx', 0o600));
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    return false;
  }
}

/** Runs before SQLite opens the file: opening replays a WAL that may be foreign. */
function checkLog(path: string): void {
  if (connections.has(path)) return;
  const foreignLog = foreignLogText(path, readHeader(path));
  if (foreignLog !== null) throw new DqError('unavailable', `the registry ${foreignLog}`);
}

function checkWhole(database: Database, what: string): void {
  const verdict = pragma(database, 'quick_check(1)');
  if (verdict !== 'ok') throw damaged(what, String(verdict).replaceAll(/\s+/g, ' '));
}

function damaged(what: string, detail: string, cause?: unknown): DqError {
  return new DqError('unavailable', `${what} is damaged (${detail}); restore it from a backup`, { cause });
}
