// Small file systems for tests: a tmpfs of a given size, an ext4 that can be made to fail. Both need root and the right to
// mount; where that is missing, `mountable` says why, and the tests that need it are skipped with that reason.

import { execFileSync } from 'node:child_process';
import { closeSync, mkdirSync, mkdtempSync, openSync, rmSync, statfsSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';

/** Why no file system can be mounted here; null = it can. */
export const unmountable: string | null = tryMount();

function tryMount(): string | null {
  const at = mkdtempSync(join(tmpdir(), 'dq-mount-'));
  try {
    run('mount', '-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', at);
    run('umount', at);
    return null;
  } catch (error) {
    return `no file system can be mounted here (${String((error as Error).message).split('\n')[0]})`;
  } finally {
    rmSync(at, { recursive: true, force: true });
  }
}

/** A directory on a tmpfs of so many bytes; unmounted at the end of the test, after whatever was begun later has ended. */
export function mountTmpfs(bytes: number): string {
  const at = mkdtempSync(join(tmpdir(), 'dq-mount-'));
  run('mount', '-t', 'tmpfs', '-o', `size=${bytes}`, 'tmpfs', at);
  onTestFinished(() => unmount(at));
  const directory = join(at, 'dq');
  mkdirSync(directory);
  return directory;
}

function unmount(at: string): void {
  // Lazily: a database that a test has closed in its own process keeps its descriptor until a garbage collection.
  run('umount', '-l', at);
  rmSync(at, { recursive: true });
}

/** Bytes that nobody has taken yet. */
export function roomIn(directory: string): number {
  const { bavail, bsize } = statfsSync(directory);
  return bavail * bsize;
}

/** Writes a file until the file system has no block left; answers how many bytes went into it. */
export function fillUp(directory: string, name = 'filler'): number {
  mkdirSync(directory, { recursive: true });
  const fd = openSync(join(directory, name), 'a');
  let written = 0;
  try {
    for (const chunk of [Buffer.alloc(64 * 1024), Buffer.alloc(4096)])
      for (;;) {
        const n = writeSync(fd, chunk);
        written += n;
        if (n < chunk.length) break;
      }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
  } finally {
    closeSync(fd);
  }
  return written;
}

function run(command: string, ...args: readonly string[]): void {
  execFileSync(command, args, { stdio: ['ignore', 'ignore', 'pipe'] });
}
