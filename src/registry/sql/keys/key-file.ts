// The file that holds the key of the sealed secrets, beside the database or wherever a backup keeps it apart. Made once, whole
// or not at all, and never written again: a second key over what the first one sealed would lose it.

import { randomBytes } from 'node:crypto';
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
import { DqError, reasonOf } from '../../../core/errors.ts';
import { sealKeyBytes } from './encryption.ts';

const pattern = /^v1:([A-Za-z0-9+/]{43}=)\n?$/;

/** null = there is none. Throws DqError for one that cannot be read or is none. */
export function readKeyFile(path: string): Buffer | null {
  let text: string;
  try {
    text = readFileSync(path, 'latin1');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw refused(`the key file ${path} cannot be read: ${reasonOf(error)}`, error);
  }
  const key = Buffer.from(pattern.exec(text)?.[1] ?? '', 'base64');
  if (key.length !== sealKeyBytes)
    throw refused(`the key file ${path} is damaged; put it back from a backup, and never edit it`);
  return key;
}

/** A new key; or the one of a process that was faster. */
export function makeKeyFile(path: string): Buffer {
  const next = `${path}.${process.pid}.next`;
  try {
    const file = openSync(next, 'w', 0o600);
    try {
      writeFileSync(file, `v1:${randomBytes(sealKeyBytes).toString('base64')}\n`);
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
    linkOnce(next, path);
    syncDirectory(dirname(path));
  } catch (error) {
    throw refused(`the key file ${path} cannot be made: ${reasonOf(error)}`, error);
  } finally {
    rmSync(next, { force: true });
  }
  const key = readKeyFile(path);
  if (key === null) throw refused(`the key file ${path} went as soon as it was made`);
  return key;
}

/** What is wrong with who may read it, in a sentence; null when nobody else may. */
export function keyFileWarning(path: string): string | null {
  const mode = statSync(path).mode & 0o777;
  if ((mode & 0o077) === 0) return null;
  return `the key file ${path} is open to others (mode 0${mode.toString(8)}); make it yours alone: chmod 600 ${path}`;
}

/** A rename would put the key of the slower process in place of one that is in use. */
function linkOnce(from: string, to: string): void {
  try {
    linkSync(from, to);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}

/** A power cut must not take back the name of a key by which something was sealed. */
function syncDirectory(path: string): void {
  const directory = openSync(path, 'r');
  try {
    fsyncSync(directory);
  } finally {
    closeSync(directory);
  }
}

function refused(sentence: string, cause?: unknown): DqError {
  return new DqError('unavailable', sentence, { cause });
}
