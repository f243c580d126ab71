// Directories of tests.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';

/** A new directory that is removed at the end of the test, after its afterEach(); also in beforeEach(). */
export function testDirectory(): string {
  const path = mkdtempSync(join(tmpdir(), 'dq-test-'));
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  return path;
}
