// Opens the registry over a database, and puts it together: each file of tables/ implements the verbs of its
// tables. One implementation for all dialects: statements use what SQLite and MySQL share.

import { dirname, join } from 'node:path';
import { DqError } from '../../core/errors.ts';
import type { Registry } from '../../ports/registry.ts';
import type { SecretCipher } from './keys/encryption.ts';
import { sqlLimits } from './limits.ts';
import { type Db, RegistryAccess, type RegistryEngine, RegistryGate } from './registry-engine.ts';
import { openRegistryFile, type RegistryFileOptions, RegistryRejected } from './sqlite/registry-file.ts';
import { type RegistryEvents, RegistryGuard } from './sqlite/registry-guard.ts';
import { auditVerbs } from './tables/registry-audit.ts';
import { operationVerbs } from './tables/registry-operations.ts';
import { scheduleVerbs } from './tables/registry-schedules.ts';
import { seriesVerbs } from './tables/registry-series.ts';
import { sessionVerbs } from './tables/registry-sessions.ts';
import { shardVerbs } from './tables/registry-shards.ts';
import { statVerbs } from './tables/registry-stats.ts';
import { tokenVerbs } from './tables/registry-tokens.ts';
import { topicVerbs } from './tables/registry-topics.ts';
import { type PageSize, pageSize } from './tables/topic-pages.ts';

/** Opens or creates registry.db and its key file (`secret.key` beside it). Rejects with a one-sentence
 *  DqError. */
export async function openRegistryDb(
  path: string,
  options: Partial<RegistryFileOptions & { readonly page: Partial<PageSize> }> = {},
): Promise<Registry> {
  const { engine, cipher, id } = await openRegistryFile(path, withDefaults(path, options));
  return registryOver(engine, cipher, id, options.page);
}

export interface ServedRegistry {
  readonly registry: Registry;
  /** for `dq move`; absent: no file is open */
  readonly source?: { readonly db: Db; readonly gate: RegistryGate };
  /** Why the registry rejects every call, with the remedy; null: it does not. */
  damage(): string | null;
}

/** As openRegistryDb, for the process that serves the file: damage that it meets later is a state.
 *  `servesRejected`: a file that every start rejects is this state, too. */
export async function openServedRegistry(
  path: string,
  options: Partial<RegistryFileOptions> &
    RegistryEvents & {
      /** a failed open is a state of the registry, unless the disk is the reason */
      readonly servesRejected: boolean;
      readonly isDiskUsable?: () => boolean;
    },
): Promise<ServedRegistry> {
  const its = withDefaults(path, options);
  const guard = new RegistryGuard({ path, keyPath: its.keyPath }, options);
  const damage = () => guard.damage;
  try {
    const { engine, cipher, id } = await openRegistryFile(path, its);
    const gate = new RegistryGate();
    const registry = registryOver(gate.over(guard.over(engine)), cipher, id);
    return { registry, damage, source: { db: engine.db, gate } };
  } catch (error) {
    if (!options.servesRejected || !(error instanceof DqError)) throw error;
    const isRejected = error instanceof RegistryRejected;
    if (!isRejected && options.isDiskUsable?.() === false) throw error;
    const engine = guard.overNone(error.message, isRejected ? undefined : sqlLimits.registryAgainMs);
    return { registry: registryOver(engine, null, ''), damage };
  }
}

function withDefaults(path: string, options: Partial<RegistryFileOptions>): RegistryFileOptions {
  const { keyPath = join(dirname(path), 'secret.key'), warn = () => {}, mustExist = false } = options;
  return { keyPath, warn, mustExist };
}

export interface RegistryDb extends Registry {
  /** Of tables that only one kind of database has; without a transaction. */
  readonly with: RegistryAccess['read'];
}

/** `cipher`: null = the engine rejects every call. `size`: of a page; tests pass less */
export function registryOver(
  engine: RegistryEngine,
  cipher: SecretCipher | null,
  id: string,
  size: Partial<PageSize> = {},
): RegistryDb {
  const db = new RegistryAccess(engine);
  const page = pageSize(size);
  const openedCipher = () => {
    if (cipher === null) throw new Error('the registry is not open');
    return cipher;
  };
  return {
    id: () => db.read(async () => id),
    ...topicVerbs(db, openedCipher, page),
    ...statVerbs(db, page.rows),
    ...seriesVerbs(db),
    ...tokenVerbs(db),
    ...sessionVerbs(db),
    ...operationVerbs(db),
    ...scheduleVerbs(db),
    ...auditVerbs(db),
    ...shardVerbs(db, openedCipher, id),
    with: (work) => db.read(work),
    onChange: (listener) => db.onChange(listener),
    close: () => db.close(),
  };
}
