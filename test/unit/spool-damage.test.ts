// Segments that a crash or a bad disk left: which changes their reader returns, and what it reports.

import { existsSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { crc32 } from 'node:zlib';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { Change } from '../../src/core/job-change.ts';
import { writeChange } from '../../src/journal/record/record.ts';
import { headerBytes, readHeader } from '../../src/journal/record/segment.ts';
import type { SpoolWriter } from '../../src/journal/record/spool-writer.ts';
import type { SpoolDirectory } from '../../src/journal/ship/spool-directory.ts';
import { StreamReader } from '../../src/journal/ship/stream-reader.ts';
import { changeOf, readAll, spoolDirectory, stream, watchedFiles, writerIn } from '../support/spool.ts';

const segmentBytes = 400;
const pathIn = (directory: SpoolDirectory, segment: number) =>
  join(directory.path, `1234abcd-17-${segment}.seg`);
const numbersOf = (changes: readonly Change[]) => changes.map(({ number }) => number);

/** A writer whose process dies: its stream gets no end. */
async function dyingWriter(directory: SpoolDirectory, bytes: number): Promise<SpoolWriter> {
  const { files, closeAll } = watchedFiles();
  onTestFinished(closeAll);
  return writerIn(directory, { files, segmentBytes: bytes });
}

interface Recorded {
  readonly change: Change;
  readonly segment: number;
  readonly at: number;
  readonly end: number;
}

/** A stream of a process that died: six changes in the segments 1 and 2, and perhaps a prepared one. */
async function deadStream(): Promise<{
  readonly directory: SpoolDirectory;
  readonly recorded: readonly Recorded[];
  readonly bytes: ReadonlyMap<number, Buffer>;
}> {
  const directory = spoolDirectory();
  const writer = await dyingWriter(directory, segmentBytes);
  const recorded: Recorded[] = [];
  for (const kind of ['accepted', 'ended', 'moved', 'accepted', 'alert', 'restored'] as const) {
    const number = recorded.length + 1;
    const change = changeOf(number, kind);
    await writer.write([change], 'synced');
    const segment = used(directory).at(-1) ?? 0;
    const before = recorded.at(-1);
    const at = before?.segment === segment ? before.end : headerBytes;
    recorded.push({ change, segment, at, end: at + lengthAt(directory, segment, at) });
  }
  expect(recorded.at(0)?.segment).toBe(1);
  expect(recorded.at(-1)?.segment).toBe(2);
  const bytes = new Map([1, 2].map((segment) => [segment, readFileSync(pathIn(directory, segment))]));
  return { directory, recorded, bytes };
}

function used(directory: SpoolDirectory): readonly number[] {
  return [1, 2, 3].filter(
    (segment) => existsSync(pathIn(directory, segment)) && lengthAt(directory, segment, headerBytes) > 8,
  );
}

/** of the record at `at`; 8 = none */
function lengthAt(directory: SpoolDirectory, segment: number, at: number): number {
  const bytes = readFileSync(pathIn(directory, segment));
  return 8 + (at + 4 <= bytes.length ? bytes.readUInt32BE(at) : 0);
}

describe('spool damage', () => {
  it('a stream cut at each byte: its whole records are read, and nothing else', async () => {
    const { directory, recorded, bytes } = await deadStream();
    const whole = bytes.get(2) as Buffer;
    for (let length = 0; length <= whole.length; length += 1) {
      writeFileSync(pathIn(directory, 2), whole.subarray(0, length));
      const { changes, damaged, isTorn, state } = await readAll(directory);
      const intact = recorded.filter(({ segment, end }) => segment === 1 || end <= length);
      expect(changes).toEqual(intact.map(({ change }) => change));
      const isCutInside = recorded.some(
        ({ segment, at, end }) => segment === 2 && at < length && length < end,
      );
      // The first bytes of a length can be zeros: as if nothing had been written.
      const isSeen = whole.subarray(headerBytes, length).length > 0 && isCutInside;
      if (!isSeen) expect(isTorn).toBe(false);
      expect({ damaged, state }).toEqual({ damaged: [], state: 'ended' });
    }
  });

  it('each byte changed: all other records are read, and only those; damage is reported', async () => {
    const { directory, recorded, bytes } = await deadStream();
    const last = recorded.at(-1) as Recorded;
    for (const [segment, whole] of bytes) {
      const end = Math.max(...recorded.filter((each) => each.segment === segment).map((each) => each.end));
      for (let at = 0; at < end; at += 1) {
        const changed = Buffer.from(whole);
        // To zero, because zeros mean the end of a segment.
        changed[at] = whole[at] === 0 ? 0x5a : 0;
        writeFileSync(pathIn(directory, segment), changed);
        const { changes, damaged, isTorn } = await readAll(directory);
        // The salt is a part of every checksum.
        const isSalt = at >= 20 && at < 28;
        const intact = recorded.filter(
          (each) => each.segment !== segment || (!isSalt && (at < each.at || at >= each.end)),
        );
        expect(changes, `${segment}: ${at}`).toEqual(intact.map(({ change }) => change));
        // A bad last record looks like a write that a dead process did not finish.
        if (segment === 2 && at >= last.at)
          expect({ isTorn, damaged }).toEqual({ isTorn: true, damaged: [] });
        else expect(damaged, `${segment}: ${at}`).toEqual([segment]);
        writeFileSync(pathIn(directory, segment), whole);
      }
    }
    expect(readdirSync(join(directory.path, 'damaged')).sort()).toEqual([
      '1234abcd-17-1.seg',
      '1234abcd-17-2.seg',
    ]);
  });

  it('a torn tail: cut off for a dead process, also before a prepared segment; a living one may go on', async () => {
    const { directory, recorded, bytes } = await deadStream();
    const last = recorded.at(-1) as Recorded;
    const torn = Buffer.from(bytes.get(2) as Buffer);
    torn.fill(0, last.at + 12);
    writeFileSync(pathIn(directory, 2), torn);
    writeFileSync(pathIn(directory, 3), Buffer.alloc(segmentBytes));
    expect(await readAll(directory, { isLiving: true })).toMatchObject({ state: 'waiting', isTorn: false });
    expect(statSync(pathIn(directory, 2)).size).toBe(segmentBytes);
    expect(await readAll(directory)).toMatchObject({ state: 'ended', isTorn: true, damaged: [] });
    expect(statSync(pathIn(directory, 2)).size).toBe(last.at);
    expect(await readAll(directory)).toMatchObject({ state: 'ended', isTorn: false });
  });

  it.each([
    ['an empty file', Buffer.alloc(0)],
    ['a part of its zeros', Buffer.alloc(300)],
    ['no header', Buffer.alloc(segmentBytes)],
    ['a part of a header', Buffer.concat([Buffer.from('dqsp\0\x01'), Buffer.alloc(100)])],
  ])('a segment that a crash left while it was made, with %s: holds nothing', async (_, left) => {
    const { directory, recorded } = await deadStream();
    writeFileSync(pathIn(directory, 3), left);
    const { changes, ...rest } = await readAll(directory);
    expect(changes).toHaveLength(recorded.length);
    expect(rest).toMatchObject({ state: 'ended', isTorn: false, damaged: [] });
  });

  it('a record of a later version: is kept in damaged/, and its neighbours are read', async () => {
    const { directory, recorded, bytes } = await deadStream();
    const { at, end, segment } = recorded[1] as Recorded;
    const later = Buffer.from(bytes.get(segment) as Buffer);
    later.writeUInt8(9, at + 8);
    const salt = readHeader(later)?.salt as Buffer;
    const sum = crc32(later.subarray(at + 8, end), crc32(later.subarray(at, at + 4), crc32(salt)));
    later.writeUInt32BE(sum, at + 4);
    writeFileSync(pathIn(directory, segment), later);
    const { changes, damaged } = await readAll(directory);
    expect(numbersOf(changes)).toEqual([1, 3, 4, 5, 6]);
    expect(damaged).toEqual([segment]);
  });

  it('a body full of records: a search behind damage finds none of them valid, and lets other work run', async () => {
    const directory = spoolDirectory();
    const writer = await dyingWriter(directory, 2 ** 21);
    const forged = Buffer.alloc(200);
    const end = writeChange(forged, 0, Buffer.alloc(8), changeOf(9, 'alert'));
    const body = Buffer.alloc(2 ** 20, forged.subarray(0, end));
    await writer.write([{ ...changeOf(1), body } as Change], 'synced');
    await writer.write([changeOf(2)], 'synced');
    const path = pathIn(directory, 1);
    const bytes = readFileSync(path);
    bytes[headerBytes + 5] = (bytes[headerBytes + 5] ?? 0) ^ 1;
    writeFileSync(path, bytes);
    let turns = 0;
    let isOver = false;
    const count = (): void => {
      turns += 1;
      if (!isOver) setImmediate(count);
    };
    count();
    const { changes, damaged } = await readAll(directory);
    isOver = true;
    expect(numbersOf(changes)).toEqual([2]);
    expect(damaged).toEqual([1]);
    expect(turns).toBeGreaterThan(body.length / end / 2);
  });
});

describe('spool deaths', () => {
  const kinds = ['accepted', 'ended', 'moved', 'accepted', 'dead', 'alert', 'accepted', 'retried'] as const;

  /** Two callers write until the operation `point`, where the process stops. */
  async function diesAt(point: number, when: 'before' | 'after') {
    const directory = spoolDirectory();
    let isDead = false;
    let die = () => {};
    const death = new Promise<void>((resolve) => {
      die = () => {
        isDead = true;
        resolve();
      };
    });
    const stop = async (): Promise<void> => {
      if (watched.operations.length === point) {
        // An answer that is on its way leaves the process.
        await nextTurn();
        die();
      }
      if (isDead) await new Promise<void>(() => {});
    };
    const watched = watchedFiles({ [when]: stop });
    const written: Change[] = [];
    const synced: number[] = [];
    const answered: number[] = [];
    const opened = writerIn(directory, { files: watched.files, segmentBytes: 1_000 });
    const caller = async (writer: SpoolWriter, first: number) => {
      for (let number = first; number <= 16 && !isDead; number += 2) {
        const kind = kinds[number % kinds.length] ?? 'moved';
        const change = changeOf(number, kind);
        written.push(change);
        const isSynced = kind === 'accepted' || kind === 'moved';
        await writer.write([change], isSynced ? 'synced' : 'written');
        if (isDead) return;
        answered.push(number);
        if (isSynced) synced.push(number);
      }
    };
    const work = opened.then((writer) => Promise.all([caller(writer, 1), caller(writer, 2)]));
    work.catch(() => undefined);
    await Promise.race([death, work]);
    isDead = true;
    const operations = watched.operations.length;
    await watched.closeAll();
    return { directory, written, answered, synced, operations, atPowerCut: watched.atPowerCut };
  }

  const isWritten = (written: readonly Change[], found: readonly Change[]) => {
    for (const change of found) expect(written).toContainEqual(change);
    expect(new Set(numbersOf(found)).size).toBe(found.length);
  };

  it('between any two operations: every answered change is read, and only written ones', async () => {
    const { operations } = await diesAt(1_000, 'before');
    expect(operations).toBeGreaterThan(15);
    for (const when of ['before', 'after'] as const)
      for (let point = 1; point <= operations; point += 1) {
        const { directory, written, answered } = await diesAt(point, when);
        const { changes, damaged, state } = await readAll(directory);
        expect(numbersOf(changes)).toEqual(expect.arrayContaining(answered));
        isWritten(written, changes);
        expect({ damaged, state }).toEqual({ damaged: [], state: 'ended' });
      }
  });

  it('a power cut between any two operations: every change answered as synced is read', async () => {
    const { operations } = await diesAt(1_000, 'before');
    for (let point = 1; point <= operations; point += 1) {
      const { directory, written, synced, atPowerCut } = await diesAt(point, 'before');
      for (const name of readdirSync(directory.path)) {
        const path = join(directory.path, name);
        // The disk has written none, all, or any of the pages since the last fdatasync.
        const now = readFileSync(path);
        const content = Buffer.from(atPowerCut.get(name) ?? Buffer.alloc(0));
        for (let at = 0; at < content.length; at += 64)
          if ((at / 64 + point) % 3 === 0) now.copy(content, at, at, Math.min(at + 64, content.length));
        writeFileSync(path, content);
      }
      const { changes } = await readAll(directory);
      expect(numbersOf(changes)).toEqual(expect.arrayContaining(synced));
      isWritten(written, changes);
    }
  });

  it.skipIf(process.platform !== 'linux')(
    'a segment whose first bytes the disk does not give: no file stays open',
    async () => {
      const directory = spoolDirectory();
      // Reads of address 0 fail with EIO.
      symlinkSync('/proc/self/mem', pathIn(directory, 1));
      const openFiles = () => readdirSync('/proc/self/fd').length;
      const reader = new StreamReader(directory.path, stream);
      const before = openFiles();
      for (let n = 0; n < 20; n += 1)
        await expect(reader.read({ segment: 1, offset: 0 }, false, { changes: 1, bytes: 1 })).rejects.toThrow(
          'EIO',
        );
      expect(openFiles() - before).toBeLessThan(20);
    },
  );
});
