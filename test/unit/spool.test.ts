// The spool: records, segments, the writer and the reader, on real files.

import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { Change } from '../../src/core/journal/change.ts';
import { spoolLimits } from '../../src/spool/limits.ts';
import {
  changeKinds,
  changeOf,
  writerIn as openWriter,
  readAll,
  spoolDirectory,
  watchedFiles,
} from '../support/spool.ts';
import { until } from '../support/until.ts';

const some = (count: number): readonly Change[] =>
  Array.from({ length: count }, (_, i) => changeOf(i + 1, changeKinds[i % changeKinds.length]));
const failed = { failure: { kind: 'unknown', code: 'spool_failed' } };
/** quicker to compare than changes */
const textOf = (change: Change): string => inspect(change, { sorted: true, depth: 4 });
const never = new Promise<void>(() => {});

async function writerIn(...given: Parameters<typeof openWriter>): ReturnType<typeof openWriter> {
  const writer = await openWriter(...given);
  onTestFinished(() => writer.close());
  return writer;
}

describe('spool', () => {
  it.each([1, 7, 1_000])('records: are read as they were written, %d at a time', async (changes) => {
    const directory = spoolDirectory();
    const writer = await writerIn(directory);
    const written = [
      ...some(50),
      changeOf(51, 'accepted', ''),
      changeOf(52, 'accepted', 'b'.repeat(300_000)),
    ];
    await writer.write(written.slice(0, 20), 'synced');
    await writer.write(written.slice(20), 'written');
    await writer.close();
    const read = await readAll(directory, { changes });
    const { changes: found, ...rest } = read;
    expect(found).toEqual(written);
    expect(rest).toMatchObject({ state: 'ended', isTorn: false, damaged: [] });
  });

  it('segments: follow one another, and a larger record has its own', async () => {
    const directory = spoolDirectory();
    const writer = await writerIn(directory, { segmentBytes: 4_096 });
    const written = [...some(90), changeOf(91, 'accepted', 'b'.repeat(20_000)), ...some(5)];
    for (const change of written) await writer.write([change], 'synced');
    const [found] = await directory.streams();
    expect(found?.segments.length).toBeGreaterThan(4);
    expect((await readAll(directory, { isLiving: true })).changes).toEqual(written);
    await writer.close();
    expect((await readAll(directory)).changes).toEqual(written);
  });

  it('files: mode 0600 in a directory of mode 0700, filled with zeros before the first record', async () => {
    const directory = spoolDirectory();
    const writer = await writerIn(directory, { segmentBytes: 10_000 });
    const names = readdirSync(directory.path);
    expect(names).toEqual(['1234abcd-17-1.seg']);
    const path = join(directory.path, names[0] ?? '');
    expect([statSync(path).mode & 0o777, statSync(directory.path).mode & 0o777]).toEqual([0o600, 0o700]);
    expect(readFileSync(path).length).toBe(10_000);
    await writer.close();
  });

  it('a living process: its reader waits at the end, and goes on later', async () => {
    const directory = spoolDirectory();
    const writer = await writerIn(directory);
    await writer.write(some(3), 'synced');
    expect(await readAll(directory, { isLiving: true })).toMatchObject({ state: 'waiting' });
    await writer.write([changeOf(9)], 'synced');
    expect((await readAll(directory, { isLiving: true })).changes).toHaveLength(4);
    await writer.close();
    expect(await readAll(directory, { isLiving: true })).toMatchObject({ state: 'ended' });
  });

  describe('damage', () => {
    async function segment(): Promise<{
      directory: ReturnType<typeof spoolDirectory>;
      path: string;
      bytes: Buffer;
      written: readonly Change[];
      ends: readonly number[];
    }> {
      const directory = spoolDirectory();
      const writer = await writerIn(directory, { segmentBytes: 1_200 });
      const written = some(4);
      const path = join(directory.path, '1234abcd-17-1.seg');
      const ends: number[] = [];
      for (const change of written) {
        await writer.write([change], 'synced');
        ends.push(endOf(readFileSync(path)));
      }
      const bytes = readFileSync(path);
      expect(readdirSync(directory.path).length).toBeLessThanOrEqual(2);
      return { directory, path, bytes, written, ends };
    }
    const endOf = (bytes: Buffer) => bytes.length - [...bytes].reverse().findIndex((byte) => byte !== 0);

    it('a segment cut at each byte: its whole records are read, and nothing else', async () => {
      const { directory, path, bytes, written, ends } = await segment();
      const last = ends.at(-1) ?? 0;
      for (let length = 33; length <= last; length += 1) {
        writeFileSync(path, bytes.subarray(0, length));
        const { changes, damaged } = await readAll(directory);
        const whole = written.slice(0, ends.filter((end) => end <= length).length);
        expect(changes.map(textOf)).toEqual(whole.map(textOf));
        expect(damaged).toEqual([]);
      }
    });

    it('each byte flipped: every other record is read, and the segment counts as damaged', async () => {
      const { directory, path, bytes, written, ends } = await segment();
      const last = ends.at(-1) ?? 0;
      const before = ends.at(-2) ?? 0;
      for (let at = 0; at < last; at += 1) {
        const flipped = Buffer.from(bytes);
        flipped[at] = (bytes[at] ?? 0) ^ 0x5a;
        writeFileSync(path, flipped);
        const read = await readAll(directory);
        // Without its place record a change has no place.
        const nameless = (change: Change) => textOf({ ...change, place: '' });
        const intact = written.filter((_, i) => at < (ends[i - 1] ?? 32) || at >= (ends[i] ?? 0));
        const found = new Set(read.changes.map(nameless));
        // The salt is a part of every record.
        if (at >= 20 && at < 28) expect(read.changes).toEqual([]);
        else expect(intact.map(nameless).filter((text) => !found.has(text))).toEqual([]);
        expect(read.changes.length).toBeLessThanOrEqual(written.length);
        for (const { number } of read.changes) expect(written[number - 1]?.number).toBe(number);
        // A bad last record of a dead process looks like a write that it did not finish.
        if (at < before) expect(read.damaged).toEqual([1]);
        else expect(read.isTorn || read.damaged.length > 0).toBe(true);
      }
    });

    it('a torn tail of a dead process is cut off; of a living one the reader waits', async () => {
      const { directory, path, bytes, ends } = await segment();
      const torn = Buffer.from(bytes);
      torn.fill(0, (ends.at(-2) ?? 0) + 12);
      writeFileSync(path, torn);
      expect(await readAll(directory, { isLiving: true })).toMatchObject({ state: 'waiting', isTorn: false });
      expect(await readAll(directory)).toMatchObject({ state: 'ended', isTorn: true, damaged: [] });
      expect(statSync(path).size).toBe(ends.at(-2));
      expect(await readAll(directory)).toMatchObject({ state: 'ended', isTorn: false });
    });
  });

  describe('writer', () => {
    it('synced: answers after the fdatasync of its record', async () => {
      const { files, operations } = watchedFiles();
      const writer = await writerIn(spoolDirectory(), { files });
      await writer.write([changeOf(1)], 'synced');
      expect(operations).toEqual(['make 1', 'write 1', 'sync 1']);
      await writer.close();
    });

    it('written: answers before the fdatasync; close does it', async () => {
      const { files, operations } = watchedFiles();
      const writer = await writerIn(spoolDirectory(), { files });
      await writer.write([changeOf(1)], 'written');
      expect(operations).toEqual(['make 1', 'write 1']);
      await writer.close();
      expect(operations).toContain('sync 1');
    });

    it('written: is synced within a second', async () => {
      const { files, operations } = watchedFiles();
      const writer = await writerIn(spoolDirectory(), { files });
      await writer.write([changeOf(1)], 'written');
      await until('the fdatasync', () => operations.includes('sync 1'));
      await writer.close();
    });

    it('lazy: synced answers as written does', async () => {
      const { files, operations } = watchedFiles();
      const writer = await writerIn(spoolDirectory(), { files, mode: 'lazy' });
      await writer.write([changeOf(1)], 'synced');
      expect(operations).toEqual(['make 1', 'write 1']);
      await writer.close();
    });

    it('groups: changes that arrive during an fdatasync share the next one', async () => {
      let release = () => {};
      const { files, operations } = watchedFiles((operation) =>
        operation === 'sync 1' && operations.filter((each) => each === 'sync 1').length === 1
          ? new Promise((resolve) => {
              release = resolve;
            })
          : undefined,
      );
      const writer = await writerIn(spoolDirectory(), { files });
      const first = writer.write([changeOf(1)], 'synced');
      await until('the first fdatasync', () => operations.includes('sync 1'));
      const others = [2, 3, 4].map((number) => writer.write([changeOf(number)], 'synced'));
      release();
      await Promise.all([first, ...others]);
      expect(operations).toEqual(['make 1', 'write 1', 'sync 1', 'write 1', 'sync 1']);
      await writer.close();
    });

    it.each(['write', 'sync'])(
      'a failing %s: unknown; the file is left, the changes go to a new one',
      async (what) => {
        const { files, operations } = watchedFiles(async (operation) => {
          // Of the third change, which waits for the disk.
          const nth = what === 'write' ? 3 : 2;
          if (operation === `${what} 1` && operations.filter((each) => each === operation).length === nth)
            throw new Error('EIO');
        });
        const directory = spoolDirectory();
        const writer = await writerIn(directory, { files, againMs: 1 });
        await writer.write([changeOf(1)], 'synced');
        await writer.write([changeOf(2, 'ended')], 'written');
        const late = writer.write([changeOf(3)], 'synced');
        await expect(late).rejects.toMatchObject(failed);
        expect(writer.admits(1)).toBe(false);
        await until(
          'the second write',
          () => operations.includes('sync 2') || operations.includes('write 2'),
        );
        const after = operations.slice(operations.lastIndexOf(`${what} 1`) + 1);
        expect(after.filter((operation) => operation.endsWith(' 1'))).toEqual([]);
        await writer.write([changeOf(4)], 'synced');
        expect(writer.admits(1)).toBe(true);
        await writer.close();
        const numbers = (await readAll(directory)).changes.map(({ number }) => number);
        expect([...new Set(numbers)].sort()).toEqual([1, 2, 3, 4]);
      },
    );

    it('a hanging fdatasync: unknown after the limit of a call', async () => {
      const { files } = watchedFiles((operation) => (operation === 'sync 1' ? never : undefined));
      const writer = await writerIn(spoolDirectory(), { files, answerMs: 20 });
      await expect(writer.write([changeOf(1)], 'synced')).rejects.toMatchObject(failed);
    });

    it('full: admits nothing more; ends use a further tenth, and what is beyond is reported', async () => {
      const directory = spoolDirectory();
      const dropped: number[] = [];
      const writer = await writerIn(directory, {
        ...{ segmentBytes: 64 * 1024, bytesMax: 640 * 1024, againMs: 1, answerMs: 50 },
        onDropped: (changes) => dropped.push(changes),
      });
      let number = 0;
      const body = 'b'.repeat(10_000);
      while (writer.admits(body.length)) {
        number += 1;
        await writer.write([changeOf(number, 'accepted', body)], 'synced');
      }
      expect(await directory.bytes()).toBeLessThanOrEqual(640 * 1024);
      expect(number).toBeGreaterThan(50);
      // As one large end after the other.
      let ends = 0;
      try {
        for (;;) {
          await writer.write([changeOf(number + ends + 1, 'accepted', body)], 'written');
          ends += 1;
        }
      } catch (error) {
        expect(error).toMatchObject(failed);
      }
      expect(ends).toBeGreaterThan(0);
      expect(await directory.bytes()).toBeLessThanOrEqual(640 * 1024 * (1 + spoolLimits.endsPart));
      await writer.close();
      expect(dropped.reduce((sum, each) => sum + each, 0)).toBeGreaterThan(0);
      expect((await readAll(directory)).changes).toHaveLength(number + ends);
    });

    it('a directory that is gone: unknown, and writes again when it is back', async () => {
      let isGone = true;
      const { files } = watchedFiles(async () => {
        if (isGone) throw new Error('ENOSPC');
      });
      const directory = spoolDirectory();
      const writer = await writerIn(directory, { files, againMs: 1 });
      await expect(writer.write([changeOf(1)], 'synced')).rejects.toMatchObject(failed);
      isGone = false;
      await until('it to write again', () => writer.admits(1));
      await writer.write([changeOf(2)], 'synced');
      await writer.close();
      expect((await readAll(directory)).changes.map(({ number }) => number)).toEqual([1, 2]);
    });
  });

  it('directory: keeps shipped segments for an hour, and at most a quarter of the limit', async () => {
    const directory = spoolDirectory();
    const writer = await writerIn(directory, { segmentBytes: 1_000 });
    for (const change of some(30)) await writer.write([change], 'synced');
    await writer.close();
    const segments = async () => (await directory.streams())[0]?.segments ?? [];
    const all = await segments();
    await directory.clean(all, 2 ** 30, Date.now());
    expect(await segments()).toHaveLength(all.length);
    const bytes = all.reduce((sum, segment) => sum + segment.bytes, 0);
    await directory.clean(all, bytes, Date.now());
    const kept = await segments();
    expect(kept.reduce((sum, segment) => sum + segment.bytes, 0)).toBeLessThanOrEqual(bytes / 4);
    expect(kept.at(-1)?.segment).toBe(all.at(-1)?.segment);
    await directory.clean(await segments(), 2 ** 30, Date.now() + spoolLimits.keptMs + 1);
    expect(await segments()).toEqual([]);
  });
});
