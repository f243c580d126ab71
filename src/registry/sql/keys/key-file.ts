// Creates and reads the file with the key of the encrypted secrets. Created once, atomically, and never
// overwritten: a second key would lose what the first one encrypted.

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
import { secretKeyBytes } from './encryption.ts';

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
