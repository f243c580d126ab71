// Makes a copy of the built dq that a test may change: its own bin, dist and package.json, with the
// libraries of this one.
import { cpSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';

const root = join(import.meta.dirname, '../..');

/** Copies into an existing directory; the caller removes it. */
export function copyDq(directory: string): void {
  for (const name of ['bin', 'dist', 'package.json'])
    cpSync(join(root, name), join(directory, name), {
      recursive: true,
      // Without compiled code: V8 would use it for a changed file of the same length.
      filter: (path) => !/\.cjs\.[0-9a-f]+$/.test(path),
    });
  symlinkSync(join(root, 'node_modules'), join(directory, 'node_modules'));
}
