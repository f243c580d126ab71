// Gives an unusual reply to undici: a socket for it that drops the request, which was sent already, and
// returns the bytes of the reply, those that have arrived first. So undici judges every reply that
// plain-reply.ts does not know, and the request is sent once.

import type { Socket } from 'node:net';
import { Duplex } from 'node:stream';

export class HandedOver extends Duplex {
  readonly #socket: Socket;
  /** The bytes that have arrived, until undici has written its request: it rejects a reply without one. */
  #first: Buffer | null;

  /** `socket`: paused, and not ended; `first`: not empty */
  constructor(socket: Socket, first: Buffer) {
    super();
    this.#socket = socket;
    this.#first = first;
    // undici listens a moment later, and no longer once it has closed.
    this.on('error', () => {});
    socket.on('data', (chunk: Buffer) => {
      if (!this.push(chunk)) socket.pause();
    });
    socket.on('end', () => this.push(null));
    socket.on('error', (error) => this.destroy(error));
    socket.on('close', () => this.destroy());
  }

  override _write(_chunk: Buffer, _encoding: string, done: () => void): void {
    done();
    const first = this.#first;
    if (first === null) return;
    this.#first = null;
    this.push(first);
    this.#socket.resume();
  }

  override _read(): void {
    if (this.#first === null) this.#socket.resume();
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#socket.destroy();
    done(error);
  }
}
