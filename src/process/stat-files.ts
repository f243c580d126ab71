// Stores statistics that dq-upkeep could not record before its end, one file per end under
// <dataDir>/statistics. The next dq-upkeep takes them.
// Invariants: a file of such a name is whole; its statistics are taken at most once, because the file is
// removed before (a power cut in between loses them: statistics may be too low, never too high).
// Where other instances record in the same registry, copied files are left alone: a file name holds the
// inode of its directory, and the instance of the original records it.

import { mkdir, readdir, readFile, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { statNames } from '../core/series.ts';
import type { StatDelta } from '../ports/registry.ts';
import { placeOf, syncPath, writeDurably } from '../runtime/files.ts';
import { wallNow } from '../runtime/time.ts';
import { processLimits } from './limits.ts';

/** time, process, inode of the directory */
const namePattern = /^\d{16}-\d+-(?<inode>\d+)\.json$/;

export class StatFiles {
  readonly #directory: string;
  readonly #isShared: boolean;

  /** `isShared`: other instances record in the same registry. */
  constructor(dataDir: string, isShared = false) {
    this.#directory = join(dataDir, 'statistics');
    this.#isShared = isShared;
  }

  /** The file is on the disk when it resolves. Rejects with the system's error, and beyond
   *  processLimits.statFilesMax files. */
  async write(deltas: readonly StatDelta[]): Promise<void> {
    await mkdir(this.#directory, { recursive: true, mode: 0o700 });
    if ((await this.#names()).length >= processLimits.statFilesMax)
      throw new Error(`${this.#directory} holds ${processLimits.statFilesMax} files already`);
    const { inode } = placeOf(this.#directory);
    const name = `${String(wallNow()).padStart(16, '0')}-${process.pid}-${inode}.json`;
    await writeDurably(join(this.#directory, name), `${JSON.stringify(deltas)}\n`);
  }

  async isEmpty(): Promise<boolean> {
    return (await this.#names()).length === 0;
  }

  /** Removes the oldest file and returns its statistics; [] without a file. Of two calls at once, one gets
   *  them. Rejects for a damaged file, which is removed, and where all files that are left cannot be read
   *  or removed. */
  async take(): Promise<readonly StatDelta[]> {
    let failure: unknown;
    for (const name of await this.#names()) {
      const path = join(this.#directory, name);
      let text: string;
      try {
        text = await readFile(path, 'utf8');
        // Of several readers one removes it.
        await unlink(path);
        // A power cut must not bring taken files back.
        await syncPath(this.#directory);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ENOENT') failure ??= error;
        continue;
      }
      return deltasOf(text, path);
    }
    if (failure !== undefined) throw failure;
    return [];
  }

  /** Paths of files that were copied from another data directory, and are left alone. */
  async copied(): Promise<readonly string[]> {
    const all = await this.#all();
    return all.filter((name) => !this.#isOurs(name)).map((name) => join(this.#directory, name));
  }

  /** Oldest first. */
  async #names(): Promise<readonly string[]> {
    return (await this.#all()).filter((name) => this.#isOurs(name));
  }

  #isOurs(name: string): boolean {
    const inode = namePattern.exec(name)?.groups?.['inode'];
    return !this.#isShared || inode === placeOf(this.#directory).inode;
  }

  async #all(): Promise<readonly string[]> {
    const names = await readdir(this.#directory).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return [];
      throw error;
    });
    return names.filter((name) => namePattern.test(name)).sort();
  }
}

function deltasOf(text: string, path: string): readonly StatDelta[] {
  let read: unknown;
  try {
    read = JSON.parse(text);
  } catch {
    // Judged below.
  }
  if (!Array.isArray(read) || !read.every(isDelta)) throw new Error(`${path}: the file holds no statistics`);
  return read;
}

function isDelta(read: unknown): read is StatDelta {
  const { topic, day, name, n } = Object(read) as Record<string, unknown>;
  return (
    typeof topic === 'string' &&
    Number.isSafeInteger(day) &&
    statNames.some((known) => known === name) &&
    Number.isSafeInteger(n) &&
    Number(n) > 0
  );
}
