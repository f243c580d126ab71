// Mounts small file systems for tests: a tmpfs of a given size, an ext4 that can be made to fail. Both need
// root and the right to mount; otherwise `mountable` gives the reason, and the tests are skipped with it.

import { execFileSync, spawnSync } from 'node:child_process';
import {
  closeSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  rmSync,
  statfsSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { onTestFinished } from 'vitest';

/** The reason why no file system can be mounted here, or null. */
export const unmountable: string | null = tryMount(['-t', 'tmpfs', '-o', 'size=64k', 'tmpfs']);
/** The same for an ext4 in a file. */
export const unmountableExt4: string | null = unmountable ?? tryExt4();

function tryExt4(): string | null {
  const image = join(mkdtempSync(join(tmpdir(), 'dq-mount-')), 'ext4');
  try {
    writeFileSync(image, '');
    truncateSync(image, 2 * 1024 * 1024);
    run('mkfs.ext4', '-q', image);
    return tryMount(['-o', 'loop', image]);
  } catch (error) {
    return `no ext4 can be made here (${String((error as Error).message).split('\n')[0]})`;
  } finally {
    rmSync(dirname(image), { recursive: true, force: true });
  }
}

function tryMount(what: readonly string[]): string | null {
  const at = mkdtempSync(join(tmpdir(), 'dq-mount-'));
  try {
    run('mount', ...what, at);
    run('umount', at);
    return null;
  } catch (error) {
    return `no file system can be mounted here (${String((error as Error).message).split('\n')[0]})`;
  } finally {
    rmSync(at, { recursive: true, force: true });
  }
}

/** A directory on a tmpfs of `bytes`. Unmounted at the end of the test, after everything that the test
 *  started later has ended. */
export function mountTmpfs(bytes: number): string {
  const at = mkdtempSync(join(tmpdir(), 'dq-mount-'));
  run('mount', '-t', 'tmpfs', '-o', `size=${bytes}`, 'tmpfs', at);
  onTestFinished(() => unmount(at));
  const directory = join(at, 'dq');
  mkdirSync(directory);
  return directory;
}

export interface Ext4 {
  readonly directory: string;
  /** As after a disk error: read-only, also for open files, until it is unmounted. */
  abort(): void;
  /** Forbids writing, making and removing files, also for processes with open files; or allows it again. */
  freeze(isFrozen: boolean): void;
}

/** An ext4 in a file, with a directory in it. */
export function mountExt4(bytes: number): Ext4 {
  const at = mkdtempSync(join(tmpdir(), 'dq-mount-'));
  const image = `${at}.ext4`;
  writeFileSync(image, '');
  truncateSync(image, bytes);
  run('mkfs.ext4', '-q', image);
  run('mount', '-o', 'loop,errors=remount-ro', image, at);
  const directory = join(at, 'dq');
  mkdirSync(directory);
  const freeze = (isFrozen: boolean) => {
    // Sockets need no freezing: chattr reports them and continues.
    spawnSync('chattr', ['-R', isFrozen ? '+i' : '-i', directory], { stdio: 'ignore' });
  };
  onTestFinished(() => {
    freeze(false);
    unmount(at);
    rmSync(image);
  });
  return { directory, abort: () => run('mount', '-o', 'remount,abort', at), freeze };
}

/** A read-only directory, also for root. */
export function mountReadOnly(): string {
  const at = mkdtempSync(join(tmpdir(), 'dq-mount-'));
  run('mount', '-t', 'tmpfs', '-o', 'ro,size=64k', 'tmpfs', at);
  onTestFinished(() => unmount(at));
  return at;
}

function unmount(at: string): void {
  // Lazily: a database that a test has closed in its own process keeps its descriptor until a garbage
  // collection.
  run('umount', '-l', at);
  rmSync(at, { recursive: true });
}

/** Free bytes of the file system. */
export function freeBytesIn(directory: string): number {
  const { bavail, bsize } = statfsSync(directory);
  return bavail * bsize;
}

/** Writes a file until the file system has no free block; returns the bytes written. */
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
