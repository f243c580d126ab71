// Makes a directory with those above it. Instead of mkdir's own `recursive`, which goes round for ever where a file system takes no
// directory and says that there is none (seen on /proc with Node 20).

import { mkdirSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';

/** `mode`: of those that are made. One that is there already is left as it is. Throws with the system's reason. */
export function makeDirectory(path: string, mode: number): void {
  const missing: string[] = [];
  for (let at = resolve(path); !isDirectory(at); at = dirname(at)) missing.push(at);
  for (const one of missing.reverse()) make(one, mode);
}

function make(path: string, mode: number): void {
  try {
    mkdirSync(path, { mode });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    // Somebody else was faster.
    if (code === 'EEXIST' && isDirectory(path)) return;
    if (code !== 'ENOENT') throw error;
    throw new Error(`no directory can be made in ${dirname(path)}`, { cause: error });
  }
}

function isDirectory(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}
