// SyncThread writes and syncs in one step of its own thread. Through the thread pool these are two steps, and
// between them the second waits for the main loop, which reads requests for some milliseconds under load.
// Where no thread can start, the caller's own way stays.

import { Worker } from 'node:worker_threads';

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
