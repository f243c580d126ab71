// Simulated channels between the processes of a world.
// Invariant: bytes arrive in order, after a latency. What a process sent before its death still arrives, and
// then the channel closes, as a kernel does it. A cut loses what is under way.
// What a process sends in a turn that takes long (a slow disk) leaves at the end of it, if it still lives.
// Left out: full buffers. A channel takes everything at once.

import type { Channel, Listener } from '../../src/store/sqlite/wire/protocol.ts';
import { type Loop, phases } from './loop.ts';
import type { Process } from './process.ts';

/** The network of a channel. */
export interface Line {
  /** ms, one way */
  latency(): number;
  /** ms that one message from a client to the server, or back, takes longer */
  extra(): number;
}

/** The place where one server listens, and later its successor. */
export class Port {
  readonly #loop: Loop;
  #server: { readonly process: Process; readonly accept: (channel: Channel) => void } | null = null;
  /** of all servers of this port */
  readonly #open = new Set<End>();

  constructor(loop: Loop) {
    this.#loop = loop;
  }

  listen(process: Process, accept: (channel: Channel) => void): Listener {
    const server = { process, accept };
    this.#server = server;
    const stop = () => {
      if (this.#server === server) this.#server = null;
    };
    process.onDeath.push(stop);
    return {
      close: (done) => {
        stop();
        this.#whenAllClosed(process, done);
      },
    };
  }

  dial(client: Process, line: Line): Channel {
    const loop = this.#loop;
    const end = new End(loop, client, line);
    loop.after(line.latency(), null, 'dial', () => {
      if (!client.isAlive || end.isClosed) return;
      if (this.#server === null) {
        const refuse = () => end.fail(new Error('connect ECONNREFUSED'));
        loop.after(line.latency(), client, 'refused', refuse);
        return;
      }
      const { process, accept } = this.#server;
      const peer = new End(loop, process, line);
      peer.connect(end);
      end.connect(peer);
      peer.isServer = true;
      this.#open.add(peer);
      peer.onClosed.push(() => this.#open.delete(peer));
      loop.after(0, process, 'accept', () => accept(peer));
      loop.after(line.latency(), client, 'connect', () => end.opened());
    });
    return end;
  }

  /** Cuts the channels that `picks` picks. Returns their clients. */
  cut(picks: () => boolean): readonly string[] {
    const chosen = [...this.#open].filter(picks);
    for (const end of chosen) end.cut();
    return chosen.map((end) => end.peerName);
  }

  #whenAllClosed(process: Process, done: () => void): void {
    const own = [...this.#open].filter((end) => end.process === process);
    const [first] = own;
    if (first === undefined) this.#loop.after(0, process, 'all channels are closed', done);
    else first.onClosed.push(() => this.#whenAllClosed(process, done));
  }
}

type Listening = (given: never) => void;

/** One end of a channel. */
class End implements Channel {
  readonly process: Process;
  readonly onClosed: (() => void)[] = [];
  /** A server's end stays writable after its client has ended. */
  isServer = false;
  isClosed = false;
  readonly #loop: Loop;
  readonly #line: Line;
  readonly #listeners = new Map<string, Listening[]>();
  #peer: End | null = null;
  #isDestroyed = false;
  #isCut = false;
  #hasEnded = false;
  #peerHasEnded = false;
  /** virtual ms of the last message to the peer */
  #arrivesAt = 0;
  /** messages that leave at the end of this turn */
  #waiting = 0;

  constructor(loop: Loop, process: Process, line: Line) {
    this.#loop = loop;
    this.process = process;
    this.#line = line;
    process.onDeath.push(() => this.#died());
  }

  get peerName(): string {
    return this.#peer?.process.title ?? '';
  }

  connect(peer: End): void {
    this.#peer = peer;
  }

  on(event: string, listener: Listening): this {
    const known = this.#listeners.get(event);
    if (known === undefined) this.#listeners.set(event, [listener]);
    else known.push(listener);
    return this;
  }

  get writable(): boolean {
    return this.#peer !== null && !this.isClosed && !this.#isDestroyed && !this.#hasEnded;
  }

  get writableLength(): number {
    return 0;
  }

  pause(): void {}

  resume(): void {}

  isPaused(): boolean {
    return false;
  }

  opened(): void {
    if (!this.#isDestroyed) this.#emit('connect');
  }

  write(bytes: Buffer): boolean {
    const peer = this.#peer;
    if (peer === null || !this.writable || !this.process.sends()) return true;
    const copy = Buffer.from(bytes);
    this.#loop.trace.bytes(copy);
    this.#toPeer('data', () => {
      if (!this.#isCut && !peer.#isDestroyed) peer.#emit('data', copy);
    });
    return true;
  }

  end(): void {
    if (this.#hasEnded || this.isClosed) return;
    this.#hasEnded = true;
    this.#toPeer('end', (peer) => {
      peer.#peerHasEnded = true;
      peer.#emit('end');
      if (!peer.isServer) peer.end();
      peer.#closeIfBothEnded();
    });
    this.#closeIfBothEnded();
  }

  destroy(): void {
    if (this.#isDestroyed || this.isClosed) return;
    this.#isDestroyed = true;
    this.#loop.after(0, this.process, 'close', () => this.#close());
    this.#toPeer('close', (peer) => peer.#close());
  }

  /** The connection was not made. */
  fail(error: Error): void {
    this.#emit('error', error);
    this.#close();
  }

  cut(): void {
    const peer = this.#peer;
    this.#isCut = true;
    this.#loop.after(0, this.process, 'cut', () => this.#close());
    if (peer === null) return;
    peer.#isCut = true;
    this.#loop.after(this.#line.latency(), peer.process, 'cut', () => peer.#close());
  }

  /** Nothing overtakes. */
  #toPeer(label: string, arrive: (peer: End) => void): void {
    const peer = this.#peer;
    if (peer === null) return;
    const { at } = this.#loop;
    const { process } = this;
    const isLong = process.pausedUntil > at || this.#waiting > 0;
    if (!isLong || !process.isAlive) {
      this.#depart(peer, label, arrive);
      return;
    }
    this.#waiting += 1;
    const depart = () => {
      this.#waiting -= 1;
      this.#depart(peer, label, arrive);
    };
    this.#loop.schedule(process, process.pausedUntil, 'depart', depart, phases.timer);
  }

  #depart(peer: End, label: string, arrive: (peer: End) => void): void {
    const { at } = this.#loop;
    this.#arrivesAt = Math.max(this.#arrivesAt, at + this.#line.latency() + this.#line.extra());
    this.#loop.schedule(peer.process, this.#arrivesAt, label, () => arrive(peer));
  }

  #emit(event: string, given?: unknown): void {
    if (this.isClosed) return;
    for (const listener of this.#listeners.get(event) ?? []) listener(given as never);
  }

  #closeIfBothEnded(): void {
    if (this.#hasEnded && this.#peerHasEnded) this.#loop.after(0, this.process, 'close', () => this.#close());
  }

  #close(): void {
    if (this.isClosed) return;
    this.#emit('close');
    this.#setClosed();
  }

  #died(): void {
    if (this.isClosed) return;
    this.#setClosed();
    this.#toPeer('close', (peer) => peer.#close());
  }

  #setClosed(): void {
    this.isClosed = true;
    for (const tell of this.onClosed.splice(0)) tell();
  }
}
