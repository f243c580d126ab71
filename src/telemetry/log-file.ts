// One open log file and the path it was opened by. Appends whole buffers, knows when the path leads elsewhere by now.

import type { FileHandle } from 'node:fs/promises';
import { mkdir, open, stat } from 'node:fs/promises';
import { dirname } from 'node:path';

const newline = 0x0a;

/** What the umask of whoever started the daemon must not decide: the group may read logs, others may not. */
const fileMode = 0o640;
const directoryMode = 0o750;

export class LogFile {
  readonly path: string;
  /** of the file, over all that have it open here: identifies it beyond renames */
  readonly id: string;
  /** bytes that were in it when it was opened */
  readonly sizeBefore: number;
  readonly #handle: FileHandle;

  private constructor(path: string, handle: FileHandle, id: string, sizeBefore: number) {
    this.path = path;
    this.#handle = handle;
    this.id = id;
    this.sizeBefore = sizeBefore;
  }

  /** Makes the directory again if it is gone. */
  static async open(path: string): Promise<LogFile> {
    let handle: FileHandle;
    try {
      handle = await open(path, 'a', fileMode);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
      await mkdir(dirname(path), { recursive: true, mode: directoryMode });
      handle = await open(path, 'a', fileMode);
    }
    try {
      const stats = await handle.stat();
      // A file with lines in it has the mode that somebody wants for it; a device is not ours to change.
      if (stats.isFile() && stats.size === 0) await handle.chmod(fileMode);
      return new LogFile(path, handle, `${stats.dev}:${stats.ino}`, stats.size);
    } catch (error) {
      await handle.close();
      throw error;
    }
  }

  /** Resolves with the bytes that were written when the disk took all of them; else rejects with what it did take. */
  async append(bytes: Buffer): Promise<void> {
    let done = 0;
    try {
      while (done < bytes.length) done += (await this.#handle.write(bytes, done)).bytesWritten;
    } catch (cause) {
      throw new AppendError(cause, bytes.subarray(done), done > 0 && bytes[done - 1] !== newline);
    }
  }

  /** The path leads to another file, or to none: it was rotated or removed. */
  async hasMoved(): Promise<boolean> {
    try {
      const { dev, ino } = await stat(this.path);
      return `${dev}:${ino}` !== this.id;
    } catch (error) {
      return (error as NodeJS.ErrnoException).code === 'ENOENT';
    }
  }

  async close(): Promise<void> {
    await this.#handle.close();
  }
}

export class AppendError extends Error {
  readonly rest: Buffer;
  /** the file ends in the middle of a line */
  readonly torn: boolean;
  constructor(cause: unknown, rest: Buffer, torn: boolean) {
    super('the log file did not take all', { cause });
    this.rest = rest;
    this.torn = torn;
  }
}
