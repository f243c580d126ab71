// Makes a directory and its missing parents. mkdir's own `recursive` loops for ever on a file system that
// rejects directories with ENOENT (observed on /proc with Node 20).

import { mkdirSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';

/** `mode`: of new directories; existing ones keep theirs. Throws with the system's reason. */
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
    // Another process made it first.
    if (code === 'EEXIST' && isDirectory(path)) return;
    if (code !== 'ENOENT') throw error;
    throw new Error(`cannot make a directory in ${dirname(path)}`, { cause: error });
  }
}

function isDirectory(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}
