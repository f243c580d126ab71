// Reads the changes of one stream in their order, from a position on.
// A bad record at the end of the last segment of a living process is a write in progress: the reader waits.
// Of a dead process it is a torn tail, which holds only unanswered changes: it is cut off. With valid records
// behind it the segment is damaged: it is kept in damaged/, and its valid records are read.
// Invariant: the position after a change never lies behind a change that was not read.

import { type FileHandle, link, open } from 'node:fs/promises';
import { join } from 'node:path';
import type { Change } from '../core/journal/change.ts';
import type { ReadLimits, StreamName, StreamPart, StreamPosition } from '../ports/spool.ts';
import { makeDirectory } from '../runtime/make-directory.ts';
import { spoolLimits } from './limits.ts';
import { endOfRecord, frameBytes, readPayload } from './record.ts';
import { fileNameOf, headerBytes, readHeader } from './segment.ts';

/** An open segment. */
interface OpenSegment {
  readonly number: number;
  readonly file: FileHandle;
  readonly salt: Buffer;
  readonly places: Map<number, string>;
  /** up to here place records are known */
  knownTo: number;
  isDamaged: boolean;
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
    await this.#open?.file.close();
    this.#open = null;
  }

  /** `segments`: the numbers of the existing ones, ascending, read before `isLiving` was determined. Rejects
   *  with the system's error. */
  async read(
    from: StreamPosition,
    segments: readonly number[],
    isLiving: boolean,
    limits: ReadLimits,
  ): Promise<StreamPart> {
    const part = { changes: [] as Change[], isTorn: false, damaged: [] as number[] };
    let bytesLeft = limits.bytes;
    let at: StreamPosition = from;
    // A segment before the first existing one was shipped and removed.
    const first = segments.find((number) => number >= from.segment);
    if (first === undefined) return { ...part, next: from, state: isLiving ? 'waiting' : 'ended' };
    if (first > from.segment || from.offset < headerBytes) at = { segment: first, offset: headerBytes };
    for (;;) {
      const later = segments.find((number) => number > at.segment);
      // Looked at before the records of this segment: its last record is older than the first one there.
      const isLast = later === undefined || (isLiving && (await this.#isEmpty(later)));
      const segment = await this.#segmentAt(at.segment, part.damaged);
      if (segment === null) {
        if (isLast) return { ...part, next: at, state: isLiving ? 'waiting' : 'ended' };
        at = { segment: later as number, offset: headerBytes };
        continue;
      }
      for (;;) {
        if (part.changes.length >= limits.changes || bytesLeft <= 0)
          return { ...part, next: at, state: 'more' };
        const record = await this.#recordAt(segment, at.offset);
        if (record.kind === 'bad' && (!isLast || !isLiving)) {
          const valid = await this.#nextValid(segment, at.offset + 1);
          if (valid !== null) {
            await this.#keepDamaged(segment, part.damaged);
            at = { ...at, offset: valid };
            continue;
          }
          if (isLast) {
            await cutOff(segment.file, at.offset);
            part.isTorn = true;
          }
        }
        if (record.kind !== 'record') {
          if (isLast) return { ...part, next: at, state: isLiving ? 'waiting' : 'ended' };
          at = { segment: later as number, offset: headerBytes };
          break;
        }
        const { bytes, end } = record;
        const payload = readPayload(bytes, 0, bytes.length);
        if (payload?.kind === 'closed') return { ...part, next: at, state: 'ended' };
        if (payload?.kind === 'place') segment.places.set(payload.place, payload.name);
        if (payload?.kind === 'change') {
          const place = segment.places.get(payload.place) ?? '';
          part.changes.push({ ...payload.change, place } as Change);
          bytesLeft -= bytes.length;
        }
        at = { ...at, offset: end };
        segment.knownTo = Math.max(segment.knownTo, end);
      }
    }
  }

  /** Whether it holds no record yet. */
  async #isEmpty(number: number): Promise<boolean> {
    const file = await openIfAny(this.#pathOf(number));
    if (file === null) return true;
    try {
      const { buffer, bytesRead } = await file.read(Buffer.alloc(4), 0, 4, headerBytes);
      return bytesRead < 4 || buffer.readUInt32BE(0) === 0;
    } finally {
      await file.close();
    }
  }

  /** null: it has no header yet, or is gone */
  async #segmentAt(number: number, damaged: number[]): Promise<OpenSegment | null> {
    if (this.#open?.number === number) return this.#open;
    await this.close();
    const file = await openIfAny(this.#pathOf(number));
    if (file === null) return null;
    const bytes = Buffer.alloc(headerBytes);
    await file.read(bytes, 0, headerBytes, 0);
    const header = readHeader(bytes);
    if (header === null && bytes.every((byte) => byte === 0)) {
      await file.close();
      return null;
    }
    const segment: OpenSegment = {
      ...{ number, file, places: new Map(), knownTo: headerBytes, isDamaged: false },
      // Records of a damaged header can be valid nevertheless.
      salt: header?.salt ?? bytes.subarray(20, 28),
    };
    this.#open = segment;
    if (header === null) await this.#keepDamaged(segment, damaged);
    return segment;
  }

  async #recordAt(
    segment: OpenSegment,
    offset: number,
  ): Promise<
    | { readonly kind: 'record'; readonly bytes: Buffer; readonly end: number }
    | { readonly kind: 'none' | 'bad' }
  > {
    if (segment.knownTo < offset) await this.#learnPlaces(segment, offset);
    for (let isFresh = false; ; isFresh = true) {
      // Bytes read ahead may be older than the end of a write.
      if (isFresh) this.#ahead = null;
      const window = await this.#window(segment, offset);
      const length = window.length < 4 ? 0 : window.readUInt32BE(0);
      if (length > 0) {
        const isWhole = frameBytes + length <= window.length;
        const bytes = isWhole
          ? window.subarray(0, frameBytes + length)
          : await readAt(segment.file, offset, Math.min(frameBytes + length, spoolLimits.recordBytesMax));
        const end = endOfRecord(bytes, 0, segment.salt);
        if (end !== null) return { kind: 'record', bytes, end: offset + end };
      }
      if (isFresh) return { kind: length === 0 ? 'none' : 'bad' };
    }
  }

  #ahead: { readonly segment: OpenSegment; readonly at: number; readonly bytes: Buffer } | null = null;

  /** Bytes from the offset on, perhaps read ahead. */
  async #window(segment: OpenSegment, offset: number): Promise<Buffer> {
    const known = this.#ahead;
    if (known !== null && known.segment === segment && offset >= known.at) {
      const rest = known.bytes.subarray(offset - known.at);
      if (rest.length >= frameBytes && frameBytes + rest.readUInt32BE(0) <= rest.length) return rest;
    }
    const bytes = await readAt(segment.file, offset, spoolLimits.readBytes);
    this.#ahead = { segment, at: offset, bytes };
    return bytes;
  }

  /** Reads the place records before the offset: a reader may begin in the middle. */
  async #learnPlaces(segment: OpenSegment, to: number): Promise<void> {
    let at = segment.knownTo;
    segment.knownTo = to;
    while (at < to) {
      const record = await this.#recordAt(segment, at);
      const end = record.kind === 'record' ? record.end : await this.#nextValid(segment, at + 1);
      if (end === null) return;
      if (record.kind === 'record') {
        const payload = readPayload(record.bytes, 0, record.bytes.length);
        if (payload?.kind === 'place') segment.places.set(payload.place, payload.name);
      }
      at = end;
    }
  }

  /** The offset of the next valid record; null = none */
  async #nextValid(segment: OpenSegment, from: number): Promise<number | null> {
    const { size } = await segment.file.stat();
    const bytes = await readAt(segment.file, from, Math.max(0, size - from));
    for (let at = 0; at + frameBytes < bytes.length; at += 1)
      if (endOfRecord(bytes, at, segment.salt) !== null) return from + at;
    return null;
  }

  async #keepDamaged(segment: OpenSegment, damaged: number[]): Promise<void> {
    if (segment.isDamaged) return;
    segment.isDamaged = true;
    damaged.push(segment.number);
    const directory = join(this.#directory, 'damaged');
    makeDirectory(directory, 0o700);
    const name = fileNameOf({ ...this.#stream, segment: segment.number });
    await link(join(this.#directory, name), join(directory, name)).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error;
    });
  }

  #pathOf(segment: number): string {
    return join(this.#directory, fileNameOf({ ...this.#stream, segment }));
  }
}

async function openIfAny(path: string): Promise<FileHandle | null> {
  try {
    return await open(path, 'r+');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}

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
