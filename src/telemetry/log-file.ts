// LogFile is one open log file with its path. It appends whole buffers and detects a path that leads to
// another file.

import type { FileHandle } from 'node:fs/promises';
import { mkdir, open, stat } from 'node:fs/promises';
import { dirname } from 'node:path';

const newline = 0x0a;

/** The group may read logs, others may not, whatever the umask of the start is. */
const fileMode = 0o640;
const directoryMode = 0o750;

export class LogFile {
  readonly path: string;
  /** identifies the file beyond renames */
  readonly id: string;
  /** bytes in the file when it was opened */
  readonly sizeBefore: number;
  readonly #handle: FileHandle;

  private constructor(path: string, handle: FileHandle, id: string, sizeBefore: number) {
    this.path = path;
    this.#handle = handle;
    this.id = id;
    this.sizeBefore = sizeBefore;
  }

  /** Recreates a missing directory. */
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
      // Keeps the mode of a file with lines, which an operator may have set, and of a device.
      if (stats.isFile() && stats.size === 0) await handle.chmod(fileMode);
      return new LogFile(path, handle, `${stats.dev}:${stats.ino}`, stats.size);
    } catch (error) {
      await handle.close();
      throw error;
    }
  }

  /** Resolves with the written bytes when all are written; else rejects with AppendError and the number of
   *  written bytes. */
  async append(bytes: Buffer): Promise<void> {
    let done = 0;
    try {
      while (done < bytes.length) done += (await this.#handle.write(bytes, done)).bytesWritten;
    } catch (cause) {
      throw new AppendError(cause, bytes.subarray(done), done > 0 && bytes[done - 1] !== newline);
    }
  }

  /** true = the path leads to another file or to no file: rotated or removed. */
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
    super('cannot write all lines to the log file', { cause });
    this.rest = rest;
    this.torn = torn;
  }
}
