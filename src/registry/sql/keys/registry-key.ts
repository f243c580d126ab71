// Which key a registry's secrets are sealed with. The registry holds a text that was sealed with it; a key that does not open
// that text is refused, and while there is such a text no other key is ever made. Invariant: when openSealer answers, every
// stored secret is sealed with the sealer's key.

import type { Kysely } from 'kysely';
import { DqError } from '../../../core/errors.ts';
import type { RegistryEngine } from '../registry-engine.ts';
import type { RegistrySchema } from '../schema/registry-schema.ts';
import { isSealed, Sealer } from './encryption.ts';
import { keyFileWarning, makeKeyFile, readKeyFile } from './key-file.ts';

type Db = Kysely<RegistrySchema>;

export interface KeyOptions {
  readonly keyPath: string;
  /** several machines use this registry, and each needs the key */
  readonly isShared?: boolean;
  /** told, in a sentence, what is not as it should be */
  readonly warn: (sentence: string) => void;
}

/** What the check text says, and what it belongs to: no topic has an empty name. */
const checkText = 'dq';
const checkOwner = '';

/** Writes nothing. null = nothing was ever sealed in this registry. Throws DqError when the key file is not the one. */
export async function existingSealer(db: Db, what: string, options: KeyOptions): Promise<Sealer | null> {
  const { key_check: check } = await db.selectFrom('registry').select('key_check').executeTakeFirstOrThrow();
  return check === null ? null : sealerFor(check, what, options);
}

/** The sealer whose key opens the check text of a registry. Throws DqError when the key file is not the one. */
export function sealerFor(check: string, what: string, { keyPath, isShared = false }: KeyOptions): Sealer {
  const key = readKeyFile(keyPath);
  if (key === null)
    throw refused(
      isShared
        ? `the key file ${keyPath} is missing, and the secrets in ${what} cannot be read without it; copy it from another dq on this registry (secret.key in its data directory), or name its place with secretKeyFile`
        : `the key file ${keyPath} is missing, and the secrets in ${what} cannot be read without it; put it back from a backup. If it is lost for good, so are the secrets: move the registry away and register the topics again`,
    );
  const sealer = new Sealer(key);
  if (!opens(sealer, check))
    throw refused(
      `the key file ${keyPath} is not the one that the secrets in ${what} were sealed with; ${isShared ? 'copy it from another dq on this registry' : 'put back the key file that belongs to this registry'}`,
    );
  return sealer;
}

/** The sealer of this registry, with a new key where nothing was ever sealed. Secrets from before there was a key are
 *  sealed. Repeated, or run by two processes at once, it comes to the same. */
export async function openSealer(
  { db, lock }: Pick<RegistryEngine, 'db' | 'lock'>,
  what: string,
  options: KeyOptions,
): Promise<Sealer> {
  const { keyPath, warn } = options;
  let sealer = await existingSealer(db, what, options);
  if (sealer === null) {
    const made = new Sealer(readKeyFile(keyPath) ?? makeKeyFile(keyPath));
    await db.transaction().execute(async (trx) => {
      await lock(trx);
      await sealAll(trx, made);
    });
    // Another process may have been faster, with another key file.
    sealer = (await existingSealer(db, what, options)) ?? made;
  }
  const warning = keyFileWarning(keyPath);
  if (warning !== null) warn(warning);
  return sealer;
}

/** Whether any are still to be sealed. */
export async function holdsPlainSecrets(db: Db): Promise<boolean> {
  const rows = await db.selectFrom('topic').select('secrets').execute();
  return rows.some(({ secrets }) => !isSealed(secrets));
}

/** The check text and all secrets in one transaction: half of them sealed would be unreadable the next time. */
async function sealAll(trx: Db, sealer: Sealer): Promise<void> {
  const { key_check: check } = await trx.selectFrom('registry').select('key_check').executeTakeFirstOrThrow();
  if (check !== null) return;
  await trx
    .updateTable('registry')
    .set({ key_check: sealer.seal(checkText, checkOwner) })
    .execute();
  const rows = await trx.selectFrom('topic').select(['name', 'secrets']).execute();
  for (const { name, secrets } of rows.filter((row) => !isSealed(row.secrets)))
    await trx
      .updateTable('topic')
      .set({ secrets: sealer.seal(secrets, name) })
      .where('name', '=', name)
      .execute();
}

/** For a registry that another process has opened with this key. Throws DqError where the file is missing or damaged. */
export function openKeyFile(keyPath: string): Sealer {
  const key = readKeyFile(keyPath);
  if (key === null) throw refused(`the key file ${keyPath} is missing; put it back from a backup`);
  return new Sealer(key);
}

function opens(sealer: Sealer, check: string): boolean {
  try {
    return sealer.unseal(check, checkOwner) === checkText;
  } catch {
    // The one way to learn that a key is another.
    return false;
  }
}

function refused(sentence: string): DqError {
  return new DqError('unavailable', sentence);
}
