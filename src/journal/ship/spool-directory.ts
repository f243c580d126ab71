// The directory of the spool, `<dataDir>/spool`: the streams of all processes of an instance. late/ holds
// segments that are too old to be merged, damaged/ those with unreadable records.

import { readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Version } from '../../core/job.ts';
import { grouped } from '../../core/lists.ts';
import type {
  FoundSegment,
  FoundStream,
  ReadLimits,
  SpooledStreams,
  StreamName,
  StreamPart,
  StreamPosition,
} from '../../ports/spool.ts';
import { makeDirectory, orIfMissing, syncPath, writeDurably } from '../../runtime/files.ts';
import { sleep } from '../../runtime/time.ts';
import { spoolLimits } from '../limits.ts';
import { fileNameOf, segmentNameOf } from '../record/segment.ts';
import { examineSegment, isUsed, keepDamaged, StreamReader } from './stream-reader.ts';

const droppedName = 'dropped';
const shippedName = 'shipped';

export class SpoolDirectory implements SpooledStreams {
  readonly path: string;
  readonly #readers = new Map<string, StreamReader>();
  /** When clean() was first called with a segment, epoch ms, by the name of its file. A new process counts
   *  again: segments stay longer. */
  #shippedAt = new Map<string, number>();

  /** Makes the directory, mode 0700. Throws the system's error. `name`: its path below the data directory. */
  constructor(dataDir: string, name = 'spool') {
    this.path = join(dataDir, name);
    makeDirectory(this.path, 0o700);
  }

  async streams(): Promise<readonly FoundStream[]> {
    const streams = grouped(await segmentsIn(this.path), nameOf);
    return [...streams.values()]
      .map((segments) => segments.sort((a, b) => a.segment - b.segment))
      .map((segments) => ({ ...(segments[0] as FoundSegment), segments }))
      .map(({ instance, incarnation, segments }) => ({ instance, incarnation, segments }))
      .sort((a, b) => a.incarnation - b.incarnation || a.instance - b.instance);
  }

  async read(
    stream: StreamName,
    from: StreamPosition,
    isLiving: boolean,
    limits: ReadLimits,
  ): Promise<StreamPart> {
    const name = nameOf(stream);
    const reader = this.#readers.get(name) ?? new StreamReader(this.path, stream);
    this.#readers.set(name, reader);
    const part = await reader.read(from, isLiving, limits);
    if (part.state === 'ended') {
      this.#readers.delete(name);
      await reader.close();
    }
    return part;
  }

  /** Closes the files that read() left open. */
  async close(): Promise<void> {
    await Promise.all([...this.#readers.values()].map((reader) => reader.close()));
    this.#readers.clear();
  }

  /** Leaves a mark for the process that ships the streams: ends of jobs are recorded nowhere. */
  async noteDropped(): Promise<void> {
    await writeFile(join(this.path, droppedName), '', { mode: 0o600 });
  }

  async takeDropped(): Promise<boolean> {
    const taken = join(this.path, `${droppedName}.taken`);
    // A process that died after it had taken the mark left it here.
    if (await exists(taken)) return true;
    const renaming = rename(join(this.path, droppedName), taken).then(() => true);
    return orIfMissing(false, renaming);
  }

  async forgetDropped(): Promise<void> {
    await rm(join(this.path, `${droppedName}.taken`), { force: true });
  }

  async shippedNumber(): Promise<Version> {
    const number = Number(await orIfMissing('', readFile(join(this.path, shippedName), 'utf8')));
    return Number.isSafeInteger(number) ? number : 0;
  }

  noteShipped(number: Version): Promise<void> {
    return writeDurably(join(this.path, shippedName), String(number));
  }

  async setAsideCounts(): Promise<{ readonly late: number; readonly damaged: number }> {
    const [late, damaged] = await Promise.all([
      segmentsIn(join(this.path, 'late')),
      segmentsIn(join(this.path, 'damaged')),
    ]);
    return { late: late.length, damaged: damaged.length };
  }

  async unreadable(): Promise<readonly string[]> {
    const wrong: string[] = [];
    for (const { segments } of await this.streams())
      for (const [n, segment] of segments.entries())
        if (await this.#isDamaged(segment, segments.slice(n + 1))) wrong.push(fileNameOf(segment));
    for (const segment of await segmentsIn(join(this.path, 'late'))) {
      const path = join(this.path, 'late', fileNameOf(segment));
      if ((await examineSegment(path, segment.segment)) === 'damaged')
        wrong.push(`late/${fileNameOf(segment)}`);
    }
    const damaged = await segmentsIn(join(this.path, 'damaged'));
    return [...wrong, ...damaged.map((segment) => `damaged/${fileNameOf(segment)}`)];
  }

  /** A torn end is allowed where nothing was written later. */
  async #isDamaged(segment: FoundSegment, later: readonly FoundSegment[]): Promise<boolean> {
    const path = join(this.path, fileNameOf(segment));
    for (let tries = 1; ; tries += 1) {
      const state = await examineSegment(path, segment.segment);
      if (state === 'whole' || state === 'gone') return false;
      const used = await Promise.all(later.map((other) => isUsed(join(this.path, fileNameOf(other)))));
      if (state === 'torn' && !used.includes(true)) return false;
      if (tries === spoolLimits.examinations) return true;
      // Its process may be writing: the bytes of one write appear in any order.
      await sleep(spoolLimits.syncMs);
    }
  }

  async bytes(): Promise<number> {
    const all = await Promise.all(
      [this.path, join(this.path, 'late'), join(this.path, 'damaged')].map(segmentsIn),
    );
    return all.flat().reduce((sum, { bytes }) => sum + bytes, 0);
  }

  keepDamaged(segment: FoundSegment): Promise<void> {
    return keepDamaged(this.path, fileNameOf(segment));
  }

  async setAside(segment: FoundSegment): Promise<void> {
    const late = join(this.path, 'late');
    makeDirectory(late, 0o700);
    // Its reader would go on in the moved file.
    await this.#readers.get(nameOf(segment))?.close();
    await rename(join(this.path, fileNameOf(segment)), join(late, fileNameOf(segment)));
    await syncPath(late);
    await syncPath(this.path);
  }

  /** Removes the oldest segments of damaged/ that take more than spoolLimits.keptPart of `bytesMax`: they
   *  count, and would fill the spool. Returns how many. */
  async #cleanDamaged(bytesMax: number): Promise<number> {
    const damaged = join(this.path, 'damaged');
    const all = [...(await segmentsIn(damaged))].sort((a, b) => b.writtenAt - a.writtenAt);
    let bytes = 0;
    const surplus = all.filter((segment) => {
      bytes += segment.bytes;
      return bytes > bytesMax * spoolLimits.keptPart;
    });
    for (const segment of surplus) await rm(join(damaged, fileNameOf(segment)), { force: true });
    return surplus.length;
  }

  /** Removes shipped segments: those known as shipped for spoolLimits.keptMs, and the oldest ones while all
   *  take more than a quarter of `bytesMax`. They are kept for a MySQL that was rolled back. Bounds damaged/,
   *  and returns how many of its segments it removed. */
  async clean(shipped: readonly FoundSegment[], bytesMax: number, now: number): Promise<number> {
    const known = this.#shippedAt;
    this.#shippedAt = new Map();
    let bytes = shipped.reduce((sum, segment) => sum + segment.bytes, 0);
    for (const segment of [...shipped].sort((a, b) => a.writtenAt - b.writtenAt)) {
      const name = fileNameOf(segment);
      const shippedAt = known.get(name) ?? now;
      if (now - shippedAt < spoolLimits.keptMs && bytes <= bytesMax * spoolLimits.keptPart) {
        this.#shippedAt.set(name, shippedAt);
        continue;
      }
      await rm(join(this.path, name), { force: true });
      bytes -= segment.bytes;
    }
    return this.#cleanDamaged(bytesMax);
  }
}

const nameOf = ({ instance, incarnation }: StreamName): string => `${instance}-${incarnation}`;

const exists = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  );

/** None if the directory does not exist; without files that are removed meanwhile. */
async function segmentsIn(directory: string): Promise<readonly FoundSegment[]> {
  const names = await orIfMissing([], readdir(directory));
  const found = await Promise.all(
    names.map(async (name) => {
      const segment = segmentNameOf(name);
      if (segment === null) return [];
      try {
        const { size, mtimeMs } = await stat(join(directory, name));
        return [{ ...segment, bytes: size, writtenAt: mtimeMs }];
      } catch {
        return [];
      }
    }),
  );
  return found.flat();
}
