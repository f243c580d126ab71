// Finds or creates the key of a registry's secrets. The registry holds a check text encrypted with that key:
// a key that cannot decrypt it is rejected, and while it exists no other key is created. Invariant: when
// openCipher returns, the registry has that text, so every secret is stored with the cipher's key.

import { hkdfSync } from 'node:crypto';
import { DqError } from '../../../core/errors.ts';
import { type Db, headOf, type RegistryEngine } from '../registry-engine.ts';
import { SecretCipher, secretKeyBytes } from './encryption.ts';
import { keyFileWarning, makeKeyFile, readKeyFile } from './key-file.ts';

export interface KeyOptions {
  readonly keyPath: string;
  /** several machines use this registry, and each needs the key */
  readonly isShared?: boolean;
  /** receives one-sentence warnings */
  readonly warn: (sentence: string) => void;
}

/** Content and owner of the check text: no topic has an empty name. */
const checkText = 'dq';
const checkOwner = '';

/** Read only. null: the registry has no encrypted text. Throws DqError for a wrong key file. */
export async function existingCipher(
  db: Db,
  what: string,
  options: KeyOptions,
): Promise<SecretCipher | null> {
  const { keyCheck } = await headOf(db);
  return keyCheck === null ? null : cipherFor(keyCheck, what, options);
}

/** The cipher that decrypts the registry's check text. Throws DqError for a wrong key file. */
export function cipherFor(
  check: string,
  what: string,
  { keyPath, isShared = false }: KeyOptions,
): SecretCipher {
  const key = readKeyFile(keyPath);
  if (key === null)
    throw rejected(
      isShared
        ? `the key file ${keyPath} is missing, and the secrets in ${what} are unreadable without it; copy it from another dq on this registry (secret.key in its data directory), or set secretKeyFile`
        : `the key file ${keyPath} is missing, and the secrets in ${what} are unreadable without it; restore it from a backup. Without a backup the secrets are lost: move the registry away and register the topics again`,
    );
  const cipher = new SecretCipher(key);
  if (!opens(cipher, check))
    throw rejected(
      `the key file ${keyPath} does not fit the secrets in ${what}; ${isShared ? 'copy it from another dq on this registry' : 'restore the key file of this registry'}`,
    );
  return cipher;
}

/** The cipher of this registry; creates a key if the registry has no encrypted text. Idempotent, also in two
 *  processes at once. */
export async function openCipher(
  { db, lock }: Pick<RegistryEngine, 'db' | 'lock'>,
  what: string,
  options: KeyOptions,
): Promise<SecretCipher> {
  const { keyPath, warn } = options;
  let cipher = await existingCipher(db, what, options);
  if (cipher === null) {
    const created = new SecretCipher(readKeyFile(keyPath) ?? makeKeyFile(keyPath));
    await db.transaction().execute(async (trx) => {
      await lock(trx);
      await putCheck(trx, created);
    });
    // Another process may have been faster, with another key file.
    cipher = (await existingCipher(db, what, options)) ?? created;
  }
  const warning = keyFileWarning(keyPath);
  if (warning !== null) warn(warning);
  return cipher;
}

async function putCheck(trx: Db, cipher: SecretCipher): Promise<void> {
  await trx
    .updateTable('registry')
    .set({ key_check: cipher.encrypt(checkText, checkOwner) })
    .where('key_check', 'is', null)
    .execute();
}

/** For a registry that another process opened with this key. Throws DqError for a missing or damaged file. */
export function openKeyFile(keyPath: string): SecretCipher {
  return new SecretCipher(existingKey(keyPath));
}

/** Key of the MACs of pull leases, derived from the registry's key: the same in every server of every
 *  instance, before and after a restart. Throws as `openKeyFile`. */
export function openLeaseKey(keyPath: string): Buffer {
  return Buffer.from(hkdfSync('sha256', existingKey(keyPath), '', 'dq pull lease', secretKeyBytes));
}

function existingKey(keyPath: string): Buffer {
  const key = readKeyFile(keyPath);
  if (key === null) throw rejected(`the key file ${keyPath} is missing; restore it from a backup`);
  return key;
}

function opens(cipher: SecretCipher, check: string): boolean {
  try {
    return cipher.decrypt(check, checkOwner) === checkText;
  } catch {
    // The only way to detect another key.
    return false;
  }
}

function rejected(sentence: string): DqError {
  return new DqError('unavailable', sentence);
}
