// Opens registry.db: private, undamaged, of a known schema, with the key of its secrets. A file that fails a
// check is rejected before any byte changes.

import { closeSync, existsSync, openSync, statSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { DqError, messageOf } from '../../../core/errors.ts';
import type { RegistryCounts } from '../../../core/left-behind.ts';
import { limits } from '../../../core/limits.ts';
import {
  askAndForget,
  type Database,
  foreignLogText,
  isDamage,
  openDatabase,
  readHeader,
} from '../../../runtime/database.ts';
import { wallNow } from '../../../runtime/time.ts';
import type { SecretCipher } from '../keys/encryption.ts';
import { existingCipher, type KeyOptions, openCipher } from '../keys/registry-key.ts';
import { sqlLimits } from '../limits.ts';
import { openRegistryId, type RegistryEngine } from '../registry-engine.ts';
import { checkSchema, migrate } from '../schema/migrate.ts';
import { type RegistrySchema, registrySchema } from '../schema/registry-schema.ts';
import { kyselyOver, sqliteEngine, untilFree } from './sqlite-engine.ts';

export interface RegistryFileOptions extends KeyOptions {
  /** jobs.db exists: an empty or missing registry is a loss. An interrupted first start leaves an empty file
   *  without jobs.db, which counts as new. */
  readonly mustExist?: boolean;
}

/** Every further open is rejected, too, until an operator has changed the files. */
export class RegistryRejected extends DqError {}

/** Rejects with a one-sentence DqError for the user: RegistryRejected where a repeat does not help. */
export async function openRegistryFile(
  path: string,
  options: RegistryFileOptions,
): Promise<{ readonly engine: RegistryEngine; readonly cipher: SecretCipher; readonly id: string }> {
  const what = `the registry ${path}`;
  let database: Database | undefined;
  try {
    const lost = whyLost(path, options.mustExist === true);
    if (lost !== null) throw new RegistryRejected('unavailable', lost);
    if (!createPrivate(path)) await untilFree(async () => checkFile(path));
    database = openDatabase(path);
    count(path, 1);
    const opened = database;
    const db = kyselyOver<RegistrySchema>(opened, () => count(path, -1));
    const engine = sqliteEngine(db);
    const { cipher, id } = await untilFree(async () => {
      const step = await checkSchema(db, registrySchema, what);
      if (step > 0) await existingCipher(db, what, options);
      // WAL: readers never wait for the writer. FULL: an acknowledged topic survives a power cut.
      opened.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL');
      opened.exec(`PRAGMA journal_size_limit = ${sqlLimits.registryWalBytesMax};
        PRAGMA wal_autocheckpoint = ${sqlLimits.registryLogPagesMax}`);
      await migrate(db, registrySchema, wallNow);
      const cipher = await openCipher(engine, what, options);
      return { cipher, id: await openRegistryId(engine, what) };
    });
    return { engine, cipher, id };
  } catch (error) {
    if (database !== undefined) count(path, -1);
    database?.close();
    // A key file that could not be read or made may be usable later.
    if (error instanceof DqError)
      throw error instanceof RegistryRejected || error.cause !== undefined
        ? error
        : new RegistryRejected('unavailable', error.message, { cause: error });
    if (isDamage(error)) throw damaged(path, error);
    throw new DqError('unavailable', `cannot open the registry ${path}: ${messageOf(error)}`, {
      cause: error,
    });
  }
}

/** Creates no file: without a WAL no process has it open, and SQLite needs no lock. Throws for a missing or
 *  damaged file. */
export function countContent(path: string): RegistryCounts {
  const url = existsSync(`${path}-wal`) ? path : `${pathToFileURL(path).href}?immutable=1`;
  return readOnly(url, limits.registryBusyMs, (db) => {
    const count = (table: string) => Number(askAndForget(db, 'count(*)', table));
    return { topics: count('topic'), tokens: count('token'), schedules: count('schedule') };
  });
}

/** Whether a registry that another process has open has exactly this version's schema. Read only. */
export function isOfThisSchema(path: string): boolean {
  return readOnly(path, limits.registryBusyMs, (db) => {
    return Number(askAndForget(db, 'max(number)', 'migration')) === registrySchema.migrations.at(-1)?.number;
  });
}

/** Why a start rejects this file, which another process may have open: missing, empty or damaged; null: no
 *  such reason, or a new file. Reads all of it. */
export function whyDamaged(path: string, mustExist: boolean): string | null {
  const lost = whyLost(path, mustExist);
  if (lost !== null || (statSync(path, { throwIfNoEntry: false })?.size ?? 0) === 0) return lost;
  try {
    readOnly(path, limits.registryBusyMs, (db) => checkWhole(db, path));
    return null;
  } catch (error) {
    if (error instanceof RegistryRejected) return error.message;
    throw error;
  }
}

/** A read-only connection leaves the WAL as it is, also when it is the last one that closes. */
function readOnly<T>(path: string, waitMs: number, work: (db: Database) => T): T {
  try {
    const db = openDatabase(path, { readOnly: true, waitMs });
    try {
      return work(db);
    } finally {
      db.close();
    }
  } catch (error) {
    throw isDamage(error) ? damaged(path, error) : error;
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

/** Runs before a connection that writes: opening one replays a WAL that may be foreign, and closing one
 *  writes the WAL into the file. */
function checkFile(path: string): void {
  if (!connections.has(path)) {
    const foreignLog = foreignLogText(path, readHeader(path));
    if (foreignLog !== null) throw new RegistryRejected('unavailable', `the registry ${foreignLog}`);
  }
  readOnly(path, 0, (db) => checkWhole(db, path));
}

/** Throws RegistryRejected, or SQLite's error. Leaves no statement in the connection. */
function checkWhole(database: Database, path: string): void {
  const verdict = String(askAndForget(database, 'quick_check', 'pragma_quick_check'));
  if (verdict !== 'ok') throw new RegistryRejected('unavailable', damagedText(path, verdict));
}

/** Why a file without content is a loss; null: it has content, or is new. SQLite would remove a WAL that
 *  lies beside it. */
function whyLost(path: string, mustExist: boolean): string | null {
  const size = statSync(path, { throwIfNoEntry: false })?.size;
  const log = statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0;
  if ((size ?? 0) > 0 || !(mustExist || log > 0)) return null;
  return size === undefined ? missingText(path) : damagedText(path, emptyText);
}

function damaged(path: string, error: unknown): RegistryRejected {
  return new RegistryRejected('unavailable', damagedText(path, messageOf(error)), { cause: error });
}

export const emptyText = 'it is empty';

/** `reason`: the words of SQLite. */
export function damagedText(path: string, reason: string): string {
  const found = reason.replaceAll(/\s+/g, ' ');
  return `the registry ${path} is damaged (${found}); restore it from a backup (manual: A damaged registry)`;
}

export function missingText(path: string): string {
  return `the registry ${path} is missing; put it back, or restore it from a backup (manual: A damaged registry)`;
}
