// A stream to a server that is dialled, for a library that needs its stream at once (MySQL's).

import type { Socket } from 'node:net';
import { Duplex } from 'node:stream';
import { type DialOptions, dial, type OpenDial } from './dial.ts';

export class DialedStream extends Duplex {
  readonly #options: DialOptions;
  #dialing: OpenDial | null = null;
  #socket: Socket | null = null;

  constructor(options: DialOptions) {
    super();
    this.#options = options;
  }

  /** Writes and reads wait for it. */
  override _construct(done: (error?: Error | null) => void): void {
    if (this.destroyed) {
      done();
      return;
    }
    this.#dialing = dial(this.#options, (error, socket) => {
      if (error !== null) {
        // destroy() has its own error, or none.
        done(this.destroyed ? null : error);
        return;
      }
      this.#socket = socket;
      socket.on('data', (chunk) => {
        if (!this.push(chunk)) socket.pause();
      });
      socket.on('end', () => this.push(null));
      socket.on('error', (failure) => super.destroy(failure));
      socket.on('close', () => super.destroy());
      done();
    });
  }

  /** The stream would wait for the end of its dial. */
  override destroy(error?: Error): this {
    super.destroy(error);
    this.#dialing?.cancel(error ?? new Error('given up'));
    return this;
  }

  override _read(): void {
    this.#socket?.resume();
  }

  override _write(chunk: Buffer, _encoding: string, done: (error?: Error | null) => void): void {
    this.#socket?.write(chunk, done);
  }

  override _final(done: () => void): void {
    this.#socket?.end(done);
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#socket?.destroy();
    done(error);
  }
}
