// Makes a copy of the built dq whose master waits less long for messages of a worker.
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished } from 'vitest';
import { copyDq } from './copied-dq.ts';

/** Instead of 20. Not less: a healthy worker on a busy machine may wait for some seconds. */
export const silenceSeconds = 10;

/** Returns the bin/dq of the copy, which ends with the test. */
export function impatientDq(): string {
  const directory = mkdtempSync(join(tmpdir(), 'dq-impatient-'));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  copyDq(directory);
  const chunks = join(directory, 'dist/chunks');
  const changed = readdirSync(chunks).filter((name) => {
    const path = join(chunks, name);
    const text = readFileSync(path, 'utf8');
    if (!name.endsWith('.cjs') || !text.includes('silentTicks: 20')) return false;
    writeFileSync(path, text.replace('silentTicks: 20', `silentTicks: ${silenceSeconds}`));
    return true;
  });
  expect(changed).toHaveLength(1);
  return join(directory, 'bin/dq');
}
