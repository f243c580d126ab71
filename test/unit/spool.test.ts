// The spool: records, segments, the writer and the reader, on real files.

import { closeSync, openSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { Change } from '../../src/core/job-change.ts';
import { spoolLimits } from '../../src/journal/limits.ts';
import { realFiles, SyncThread } from '../../src/journal/record/segment.ts';
import { StreamReader } from '../../src/journal/ship/stream-reader.ts';
import {
  changeKinds,
  changeOf,
  writerIn as openWriter,
  readAll,
  spoolDirectory,
  stream,
  watchedFiles,
} from '../support/spool.ts';
import { until } from '../support/until.ts';

const some = (count: number): readonly Change[] =>
  Array.from({ length: count }, (_, i) => changeOf(i + 1, changeKinds[i % changeKinds.length]));
const failed = { failure: { kind: 'unknown', code: 'spool_failed' } };

async function writerIn(...given: Parameters<typeof openWriter>): ReturnType<typeof openWriter> {
  const writer = await openWriter(...given);
  onTestFinished(() => writer.close());
  return writer;
}

describe('spool', () => {
  it.each([1, 7, 1_000])('records: are read as they were written, %d at a time', async (changes) => {
    const directory = spoolDirectory();
    const writer = await writerIn(directory);
    const snoozed = { ...changeOf(53, 'retried'), attempt: null } as Change;
    const long = changeOf(52, 'accepted', 'b'.repeat(70_000));
    const written = [...some(50), changeOf(51, 'accepted', ''), long, snoozed];
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

  it('thread: writes and syncs, rejects with the error of the system, and may end', async () => {
    const directory = spoolDirectory();
    const thread = new SyncThread();
    onTestFinished(() => thread.close());
    await until('the thread runs', () => thread.isReady);
    const writer = await writerIn(directory, { files: realFiles(thread), segmentBytes: 4_096 });
    const written = [...some(90), changeOf(91, 'accepted', 'b'.repeat(20_000)), ...some(5)];
    await Promise.all(written.map((change) => writer.write([change], 'synced')));
    expect((await readAll(directory, { isLiving: true })).changes).toEqual(written);
    await expect(thread.write(1_000_000, Buffer.from('a'), 0)).rejects.toMatchObject({ code: 'EBADF' });
    const readOnly = openSync(import.meta.filename, 'r');
    onTestFinished(() => closeSync(readOnly));
    await expect(thread.write(readOnly, Buffer.from('a'), 0)).rejects.toMatchObject({ code: 'EBADF' });
    thread.close();
    await until('the thread has ended', () => !thread.isReady);
    await writer.write([changeOf(97)], 'synced');
    await writer.close();
    expect((await readAll(directory)).changes).toEqual([...written, changeOf(97)]);
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

  it('a reader that follows a living process: reads each change once, over all segments', async () => {
    const directory = spoolDirectory();
    const writer = await writerIn(directory, { segmentBytes: 4_096 });
    const reader = new StreamReader(directory.path, stream);
    const found: Change[] = [];
    let from = { segment: 0, offset: 0 };
    const follow = async (): Promise<string> => {
      const { changes, next, state } = await reader.read(from, true, { changes: 3, bytes: 2 ** 20 });
      found.push(...changes);
      from = next;
      return state;
    };
    const written = some(100);
    for (const [i, change] of written.entries()) {
      await writer.write([change], 'written');
      if (i % 5 === 0) await follow();
    }
    await writer.close();
    while ((await follow()) !== 'ended');
    await reader.close();
    expect(found).toEqual(written);
    expect(from.segment).toBeGreaterThan(2);
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

  describe('writer', () => {
    it('synced: answers after the fdatasync of its record', async () => {
      const done: string[] = [];
      const { files } = watchedFiles({
        async after(operation) {
          done.push(operation);
        },
      });
      const writer = await writerIn(spoolDirectory(), { files });
      await writer.write([changeOf(1)], 'synced');
      expect(done).toEqual(['make 1', 'write 1', 'sync 1']);
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

    it('written: is synced a while later', async () => {
      const { files, operations } = watchedFiles();
      const writer = await writerIn(spoolDirectory(), { files, syncMs: 5 });
      await writer.write([changeOf(1)], 'written');
      await until('the fdatasync', () => operations.includes('sync 1'));
      await writer.close();
    });

    it('groups: changes that arrive during an fdatasync share the next one', async () => {
      let release = () => {};
      const { files, operations } = watchedFiles({
        before: (operation) =>
          operation === 'sync 1' && operations.filter((each) => each === 'sync 1').length === 1
            ? new Promise((resolve) => {
                release = resolve;
              })
            : undefined,
      });
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
        const { files, operations } = watchedFiles({
          async before(operation) {
            // Of the third change, which waits for the disk.
            const nth = what === 'write' ? 3 : 2;
            if (operation === `${what} 1` && operations.filter((each) => each === operation).length === nth)
              throw new Error('EIO');
          },
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
        // The kernel may drop what was not synced of the first file.
        rmSync(join(directory.path, '1234abcd-17-1.seg'));
        expect((await readAll(directory)).changes.map(({ number }) => number)).toEqual([2, 3, 4]);
      },
    );

    it('a failing fdatasync: changes that came meanwhile are written without a pause', async () => {
      let second: Promise<void> | undefined;
      const { files } = watchedFiles({
        async before(operation) {
          if (operation !== 'sync 1') return;
          second = writer.write([changeOf(2)], 'synced');
          throw new Error('EIO');
        },
      });
      const writer = await writerIn(spoolDirectory(), { files, againMs: 60_000 });
      await expect(writer.write([changeOf(1)], 'synced')).rejects.toMatchObject(failed);
      await second;
    });

    it('a hanging fdatasync: unknown after the limit of a call; nothing is admitted until it ends', async () => {
      let release = () => {};
      const { files, operations } = watchedFiles({
        before: (operation) =>
          operation === 'sync 1' && operations.filter((each) => each === 'sync 1').length === 1
            ? new Promise((resolve) => {
                release = resolve;
              })
            : undefined,
      });
      const directory = spoolDirectory();
      const writer = await writerIn(directory, { files, answerMs: 20 });
      await expect(writer.write([changeOf(1)], 'synced')).rejects.toMatchObject(failed);
      // On a busy disk the answer may be late before the fdatasync begins.
      await until('the fdatasync', () => operations.includes('sync 1'));
      expect(writer.admits(1)).toBe(false);
      release();
      await until('the end of the fdatasync', () => writer.admits(1));
      expect((await readAll(directory)).changes).toEqual([changeOf(1)]);
    });

    it.each(['write', 'sync'])('a %s that hangs at the end: close() ends nevertheless', async (what) => {
      let hangs = false;
      const { files, closeAll } = watchedFiles({
        before: (operation) => (hangs && operation === `${what} 1` ? new Promise(() => {}) : undefined),
      });
      const writer = await openWriter(spoolDirectory(), { files, answerMs: 20 });
      await writer.write([changeOf(1)], 'synced').catch(() => undefined);
      hangs = true;
      await writer.close();
      await closeAll();
    });

    it('a file of the same name: is kept, and the next number is taken', async () => {
      const directory = spoolDirectory();
      const earlier = await openWriter(directory);
      await earlier.write([changeOf(1)], 'synced');
      const writer = await openWriter(directory);
      await writer.write([changeOf(2)], 'synced');
      await writer.close();
      expect((await readAll(directory)).changes).toEqual([changeOf(1), changeOf(2)]);
      await earlier.close();
    });

    it('full: admits nothing more; ends use further segments, and what is beyond is reported', async () => {
      const directory = spoolDirectory();
      const dropped: number[] = [];
      const writer = await writerIn(directory, {
        ...{ segmentBytes: 64 * 1024, bytesMax: 640 * 1024, againMs: 1 },
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
          await writer.write([changeOf(number + ends + 1, 'accepted', body)], 'synced');
          expect(writer.admits(body.length)).toBe(false);
          ends += 1;
        }
      } catch (error) {
        expect(error).toMatchObject(failed);
      }
      expect(ends).toBeGreaterThan(0);
      expect(await directory.bytes()).toBeLessThanOrEqual((640 + spoolLimits.endsSegmentsMin * 64) * 1024);
      await writer.close();
      expect(dropped.reduce((sum, each) => sum + each, 0)).toBeGreaterThan(0);
      expect((await readAll(directory)).changes).toHaveLength(number + ends);
    });

    it('full: ends and deaths are written without their attempts', async () => {
      const directory = spoolDirectory();
      const writer = await writerIn(directory, { segmentBytes: 20_000, bytesMax: 20_000 });
      const withAttempt = [changeOf(1, 'ended'), changeOf(3, 'dead'), changeOf(5, 'retried')];
      await writer.write(withAttempt, 'written');
      await writer.write([changeOf(7, 'accepted', 'b'.repeat(18_700))], 'synced');
      const later = [changeOf(9, 'ended'), changeOf(11, 'dead'), changeOf(13, 'moved')];
      expect(writer.admits(1_000)).toBe(false);
      await writer.write(later, 'written');
      await writer.close();
      const { changes } = await readAll(directory);
      const attempts = changes.map((change) => ('attempt' in change ? change.attempt !== null : null));
      expect(attempts).toEqual([true, true, true, null, false, false, null]);
    });

    it('a directory that is gone: unknown, and writes again when it is back', async () => {
      let isGone = true;
      const { files } = watchedFiles({
        async before() {
          if (isGone) throw new Error('ENOSPC');
        },
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

  it('directory: keeps segments for an hour after shipping, and at most a quarter of the limit', async () => {
    const directory = spoolDirectory();
    const writer = await writerIn(directory, { segmentBytes: 1_000 });
    for (const change of some(30)) await writer.write([change], 'synced');
    await writer.close();
    const segments = async () => (await directory.streams())[0]?.segments ?? [];
    const all = await segments();
    const bytes = all.reduce((sum, segment) => sum + segment.bytes, 0);
    // MySQL was unavailable for two hours.
    const shippedAt = Date.now() + 2 * spoolLimits.keptMs;
    await directory.clean(all, 2 ** 30, shippedAt);
    expect(await segments()).toHaveLength(all.length);
    await directory.clean(all, bytes, shippedAt);
    const kept = await segments();
    expect(kept.reduce((sum, segment) => sum + segment.bytes, 0)).toBeLessThanOrEqual(bytes / 4);
    expect(kept.at(-1)?.segment).toBe(all.at(-1)?.segment);
    await directory.clean(kept, 2 ** 30, shippedAt + spoolLimits.keptMs - 1);
    expect(await segments()).toHaveLength(kept.length);
    await directory.clean(kept, 2 ** 30, shippedAt + spoolLimits.keptMs);
    expect(await segments()).toEqual([]);
  });
});
