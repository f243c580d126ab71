// A daemon whose processes crash where a test says so: Node loads a module of the test before the code of dq,
// so that dq needs no switch for it.
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { temporaryDirectory } from './sqlite-store.ts';

export interface Misbehaving {
  /** options of Node for its master */
  readonly execArgv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** From now on every worker of this title dies at its start, of an exception that names the test. */
  breakDown(title: string): void;
  /** The next worker of this title works. */
  mend(title: string): void;
}

/** SIGWINCH throws in each of its processes, SIGURG rejects a promise. */
export function misbehaving(): Misbehaving {
  const { path, remove } = temporaryDirectory();
  onTestFinished(remove);
  const order = (title: string) => join(path, `broken.${title}`);
  return {
    execArgv: ['--import', join(import.meta.dirname, 'misbehaving.mjs')],
    env: { DQ_TEST_ORDERS: path },
    breakDown: (title) => writeFileSync(order(title), ''),
    mend: (title) => rmSync(order(title), { force: true }),
  };
}
