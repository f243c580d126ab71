// Reads the changes of one stream in their order, from a position on.
// A bad record at the end of the stream of a living process is a write in progress: the reader waits. Of a
// dead process it is a torn tail, which holds only unanswered changes: it is cut off. Any other bad record is
// damage: the segment is kept in damaged/, and its valid records are read.
// Invariant: the position after a change never lies behind a change that was not read.

import { type FileHandle, link, open, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Change } from '../../core/job-change.ts';
import type { ReadLimits, StreamName, StreamPart, StreamPosition } from '../../ports/spool.ts';
import { makeDirectory, orIfMissing } from '../../runtime/files.ts';
import { turn as nextTurn } from '../../runtime/time.ts';
import { spoolLimits } from '../limits.ts';
import { endOfRecord, frameBytes, mayBeRecord, type Payload, readPayload } from '../record/record.ts';
import { fileNameOf, headerBytes, readHeader, segmentNameOf } from '../record/segment.ts';

/** An open segment. */
interface OpenSegment {
  readonly number: number;
  readonly file: FileHandle;
  readonly salt: Buffer;
  isDamaged: boolean;
  /** bytes read ahead */
  ahead: { readonly at: number; readonly bytes: Buffer };
}

export class StreamReader {
  readonly #directory: string;
  readonly #stream: StreamName;
  #open: OpenSegment | null = null;

  constructor(directory: string, stream: StreamName) {
    this.#directory = directory;
    this.#stream = stream;
  }

  async close(): Promise<void> {
    const file = this.#open?.file;
    this.#open = null;
    await file?.close();
  }

  /** `isLiving`: of the process that writes the stream, determined before the call: a process that dies later
   *  may have made further segments. Rejects with the system's error. */
  async read(from: StreamPosition, isLiving: boolean, limits: ReadLimits): Promise<StreamPart> {
    const segments = await this.#segments();
    const changes: Change[] = [];
    const damaged: number[] = [];
    const atEnd = isLiving ? 'waiting' : 'ended';
    let bytesLeft = limits.bytes;
    let at = startIn(segments, from);
    for (;;) {
      // Before the records of this segment are read: all of them are older than the first one there.
      const later = await this.#nextUsed(segments, at.segment);
      const segment = await this.#segmentAt(at.segment, damaged);
      while (segment !== null) {
        if (changes.length >= limits.changes || bytesLeft <= 0)
          return { changes, next: at, state: 'more', isTorn: false, damaged };
        const record = await recordAt(segment, at.offset);
        if (record !== null) {
          const payload = read(record);
          if (payload === 'closed') return { changes, next: at, state: 'ended', isTorn: false, damaged };
          if (payload === null) await this.#keepDamaged(segment, damaged);
          else changes.push(payload);
          bytesLeft -= record.length;
          at = { ...at, offset: at.offset + record.length };
          continue;
        }
        if (later === null && isLiving) break;
        const rest = await restOf(segment, at.offset);
        if (rest.kind === 'zeros') break;
        if (rest.kind === 'garbage' && later === null) {
          await cutOff(segment.file, at.offset);
          return { changes, next: at, state: 'ended', isTorn: true, damaged };
        }
        await this.#keepDamaged(segment, damaged);
        if (rest.kind !== 'record') break;
        at = { ...at, offset: rest.at };
      }
      if (later === null) return { changes, next: at, state: atEnd, isTorn: false, damaged };
      at = { segment: later, offset: headerBytes };
    }
  }

  /** The numbers of its segments, ascending. */
  async #segments(): Promise<readonly number[]> {
    const names = (await readdir(this.#directory)).map(segmentNameOf);
    const { instance, incarnation } = this.#stream;
    return names
      .filter((name) => name?.instance === instance && name.incarnation === incarnation)
      .map((name) => name?.segment ?? 0)
      .sort((a, b) => a - b);
  }

  /** The first later segment with a record; null: none. Others were prepared, or are left of a failure. */
  async #nextUsed(segments: readonly number[], after: number): Promise<number | null> {
    for (const number of segments) if (number > after && (await isUsed(this.#pathOf(number)))) return number;
    return null;
  }

  /** null: it has no header yet, or does not exist */
  async #segmentAt(number: number, damaged: number[]): Promise<OpenSegment | null> {
    if (this.#open?.number === number) return this.#open;
    await this.close();
    const file = await openIfAny(this.#pathOf(number));
    if (file === null) return null;
    const header = await readAt(file, 0, headerBytes).catch(async (error: unknown) => {
      // A reader on a bad disk tries again and again: the file must not stay open.
      await file.close();
      throw error;
    });
    if (header.length < headerBytes || header.every((byte) => byte === 0)) {
      await file.close();
      return null;
    }
    const ahead = { at: 0, bytes: header };
    // Records behind a damaged header are valid if its salt is.
    const salt = readHeader(header)?.salt ?? header.subarray(20, 28);
    const segment: OpenSegment = { number, file, salt, isDamaged: false, ahead };
    this.#open = segment;
    if (readHeader(header) === null) await this.#keepDamaged(segment, damaged);
    return segment;
  }

  async #keepDamaged(segment: OpenSegment, damaged: number[]): Promise<void> {
    if (segment.isDamaged) return;
    segment.isDamaged = true;
    damaged.push(segment.number);
    await keepDamaged(this.#directory, fileNameOf({ ...this.#stream, segment: segment.number }));
  }

  #pathOf(segment: number): string {
    return join(this.#directory, fileNameOf({ ...this.#stream, segment }));
  }
}

/** Keeps a segment in damaged/, also after its removal. */
export async function keepDamaged(spool: string, name: string): Promise<void> {
  const directory = join(spool, 'damaged');
  makeDirectory(directory, 0o700);
  await link(join(spool, name), join(directory, name)).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error;
  });
}

/** Whether a segment has a record; others were prepared, or are left of a failure. */
export async function isUsed(path: string): Promise<boolean> {
  const file = await openIfAny(path, 'r');
  if (file === null) return false;
  try {
    const first = await readAt(file, headerBytes, spoolLimits.firstBytes);
    return first.some((byte) => byte !== 0);
  } finally {
    await file.close();
  }
}

/** Whether a segment can be read to its end. `torn`: unreadable bytes follow its last record, as a death or a
 *  write in progress leaves them. Changes nothing. Rejects with the system's error. */
export async function examineSegment(
  path: string,
  number: number,
): Promise<'whole' | 'torn' | 'damaged' | 'gone'> {
  const file = await openIfAny(path, 'r');
  if (file === null) return 'gone';
  try {
    const header = await readAt(file, 0, headerBytes);
    if (header.every((byte) => byte === 0)) return 'whole';
    const salt = readHeader(header)?.salt;
    if (salt === undefined) return 'damaged';
    const segment = { number, file, salt, isDamaged: false, ahead: { at: 0, bytes: header } };
    for (let at = headerBytes; ; ) {
      const record = await recordAt(segment, at);
      if (record === null) {
        const rest = await restOf(segment, at);
        return rest.kind === 'zeros' ? 'whole' : rest.kind === 'garbage' ? 'torn' : 'damaged';
      }
      const payload = read(record);
      if (payload === null) return 'damaged';
      if (payload === 'closed') return 'whole';
      at += record.length;
    }
  } finally {
    await file.close();
  }
}

/** A segment before the first existing one was shipped and removed. */
function startIn(segments: readonly number[], from: StreamPosition): StreamPosition {
  const first = segments.find((number) => number >= from.segment) ?? from.segment;
  return { segment: first, offset: first > from.segment ? headerBytes : Math.max(headerBytes, from.offset) };
}

/** null: of a kind, or with a content, that this version does not know */
function read(record: Buffer): Payload | null {
  try {
    return readPayload(record);
  } catch {
    return null;
  }
}

/** The whole record at the offset; null: none, or a bad one. */
async function recordAt(segment: OpenSegment, offset: number): Promise<Buffer | null> {
  const known = recordIn(segment.ahead.bytes, offset - segment.ahead.at, segment.salt);
  if (known !== null) return known;
  // Bytes read ahead may be older than the end of a write.
  let bytes = await readAt(segment.file, offset, spoolLimits.readBytes);
  segment.ahead = { at: offset, bytes };
  const length = bytes.length < frameBytes ? 0 : frameBytes + bytes.readUInt32BE(0);
  if (length > bytes.length && length <= spoolLimits.recordBytesMax)
    bytes = await readAt(segment.file, offset, length);
  return recordIn(bytes, 0, segment.salt);
}

function recordIn(bytes: Buffer, at: number, salt: Buffer): Buffer | null {
  if (at < 0) return null;
  const end = endOfRecord(bytes, at, salt);
  return end === null ? null : bytes.subarray(at, end);
}

/** What follows a place where no valid record is. A search gives way to other work before each checksum:
 *  bodies could be made so that many bytes look like a record. */
async function restOf(
  segment: OpenSegment,
  from: number,
): Promise<
  { readonly kind: 'zeros' } | { readonly kind: 'garbage' } | { readonly kind: 'record'; readonly at: number }
> {
  const { size } = await segment.file.stat();
  const bytes = await readAt(segment.file, from, Math.max(0, size - from));
  if (bytes.equals(Buffer.alloc(bytes.length))) return { kind: 'zeros' };
  for (let at = 1; at < bytes.length; at += 1) {
    if (at % spoolLimits.searchBytes === 0) await nextTurn();
    if (!mayBeRecord(bytes, at)) continue;
    await nextTurn();
    if (endOfRecord(bytes, at, segment.salt) !== null) return { kind: 'record', at: from + at };
  }
  return { kind: 'garbage' };
}

const openIfAny = (path: string, flags = 'r+'): Promise<FileHandle | null> =>
  orIfMissing(null, open(path, flags));

/** Fewer bytes at the end of the file. */
async function readAt(file: FileHandle, at: number, length: number): Promise<Buffer> {
  const bytes = Buffer.allocUnsafe(length);
  let done = 0;
  while (done < length) {
    const { bytesRead } = await file.read(bytes, done, length - done, at + done);
    if (bytesRead === 0) break;
    done += bytesRead;
  }
  return bytes.subarray(0, done);
}

async function cutOff(file: FileHandle, at: number): Promise<void> {
  await file.truncate(at);
  await file.datasync();
}
