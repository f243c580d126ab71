// The files of a stream. Each process writes one stream: segments that are filled with zeros and fsynced,
// with their directory, before their first record. So their disk space is allocated, and fdatasync writes no
// metadata. The header has 32 bytes, and records follow: `dqsp` · format (2) · instance (4) · incarnation (6)
// · segment (4) · salt (8) · CRC-32 of these (4).
// Invariant: no process writes into a segment of another one. Mode 0600: records hold bodies in clear.

import { type FileHandle, open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { crc32 } from 'node:zlib';
import type { StreamName } from '../../ports/spool.ts';
import { syncPath } from '../../runtime/files.ts';
import { randomBytes } from '../../runtime/time.ts';
import { spoolLimits } from '../limits.ts';

interface SegmentName extends StreamName {
  /** from 1 */
  readonly segment: number;
}

interface SegmentHeader extends SegmentName {
  readonly salt: Buffer;
}

export const headerBytes = 32;
const format = 1;
const magic = 'dqsp';

export function fileNameOf({ instance, incarnation, segment }: SegmentName): string {
  return `${instance.toString(16).padStart(8, '0')}-${incarnation}-${segment}.seg`;
}

/** null: another file */
export function segmentNameOf(fileName: string): SegmentName | null {
  const [, instance, incarnation, segment] = /^([0-9a-f]{8})-(\d{1,15})-(\d{1,9})\.seg$/.exec(fileName) ?? [];
  if (instance === undefined) return null;
  return {
    instance: Number.parseInt(instance, 16),
    incarnation: Number(incarnation),
    segment: Number(segment),
  };
}

function headerOf({ instance, incarnation, segment, salt }: SegmentHeader): Buffer {
  const bytes = Buffer.alloc(headerBytes);
  let at = bytes.write(magic);
  at = bytes.writeUInt16BE(format, at);
  at = bytes.writeUInt32BE(instance, at);
  at = bytes.writeUIntBE(incarnation, at, 6);
  at = bytes.writeUInt32BE(segment, at);
  at += salt.copy(bytes, at);
  bytes.writeUInt32BE(crc32(bytes.subarray(0, at)), at);
  return bytes;
}

/** null: damaged, or of another format */
export function readHeader(bytes: Buffer): SegmentHeader | null {
  if (bytes.length < headerBytes || bytes.toString('latin1', 0, 4) !== magic) return null;
  if (bytes.readUInt16BE(4) !== format || crc32(bytes.subarray(0, 28)) !== bytes.readUInt32BE(28))
    return null;
  return {
    instance: bytes.readUInt32BE(6),
    incarnation: bytes.readUIntBE(10, 6),
    segment: bytes.readUInt32BE(16),
    salt: bytes.subarray(20, 28),
  };
}

/** An open segment. Its methods reject with the system's error. */
export interface SegmentFile {
  readonly bytes: number;
  write(bytes: Buffer, at: number): Promise<void>;
  /** fdatasync */
  sync(): Promise<void>;
  /** both, one after the other; after a failure either may have failed */
  writeSynced(bytes: Buffer, at: number): Promise<void>;
  close(): Promise<void>;
}

/** The operations on files that the writer uses; tests replace them. */
export interface SegmentFiles {
  /** Makes an empty segment of this size, header included. It is on disk when this resolves; after a failure
   *  there is no file. An existing file stays as it is: EEXIST. */
  make(directory: string, header: SegmentHeader, bytes: number): Promise<SegmentFile>;
}

export const newSalt = (): Buffer => randomBytes(8);

/** `thread`: for writeSynced, while it runs */
export const realFiles = (thread: SyncThread | null = null): SegmentFiles => ({
  async make(directory, header, bytes) {
    const path = join(directory, fileNameOf(header));
    const file = await open(path, 'wx', 0o600);
    try {
      const zeros = Buffer.alloc(Math.min(bytes, spoolLimits.zeroBytes));
      for (let at = 0; at < bytes; at += zeros.length)
        await writeAll(file, zeros.subarray(0, bytes - at), at);
      await writeAll(file, headerOf(header), 0);
      await file.sync();
      await syncPath(directory);
    } catch (error) {
      await file.close().catch(() => undefined);
      // On a full disk it would only take space.
      await rm(path, { force: true }).catch(() => undefined);
      throw error;
    }
    return {
      bytes,
      write: (record, at) => writeAll(file, record, at),
      sync: () => file.datasync(),
      async writeSynced(records, at) {
        if (thread?.isReady) return thread.write(file.fd, records, at);
        await writeAll(file, records, at);
        await file.datasync();
      },
      close: () => file.close(),
    };
  },
});

async function writeAll(file: FileHandle, bytes: Buffer, at: number): Promise<void> {
  for (let done = 0; done < bytes.length; ) {
    const { bytesWritten } = await file.write(bytes, done, bytes.length - done, at + done);
    done += bytesWritten;
  }
}

/** Runs in the thread. It is text: the bundle has no second file. */
const code = `
const { parentPort } = require('node:worker_threads');
const { fdatasyncSync, writeSync } = require('node:fs');
parentPort.on('message', ({ fd, bytes, at }) => {
  try {
    for (let done = 0; done < bytes.length; )
      done += writeSync(fd, bytes, done, bytes.length - done, at + done);
    fdatasyncSync(fd);
    parentPort.postMessage(null);
  } catch (error) {
    parentPort.postMessage({ message: error.message, code: error.code });
  }
});`;

/** The members of a system's error that survive the way between threads. */
interface Failure {
  readonly message: string;
  readonly code?: string;
}

/** Writes and syncs in one step of its own thread. Through the thread pool these are two steps, and between
 *  them the second waits for the main loop, which reads requests for some milliseconds under load. Where no
 *  thread can start, the caller's own way stays. */
export class SyncThread {
  #worker: Worker | null;
  #isOnline = false;
  #end: ((failure: Failure | null) => void) | null = null;

  constructor() {
    this.#worker = new Worker(code, { eval: true, env: {}, execArgv: [] });
    this.#worker.on('online', () => {
      this.#isOnline = true;
    });
    this.#worker.on('message', (failure: Failure | null) => this.#answer(failure));
    this.#worker.on('error', (error) => this.#lost(error));
    this.#worker.on('exit', () => this.#lost(new Error('the thread that writes the spool has ended')));
    this.#worker.unref();
  }

  get isReady(): boolean {
    return this.#worker !== null && this.#isOnline;
  }

  /** One call at a time. Rejects with the system's error; the bytes may be on disk all the same. */
  write(fd: number, bytes: Uint8Array, at: number): Promise<void> {
    const worker = this.#worker;
    if (worker === null || this.#end !== null) throw new Error('the thread of the spool is not free');
    return new Promise((resolve, reject) => {
      this.#end = (failure) =>
        failure === null
          ? resolve()
          : reject(Object.assign(new Error(failure.message), { code: failure.code }));
      worker.postMessage({ fd, bytes, at });
    });
  }

  /** Waits for nothing: a disk may hang. */
  close(): void {
    void this.#worker?.terminate();
  }

  #lost({ message }: Error): void {
    this.#worker = null;
    this.#answer({ message });
  }

  #answer(failure: Failure | null): void {
    const end = this.#end;
    this.#end = null;
    end?.(failure);
  }
}
