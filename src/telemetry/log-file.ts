// The files of log lines. A LogFile is one open log file with its path: it appends whole buffers and detects
// a path that leads to another file. StandardOutput is what all processes of a daemon share instead. The
// Janitor removes old files by the day in their names: touching a file does not extend it. The output of a
// background daemon, whose file name has no day, is bounded in size. Only files with names of dq are removed.

import { write } from 'node:fs';
import { copyFile, type FileHandle, mkdir, open, readdir, stat, truncate, unlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { standardOutput } from '../config/options.ts';
import { sleep } from '../runtime/time.ts';
import { telemetryLimits } from './limits.ts';

const newline = 0x0a;

/** The group may read logs, others may not, whatever the umask of the start is. */
const fileMode = 0o640;
const directoryMode = 0o750;

export type LogTarget = Pick<LogFile, keyof LogFile>;

export async function openLogTarget(path: string): Promise<LogTarget> {
  return path === standardOutput ? new StandardOutput() : LogFile.open(path);
}

class LogFile {
  readonly path: string;
  /** identifies the file beyond renames */
  readonly id: string;
  /** bytes in the file when it was opened */
  readonly sizeBefore: number;
  readonly #handle: FileHandle;
  #isTorn: boolean;

  private constructor(
    path: string,
    handle: FileHandle,
    found: { readonly id: string; readonly size: number; readonly isTorn: boolean },
  ) {
    this.path = path;
    this.#handle = handle;
    this.id = found.id;
    this.sizeBefore = found.size;
    this.#isTorn = found.isTorn;
  }

  /** Prefix of the next append: a line feed if the file was opened with an incomplete line at its end. A full
   *  disk leaves one, and so does a killed process. */
  get mend(): string {
    return this.#isTorn ? '\n' : '';
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
      const isTorn = stats.isFile() && stats.size > 0 && !(await endsLine(path, stats.size));
      return new LogFile(path, handle, { id: `${stats.dev}:${stats.ino}`, size: stats.size, isTorn });
    } catch (error) {
      await handle.close();
      throw error;
    }
  }

  /** Resolves when all bytes are written. Otherwise rejects with AppendError, and the file must be opened
   *  again. */
  async append(bytes: Buffer): Promise<void> {
    let done = 0;
    try {
      while (done < bytes.length) done += (await this.#handle.write(bytes, done)).bytesWritten;
    } catch (cause) {
      throw new AppendError(cause, bytes, done);
    }
    this.#isTorn = false;
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

/** Not opened by a path: a socket, which systemd gives, has none, and another user may not open that of a
 *  pipe. Not process.stdout, which can block the process for a reader that stands still. */
class StandardOutput implements LogTarget {
  readonly path = standardOutput;
  readonly id = standardOutput;
  readonly sizeBefore = 0;
  readonly mend = '';

  async append(bytes: Buffer): Promise<void> {
    let done = 0;
    try {
      while (done < bytes.length)
        done += await writeSome(bytes.subarray(done, done + linesWithin(bytes.subarray(done))));
    } catch (cause) {
      throw new AppendError(cause, bytes, done);
    }
  }

  async hasMoved(): Promise<boolean> {
    return false;
  }

  async close(): Promise<void> {}
}

const writeTo = promisify(write);

/** Returns the number of written bytes. A pipe or socket of which another process made a non-blocking one
 *  can be full: no error, but a reader that is slow. */
async function writeSome(bytes: Buffer): Promise<number> {
  try {
    return (await writeTo(1, bytes)).bytesWritten;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error;
    await sleep(telemetryLimits.logFlushMs);
    return 0;
  }
}

/** Length of the first lines that one write passes on together: a pipe mixes longer writes of several
 *  processes. One longer line goes alone. */
function linesWithin(bytes: Buffer): number {
  const max = telemetryLimits.pipeWriteMax;
  if (bytes.length <= max) return bytes.length;
  const end = bytes.lastIndexOf(newline, max - 1);
  return 1 + (end >= 0 ? end : bytes.indexOf(newline));
}

/** Not by the handle of the log: a file may be writable only. */
async function endsLine(path: string, size: number): Promise<boolean> {
  try {
    const handle = await open(path, 'r');
    try {
      const { buffer } = await handle.read(Buffer.alloc(1), 0, 1, size - 1);
      return buffer[0] === newline;
    } finally {
      await handle.close();
    }
  } catch {
    return true;
  }
}

export class AppendError extends Error {
  /** Lines that are not in the file, or only in part. One more where nothing was written and the append began
   *  with a line feed. */
  readonly unwritten: number;

  constructor(cause: unknown, bytes: Buffer, done: number) {
    super('cannot write all lines to the log file', { cause });
    const rest = bytes.subarray(done);
    // The next append completes a line of which only the line feed is missing.
    const isWhole = done > 0 && rest[0] === newline;
    this.unwritten = rest.toString('latin1').split('\n').length - (isWhole ? 2 : 1);
  }
}

/** stdout and stderr of all processes of a background daemon: a crash of the runtime leaves its trace
 *  there. */
export const outputName = 'dq-output.log';

const namePattern = /^(notice|error|request|notify|audit)-[a-z]+-\d+-(\d{4})(\d{2})(\d{2})\.log$/;
const dayMs = 86_400_000;
/** A day of the westernmost zone ends this long after the same day of UTC. */
const zoneMs = 12 * 3_600_000;

/** Removes files whose day ended more than `days` days (kind audit: `auditDays`) before `now` (epoch ms) in
 *  every time zone; returns their names. Rejects when it cannot read the directory. Leaves a file that it
 *  cannot remove for the next call. */
export async function removeOldLogs(
  directory: string,
  days: number,
  now: number,
  auditDays = days,
): Promise<readonly string[]> {
  const removed: string[] = [];
  for (const name of await readdir(directory)) {
    const [, kind, year, month, day] = namePattern.exec(name) ?? [];
    if (year === undefined) continue;
    const endedAt = Date.UTC(Number(year), Number(month) - 1, Number(day)) + dayMs + zoneMs;
    if (now - endedAt <= (kind === 'audit' ? auditDays : days) * dayMs) continue;
    try {
      await unlink(join(directory, name));
      removed.push(name);
    } catch {
      // Removed already, or without permission; continue with the others.
    }
  }
  return removed;
}

/** Empties output longer than telemetryLimits.outputBytesMax after copying it to `.1`; empties or removes
 *  both when they are older than `days`. In place: the processes keep the file open and append. */
export async function trimOutput(directory: string, days: number, now: number): Promise<void> {
  const path = join(directory, outputName);
  const older = `${path}.1`;
  const isOld = (at: number) => now - at > days * dayMs;
  const output = await lookAt(path);
  if (output !== null && output.size > telemetryLimits.outputBytesMax) {
    await copyFile(path, older);
    await truncate(path);
  } else if (output !== null && output.size > 0 && isOld(output.mtimeMs)) await truncate(path);
  const kept = await lookAt(older);
  if (kept !== null && isOld(kept.mtimeMs)) await unlink(older);
}

async function lookAt(path: string): Promise<{ readonly size: number; readonly mtimeMs: number } | null> {
  try {
    return await stat(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}
