// Finds or creates the key of a registry's secrets, and owns its file. The registry holds a check text
// encrypted with that key: a key that cannot decrypt it is rejected, and while it exists no other key is
// created. The file is created once, atomically, and never overwritten: a second key would lose what the
// first one encrypted. Invariant: when openCipher returns, the registry has that text, so every secret is
// stored with the cipher's key.

import { hkdfSync } from 'node:crypto';
import {
  closeSync,
  fsyncSync,
  linkSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname } from 'node:path';
import { DqError, messageOf } from '../../../core/errors.ts';
import { syncPathNow } from '../../../runtime/files.ts';
import { randomBytes } from '../../../runtime/time.ts';
import { type Db, headOf, type RegistryEngine } from '../registry-engine.ts';
import { SecretCipher, secretKeyBytes } from './encryption.ts';

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

/** of the key file */
const pattern = /^v1:([A-Za-z0-9+/]{43}=)\n?$/;

/** null: missing. Throws DqError for an unreadable or invalid file. */
export function readKeyFile(path: string): Buffer | null {
  let text: string;
  try {
    text = readFileSync(path, 'latin1');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw rejected(`cannot read the key file ${path}: ${messageOf(error)}`, error);
  }
  const key = Buffer.from(pattern.exec(text)?.[1] ?? '', 'base64');
  if (key.length !== secretKeyBytes)
    throw rejected(`the key file ${path} is damaged; restore it from a backup`);
  return key;
}

/** Creates the file; returns its key, or that of a process that was faster. */
export function makeKeyFile(path: string): Buffer {
  const next = `${path}.${process.pid}.next`;
  try {
    const file = openSync(next, 'w', 0o600);
    try {
      writeFileSync(file, `v1:${randomBytes(secretKeyBytes).toString('base64')}\n`);
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
    linkOnce(next, path);
    // A power cut must not lose the name of a key that is in use.
    syncPathNow(dirname(path));
  } catch (error) {
    throw rejected(`cannot create the key file ${path}: ${messageOf(error)}`, error);
  } finally {
    rmSync(next, { force: true });
  }
  const key = readKeyFile(path);
  if (key === null) throw rejected(`the key file ${path} was removed right after its creation`);
  return key;
}

/** One sentence if other users can access the file; null: they cannot. */
export function keyFileWarning(path: string): string | null {
  const mode = statSync(path).mode & 0o777;
  if ((mode & 0o077) === 0) return null;
  return `the key file ${path} is accessible to other users (mode 0${mode.toString(8)}); run chmod 600 ${path}`;
}

/** link, not rename: a rename would replace a key that another process already uses. */
function linkOnce(from: string, to: string): void {
  try {
    linkSync(from, to);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}

function rejected(sentence: string, cause?: unknown): DqError {
  return new DqError('unavailable', sentence, { cause });
}
