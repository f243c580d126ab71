// The client's end of a simulated connection, as the client library of Redis and its dial use a net.Socket.

import { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import type { Channel } from '../../../src/store/sqlite/wire/protocol.ts';

export class SimSocket extends EventEmitter {
  readonly #channel: Channel;
  readonly #address: string;
  #isConnected = false;
  destroyed = false;

  constructor(channel: Channel, address: string) {
    super();
    this.#channel = channel;
    this.#address = address;
    channel.on('connect', () => {
      this.#isConnected = true;
      if (!this.destroyed) this.emit('connect');
    });
    channel.on('data', (bytes) => {
      if (!this.destroyed) this.emit('data', bytes);
    });
    channel.on('error', (error) => this.emit('error', error));
    channel.on('close', () => {
      this.destroyed = true;
      this.emit('close');
    });
  }

  /** Its members are those that the library uses. */
  static asSocket(channel: Channel, address: string): Socket {
    return new SimSocket(channel, address) as unknown as Socket;
  }

  get connecting(): boolean {
    return !this.#isConnected && !this.destroyed;
  }

  get writable(): boolean {
    return !this.destroyed && this.#channel.writable;
  }

  get remoteAddress(): string | undefined {
    return this.#isConnected && !this.destroyed ? this.#address : undefined;
  }

  write(bytes: Buffer | string): boolean {
    return this.#channel.write(Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes));
  }

  end(): this {
    this.#channel.end();
    return this;
  }

  destroy(error?: Error): this {
    if (this.destroyed) return this;
    this.destroyed = true;
    if (error !== undefined) process.nextTick(() => this.emit('error', error));
    this.#channel.destroy();
    return this;
  }

  resume(): this {
    return this;
  }

  setNoDelay(): this {
    return this;
  }

  setKeepAlive(): this {
    return this;
  }

  setTimeout(): this {
    return this;
  }
}
