// Makes a copy of the built dq whose master waits less long for messages of a worker, and longer until a
// console is ready.
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished } from 'vitest';
import { copyDq } from './copied-dq.ts';

/** Instead of 20. Not less: a healthy worker on a busy machine may wait for some seconds. */
export const silenceSeconds = 10;

/** Instead of 10: on a busy machine a console can need longer. */
const consoleReadySeconds = 60;

const changes = [
  ['silentTicks: 20', `silentTicks: ${silenceSeconds}`],
  ['consoleReadyMs: 1e4', `consoleReadyMs: ${consoleReadySeconds * 1_000}`],
] as const;

/** Returns the bin/dq of the copy, which ends with the test. */
export function impatientDq(): string {
  const directory = mkdtempSync(join(tmpdir(), 'dq-impatient-'));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  copyDq(directory);
  const chunks = join(directory, 'dist/chunks');
  for (const [from, to] of changes) {
    const changed = readdirSync(chunks).filter((name) => {
      const path = join(chunks, name);
      const text = readFileSync(path, 'utf8');
      if (!name.endsWith('.cjs') || !text.includes(from)) return false;
      writeFileSync(path, text.replace(from, to));
      return true;
    });
    expect(changed, from).toHaveLength(1);
  }
  return join(directory, 'bin/dq');
}
