// Defines the frames of the store's socket. One frame: u32 length | u32 requestId | u8 kind | payload, little
// endian; length counts what follows it; requestId 0: a message of the owner. messages.ts defines payloads.
// Invariant: a reader never reads past its frame, and no frame exceeds limits.frameBytesMax, for any input.
// Rejected: v8.serialize (its format changes with Node, and a reload joins two versions), JSON around bodies.

import { limits } from '../../../core/limits.ts';
import type { LeavingJobs } from '../../../ports/leaving.ts';

/** Both sides must agree; a change of the number needs a restart instead of a reload. A changed message
 *  raises it, and so does a new verb: dq-store ends a connection that sends a kind unknown to it. */
export const protocolNumber = 12;
export const protocolMagic = 0x31736471;

/** The kinds of frames that no single verb has; the others are numbers of ports/store-verbs.ts. */
export const kinds = {
  hello: 1,
  subscribe: 2,
  /** a cancel `as` done */
  finishById: 38,
  survey: 56,
  /** calls of ports/leaving.ts that read, and those that change */
  leavingRead: 59,
  leaving: 60,
  registry: 64,
  hintDue: 200,
  hintReady: 201,
  registryChanged: 202,
  /** to clients: send nothing more, end the connection, reconnect */
  handover: 203,
  failed: 255,
} as const;

const headerBytes = 9;

export interface Frame {
  readonly requestId: number;
  readonly kind: number;
  readonly payload: Reader;
}

/** The other side broke the protocol: close the connection. */
export class ProtocolError extends Error {
  constructor(message: string) {
    super(`store socket: ${message}`);
    this.name = 'ProtocolError';
  }
}

/** Grows on demand; may hold several frames. */
export class Writer {
  #buffer: Buffer;
  #length = 0;
  #frameAt = 0;

  constructor(sizeHint = 256) {
    this.#buffer = Buffer.allocUnsafe(sizeHint);
  }

  get length(): number {
    return this.#length;
  }

  begin(requestId: number, kind: number): this {
    this.#frameAt = this.#length;
    return this.u32(0).u32(requestId).u8(kind);
  }

  /** Closes the frame that begin() opened; returns its length on the wire. */
  end(): number {
    const length = this.#length - this.#frameAt;
    this.#buffer.writeUInt32LE(length - 4, this.#frameAt);
    return length;
  }

  /** Drops what was written since begin(). */
  abandon(): void {
    this.#length = this.#frameAt;
  }

  /** The written bytes; do not use the writer afterwards. */
  done(): Buffer {
    return this.#buffer.subarray(0, this.#length);
  }

  u8(value: number): this {
    this.#grow(1);
    this.#length = this.#buffer.writeUInt8(value, this.#length);
    return this;
  }

  u32(value: number): this {
    this.#grow(4);
    this.#length = this.#buffer.writeUInt32LE(value, this.#length);
    return this;
  }

  f64(value: number): this {
    this.#grow(8);
    this.#length = this.#buffer.writeDoubleLE(value, this.#length);
    return this;
  }

  /** As Reader.number reads it. Throws for another one: the owner would end the connection. */
  number(value: number): this {
    if (!Number.isFinite(value)) throw new TypeError(`expected a finite number, got ${value}`);
    return this.f64(value);
  }

  /** UTF-8, or null. */
  text(value: string | null): this {
    if (value === null) return this.u32(0xffff_ffff);
    const bytes = Buffer.byteLength(value);
    this.u32(bytes).#grow(bytes);
    this.#length += this.#buffer.write(value, this.#length, 'utf8');
    return this;
  }

  bytes(value: Uint8Array): this {
    this.u32(value.length).#grow(value.length);
    this.#buffer.set(value, this.#length);
    this.#length += value.length;
    return this;
  }

  json(value: unknown): this {
    return this.text(JSON.stringify(value) ?? 'null');
  }

  list<T>(items: readonly T[], one: (writer: this, item: T) => void): this {
    this.u32(items.length);
    for (const item of items) one(this, item);
    return this;
  }

  #grow(bytes: number): void {
    const needed = this.#length + bytes;
    if (needed <= this.#buffer.length) return;
    const larger = Buffer.allocUnsafe(Math.max(needed, this.#buffer.length * 2));
    this.#buffer.copy(larger, 0, 0, this.#length);
    this.#buffer = larger;
  }
}

/** Reads one payload, in the order in which it was written. Throws ProtocolError past its end. */
export class Reader {
  readonly #buffer: Buffer;
  #at: number;

  constructor(buffer: Buffer, at = 0) {
    this.#buffer = buffer;
    this.#at = at;
  }

  /** of the whole payload */
  get length(): number {
    return this.#buffer.length;
  }

  u8(): number {
    return this.#buffer[this.#take(1)] as number;
  }

  u32(): number {
    return this.#buffer.readUInt32LE(this.#take(4));
  }

  f64(): number {
    return this.#buffer.readDoubleLE(this.#take(8));
  }

  /** A finite number. */
  number(): number {
    const value = this.f64();
    if (!Number.isFinite(value)) throw new ProtocolError(`expected a finite number, got ${value}`);
    return value;
  }

  text(): string {
    const value = this.textOrNull();
    if (value === null) throw new ProtocolError('expected a text');
    return value;
  }

  textOrNull(): string | null {
    const length = this.u32();
    if (length === 0xffff_ffff) return null;
    const at = this.#take(length);
    return this.#buffer.toString('utf8', at, at + length);
  }

  /** A view, valid as long as the frame is. */
  bytes(): Buffer {
    const length = this.u32();
    const at = this.#take(length);
    return this.#buffer.subarray(at, at + length);
  }

  json(): unknown {
    const text = this.text();
    try {
      return JSON.parse(text);
    } catch (error) {
      throw new ProtocolError(`bad JSON: ${String(error)}`);
    }
  }

  /** Each item takes at least a byte: a longer list is rejected before anything is allocated. */
  list<T>(one: (reader: this) => T): T[] {
    const length = this.u32();
    if (length > this.#buffer.length - this.#at)
      throw new ProtocolError(`a list of ${length} in a short frame`);
    const items: T[] = [];
    for (let i = 0; i < length; i += 1) items.push(one(this));
    return items;
  }

  /** Throws unless the whole payload has been read. */
  end(): void {
    if (this.#at !== this.#buffer.length)
      throw new ProtocolError(`${this.#buffer.length - this.#at} bytes after the payload`);
  }

  #take(bytes: number): number {
    const at = this.#at;
    if (bytes > this.#buffer.length - at) throw new ProtocolError('a frame ends too early');
    this.#at = at + bytes;
    return at;
  }
}

/** Cuts the bytes of a socket into frames. */
export class FrameCutter {
  #chunks: Buffer[] = [];
  #length = 0;
  /** Length of the incomplete frame; 0: unknown. */
  #needed = 0;

  /** The complete frames. Throws ProtocolError for an invalid length. */
  cut(chunk: Buffer): Frame[] {
    this.#chunks.push(chunk);
    this.#length += chunk.length;
    // A large frame arrives in hundreds of chunks: joining them each time would copy it hundreds of times.
    if (this.#length < Math.max(this.#needed, 4)) return [];
    const data = this.#chunks.length === 1 ? chunk : Buffer.concat(this.#chunks, this.#length);
    const frames: Frame[] = [];
    let at = 0;
    this.#needed = 0;
    while (data.length - at >= 4) {
      const length = data.readUInt32LE(at);
      if (length < headerBytes - 4 || length > limits.frameBytesMax)
        throw new ProtocolError(`a frame of ${length} bytes`);
      if (data.length - at < length + 4) {
        this.#needed = length + 4;
        break;
      }
      const payload = new Reader(data.subarray(at + headerBytes, at + 4 + length));
      frames.push({ requestId: data.readUInt32LE(at + 4), kind: data[at + 8] as number, payload });
      at += length + 4;
    }
    this.#chunks = at === data.length ? [] : [data.subarray(at)];
    this.#length = data.length - at;
    return frames;
  }
}

/** A stream of bytes between two processes of dq: the members of net.Socket that the client of dq-store and
 *  its owner use. A simulation passes pairs of its own. */
export interface Channel {
  on(event: 'connect' | 'drain' | 'end' | 'close', listener: () => void): unknown;
  on(event: 'data', listener: (chunk: Buffer) => void): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
  readonly writable: boolean;
  readonly writableLength: number;
  write(bytes: Buffer): boolean;
  end(): unknown;
  destroy(): unknown;
  pause(): unknown;
  resume(): unknown;
  isPaused(): boolean;
}

/** The place where channels arrive. */
export interface Listener {
  /** Accepts no more; calls `done` when all its channels are closed. */
  close(done: () => void): unknown;
}

/** The calls of ports/leaving.ts: rare, and only while dq leaves the file. */
export interface LeavingCall {
  readonly method: keyof LeavingJobs;
  readonly args: readonly unknown[];
}

export const leavingReads = ['state', 'find', 'page'] as const satisfies readonly (keyof LeavingJobs)[];
export const leavingChanges = [
  'begin',
  'opens',
  'forget',
  'end',
  'closed',
] as const satisfies readonly (keyof LeavingJobs)[];

const bytesMember = 'bytes';

/** JSON, and after it the bytes of its Buffers, so that a frame has space for the largest body. A Buffer of
 *  an object becomes { bytes: its place }, no other value is an object with such a member. */
export function writeJsonWithBytes(w: Writer, value: unknown): void {
  const buffers: Buffer[] = [];
  // In its object: JSON.stringify asks a Buffer for its own form before the Buffer itself is shown.
  const text = JSON.stringify(value ?? null, (_key, given: unknown) => {
    if (typeof given !== 'object' || given === null || Array.isArray(given)) return given;
    const members = Object.entries(given).map(([name, member]) =>
      Buffer.isBuffer(member) ? [name, { [bytesMember]: buffers.push(member) - 1 }] : [name, member],
    );
    return Object.fromEntries(members);
  });
  w.text(text).list(buffers, (to, buffer) => to.bytes(buffer));
}

export function readJsonWithBytes(r: Reader): unknown {
  const text = r.text();
  const buffers = r.list((from) => from.bytes());
  return JSON.parse(text, (_key, value: unknown) => {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, bytesMember)) return value;
    return buffers[(value as Record<string, number>)[bytesMember] ?? -1];
  });
}
