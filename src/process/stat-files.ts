// Statistics that could not be recorded before dq-upkeep ended: what each end leaves is a file of its own under
// <dataDir>/statistics, taken up by whoever records next. Invariants: a file of such a name is whole; what it says is given out once
// at most, because it is gone from the disk before (a power cut between the two costs it: statistics may be short, never too high).
// Where other instances record in the same registry, a file that was copied with its data directory is left alone: the name
// of a file holds the inode of its directory, and the instance of the original records it.

import { mkdir, open, readdir, readFile, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { type StatDelta, statNames } from '../ports/registry.ts';
import { writeDurably } from '../runtime/durable-file.ts';
import { placeOf } from '../runtime/place.ts';
import { processLimits } from './limits.ts';

/** time, process, inode of the directory; files of earlier versions of dq have no inode in their name */
const namePattern = /^\d{16}-\d+(?:-(?<inode>\d+))?\.json$/;

export class StatFiles {
  readonly #directory: string;
  readonly #isShared: boolean;

  /** `isShared`: other instances record in the same registry. */
  constructor(dataDir: string, isShared = false) {
    this.#directory = join(dataDir, 'statistics');
    this.#isShared = isShared;
  }

  /** On the disk when it resolves. Rejects with the system's error, and when there are processLimits.statFilesMax already. */
  async write(deltas: readonly StatDelta[]): Promise<void> {
    await mkdir(this.#directory, { recursive: true, mode: 0o700 });
    if ((await this.#names()).length >= processLimits.statFilesMax)
      throw new Error(`${this.#directory} holds ${processLimits.statFilesMax} files already`);
    const { inode } = placeOf(this.#directory);
    const name = `${String(Date.now()).padStart(16, '0')}-${process.pid}-${inode}.json`;
    await writeDurably(join(this.#directory, name), `${JSON.stringify(deltas)}\n`);
  }

  async isEmpty(): Promise<boolean> {
    return (await this.#names()).length === 0;
  }

  /** What the oldest file says; of two that ask at once the other gets nothing of it. Empty = there is none. Rejects for one that
   *  somebody broke: it is gone too; and when none is left but those that cannot be read or removed: they stay. */
  async take(): Promise<readonly StatDelta[]> {
    let failure: unknown;
    for (const name of await this.#names()) {
      const path = join(this.#directory, name);
      let text: string;
      try {
        text = await readFile(path, 'utf8');
        // Of several that have read it one removes it.
        await unlink(path);
        await this.#sync();
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ENOENT') failure ??= error;
        continue;
      }
      return deltasOf(text, path);
    }
    if (failure !== undefined) throw failure;
    return [];
  }

  /** Paths of the files that are left alone, because they were copied from another data directory. */
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
    return !this.#isShared || inode === undefined || inode === placeOf(this.#directory).inode;
  }

  async #all(): Promise<readonly string[]> {
    const names = await readdir(this.#directory).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return [];
      throw error;
    });
    return names.filter((name) => namePattern.test(name)).sort();
  }

  /** A power cut must not bring back what is counted. */
  async #sync(): Promise<void> {
    const directory = await open(this.#directory, 'r');
    try {
      await directory.sync();
    } finally {
      await directory.close();
    }
  }
}

function deltasOf(text: string, path: string): readonly StatDelta[] {
  let read: unknown;
  try {
    read = JSON.parse(text);
  } catch {
    // Judged below.
  }
  if (!Array.isArray(read) || !read.every(isDelta)) throw new Error(`${path} held no statistics`);
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
