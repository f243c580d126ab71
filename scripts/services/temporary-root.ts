// Owns the directory of all servers of this process. It is removed when the last server has stopped, and
// when this process dies in any way: a shell waits on a pipe whose other end the kernel closes then.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

interface Root {
  readonly path: string;
  readonly keeper: ChildProcess;
}

let root: Root | null = null;
let used = 0;

/** A new directory inside it; removeDirectory removes it. */
export function makeDirectory(name: string): string {
  root ??= makeRoot();
  used += 1;
  return mkdtempSync(join(root.path, `${name}-`));
}

export async function removeDirectory(path: string): Promise<void> {
  rmSync(path, { recursive: true, force: true });
  used -= 1;
  if (used > 0 || root === null) return;
  const { keeper } = root;
  root = null;
  const ended = once(keeper, 'exit');
  keeper.ref();
  keeper.stdin?.end();
  await ended;
}

function makeRoot(): Root {
  const path = mkdtempSync(join(tmpdir(), 'dq-services-'));
  // Signals of the terminal reach the shell too, and it must outlive their target. The second removal: a
  // server that dies with this process may create a file during the first one.
  const script =
    'trap "" HUP INT TERM QUIT; cat >/dev/null; rm -rf "$1" 2>/dev/null || { sleep 1; rm -rf "$1"; }';
  const keeper = spawn('/bin/sh', ['-c', script, 'dq-services-keeper', path], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
  });
  keeper.unref();
  (keeper.stdin as unknown as { unref(): void }).unref();
  return { path, keeper };
}
