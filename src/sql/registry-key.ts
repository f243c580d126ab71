// Which key a registry's secrets are sealed with. The registry holds a text that was sealed with it; a key that does not open
// that text is refused, and while there is such a text no other key is ever made. Invariant: when openSealer answers, every
// stored secret is sealed with the sealer's key.

import type { Kysely } from 'kysely';
import { DqError } from '../core/errors.ts';
import { keyFileWarning, makeKeyFile, readKeyFile } from './key-file.ts';
import type { RegistrySchema } from './registry-schema.ts';
import { isSealed, Sealer } from './sealer.ts';

type Db = Kysely<RegistrySchema>;

export interface KeyOptions {
  readonly keyPath: string;
  /** told, in a sentence, what is not as it should be */
  readonly warn: (sentence: string) => void;
}

/** What the check text says, and what it belongs to: no topic has an empty name. */
const checkText = 'dq';
const checkOwner = '';

/** Writes nothing. null = nothing was ever sealed in this registry. Throws DqError when the key file is not the one. */
export async function existingSealer(db: Db, what: string, { keyPath }: KeyOptions): Promise<Sealer | null> {
  const { key_check: check } = await db.selectFrom('registry').select('key_check').executeTakeFirstOrThrow();
  if (check === null) return null;
  const key = readKeyFile(keyPath);
  if (key === null)
    throw refused(
      `the key file ${keyPath} is missing, and the secrets in ${what} cannot be read without it; put it back from a backup. If it is lost for good, so are the secrets: move the registry away and register the topics again`,
    );
  const sealer = new Sealer(key);
  if (!opens(sealer, check))
    throw refused(
      `the key file ${keyPath} is not the one that the secrets in ${what} were sealed with; put back the key file that belongs to this registry`,
    );
  return sealer;
}

/** The sealer of this registry, with a new key where nothing was ever sealed. Secrets from before there was a key are
 *  sealed. Repeated, or run by two processes at once, it comes to the same. */
export async function openSealer(
  db: Db,
  what: string,
  options: KeyOptions,
): Promise<{ readonly sealer: Sealer; readonly sealedNow: number }> {
  const { keyPath, warn } = options;
  let sealer = await existingSealer(db, what, options);
  let sealedNow = 0;
  if (sealer === null) {
    const made = new Sealer(readKeyFile(keyPath) ?? makeKeyFile(keyPath));
    sealedNow = await db.transaction().execute((trx) => sealAll(trx, made));
    // Another process may have been faster, with another key file.
    sealer = (await existingSealer(db, what, options)) ?? made;
  }
  const warning = keyFileWarning(keyPath);
  if (warning !== null) warn(warning);
  return { sealer, sealedNow };
}

/** The check text and all secrets in one transaction: half of them sealed would be unreadable the next time.
 *  Answers how many topics' secrets were in the clear. */
async function sealAll(trx: Db, sealer: Sealer): Promise<number> {
  const { key_check: check } = await trx.selectFrom('registry').select('key_check').executeTakeFirstOrThrow();
  if (check !== null) return 0;
  await trx
    .updateTable('registry')
    .set({ key_check: sealer.seal(checkText, checkOwner) })
    .execute();
  const rows = await trx.selectFrom('topic').select(['name', 'secrets']).execute();
  const plain = rows.filter(({ secrets }) => !isSealed(secrets));
  for (const { name, secrets } of plain)
    await trx
      .updateTable('topic')
      .set({ secrets: sealer.seal(secrets, name) })
      .where('name', '=', name)
      .execute();
  return plain.length;
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
