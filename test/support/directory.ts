// Directories of tests.

import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';

/** A new directory that is removed at the end of the test, after its afterEach(); also in beforeEach(). */
export function testDirectory(): string {
  const path = mkdtempSync(join(tmpdir(), 'dq-test-'));
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

/** All files below these directories, to look for secrets in them: a character is a byte. */
export function filesUnder(
  ...directories: readonly string[]
): readonly { readonly path: string; readonly text: string }[] {
  return directories.flatMap((directory) =>
    readdirSync(directory, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name))
      .map((path) => ({ path, text: readFileSync(path, 'latin1') })),
  );
}
