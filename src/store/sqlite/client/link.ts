// One process's connection to the owner of the embedded store: sends calls, matches answers, survives the owner. Owns the
// pending calls, their deadlines and the reconnecting; knows no payload.
// Invariants: every call ends, within sqliteLimits.storeCallMs at the latest; a call that was never written is held for a store
// that is away and then known not to be stored; a call that was written and lost its answer is sent again if a repeat does no
// harm, else it is unknown, and never sent twice. What is held is bounded in number and bytes.

import { connect, type Socket } from 'node:net';
import { limits } from '../../../core/limits.ts';
import { StoreError, type StoreFailure } from '../../../ports/job-store.ts';
import type { Log } from '../../../telemetry/log.ts';
import { storeLimits } from '../../limits.ts';
import { sqliteLimits } from '../limits.ts';
import { readFailure } from '../wire/messages.ts';
import {
  type Frame,
  FrameCutter,
  kinds,
  ProtocolError,
  protocolMagic,
  protocolNumber,
  type Reader,
  Writer,
} from '../wire/protocol.ts';

export interface LinkOptions {
  readonly socketPath: string;
  /** process title, for the owner's log */
  readonly title: string;
  readonly log: Log;
  /** sqliteLimits.storeAwayMs and sqliteLimits.storeCallMs, unless a test has less time */
  readonly awayMs?: number;
  readonly callMs?: number;
}

/** What the owner says by itself. */
export interface LinkEvents {
  onTold(kind: number, payload: Reader): void;
  /** Whatever the owner told while the connection was gone is lost. */
  onConnected(): void;
  /** The owner speaks another protocol. It is asked again and again: another owner may come. */
  onRefused(code: string): void;
}

interface Call {
  readonly id: number;
  readonly kind: number;
  readonly frame: Buffer;
  /** a repeat does no harm */
  readonly again: boolean;
  readonly askedAt: number;
  /** It has left this process, and nobody has said that it was not taken. */
  wasWritten: boolean;
  /** It was written to a connection that was lost before the answer. */
  wasLost: boolean;
  resolve(answer: Reader): void;
  reject(error: StoreError): void;
}

/** Deadlines are looked at this often while anything is pending. */
const sweepMs = 100;

export class Link {
  readonly #options: LinkOptions;
  readonly #events: LinkEvents;
  #socket: Socket | null = null;
  #connected = false;
  /** The owner is leaving: nothing more is written to it. */
  #leaving = false;
  #closed = false;
  #closing: Promise<void> | null = null;
  #attempts = 0;
  #reconnect: NodeJS.Timeout | null = null;
  #sweep: NodeJS.Timeout | null = null;
  #flush: NodeJS.Immediate | null = null;
  #awayMs: number;
  #lastId = 0;
  #pendingBytes = 0;
  /** Not on the wire, in the order of asking. */
  #waiting: Call[] = [];
  /** On the wire, by id. */
  readonly #sent = new Map<number, Call>();
  #onIdle: (() => void) | null = null;

  constructor(options: LinkOptions, events: LinkEvents) {
    this.#options = options;
    this.#awayMs = options.awayMs ?? sqliteLimits.storeAwayMs;
    this.#events = events;
  }

  get connected(): boolean {
    return this.#connected;
  }

  /** Begins to connect, and goes on until close(). */
  open(): void {
    if (this.#closed || this.#socket !== null || this.#reconnect !== null) return;
    this.#dial();
  }

  /** Sends one call; rejects with StoreError. All calls of one turn of the event loop are one write. */
  call(kind: number, write: (w: Writer) => void, again: boolean, sizeHint?: number): Promise<Reader> {
    if (this.#closed) return refusal('closed');
    if (this.#waiting.length + this.#sent.size >= storeLimits.pendingCallsMax)
      return refusal('too_many_calls');
    const id = this.#nextId();
    const w = new Writer(sizeHint);
    write(w.begin(id, kind));
    if (w.end() > limits.frameBytesMax) return refusal('too_large');
    const frame = w.done();
    if (this.#pendingBytes + frame.length > storeLimits.pendingCallBytesMax) return refusal('too_many_calls');
    this.#pendingBytes += frame.length;
    this.#sweep ??= setInterval(() => this.#sweepDeadlines(), sweepMs);
    return new Promise((resolve, reject) => {
      const askedAt = performance.now();
      this.#waiting.push({
        id,
        kind,
        frame,
        again,
        askedAt,
        wasWritten: false,
        wasLost: false,
        resolve,
        reject,
      });
      this.#flushSoon();
    });
  }

  /** Says something that has no answer; lost when the connection is. */
  tell(kind: number, write: (w: Writer) => void): void {
    if (!this.#connected || this.#leaving) return;
    const w = new Writer(16);
    write(w.begin(0, kind));
    w.end();
    this.#socket?.write(w.done());
  }

  /** The whole daemon ends: a store that is away comes back soon or not at all. */
  hurry(): void {
    this.#awayMs = Math.min(this.#awayMs, sqliteLimits.storeCloseMs);
  }

  /** Waits for the answers that are due, at most so long, then gives up the rest. */
  close(deadlineMs: number): Promise<void> {
    this.#closing ??= this.#close(deadlineMs);
    return this.#closing;
  }

  async #close(deadlineMs: number): Promise<void> {
    if (this.#waiting.length + this.#sent.size > 0) {
      let timer: NodeJS.Timeout | undefined;
      await new Promise<void>((resolve) => {
        this.#onIdle = resolve;
        timer = setTimeout(resolve, deadlineMs);
      });
      clearTimeout(timer);
    }
    this.#closed = true;
    if (this.#reconnect !== null) clearTimeout(this.#reconnect);
    this.#socket?.destroy();
    for (const call of [...this.#waiting.splice(0), ...this.#sent.values()]) this.#fail(call, 'closed');
    this.#sent.clear();
    this.#stopSweeping();
  }

  // ── the connection

  #dial(): void {
    const cutter = new FrameCutter();
    const socket = connect({ path: this.#options.socketPath });
    this.#socket = socket;
    socket.on('connect', () => {
      const w = new Writer(64);
      w.begin(this.#nextId(), kinds.hello).u32(protocolMagic).u32(protocolNumber).text(this.#options.title);
      w.end();
      socket.write(w.done());
    });
    socket.on('data', (chunk: Buffer) => {
      try {
        for (const frame of cutter.cut(chunk)) this.#take(frame);
      } catch (error) {
        if (!(error instanceof ProtocolError)) throw error;
        this.#options.log.error('the store does not keep the protocol', error);
        socket.destroy();
      }
    });
    socket.on('drain', () => this.#flushSoon());
    // 'close' follows, and decides.
    socket.on('error', () => {});
    socket.on('close', () => this.#lost());
  }

  #lost(): void {
    const wasConnected = this.#connected;
    this.#socket = null;
    this.#connected = false;
    if (this.#closed) return;
    if (wasConnected && !this.#leaving)
      this.#options.log.notice('lost the store; connecting again', { pending: this.#sent.size });
    this.#leaving = false;
    const lost = [...this.#sent.values()];
    for (const call of lost) call.wasLost = true;
    this.#sent.clear();
    // Older than all that waits, and in their order.
    this.#waiting = [...lost.filter((call) => call.again), ...this.#waiting];
    for (const call of lost) if (!call.again) this.#fail(call, 'store_lost');
    this.#attempts += 1;
    const waitMs = Math.min(
      sqliteLimits.storeReconnectMsStep * this.#attempts,
      sqliteLimits.storeReconnectMsMax,
    );
    this.#reconnect = setTimeout(() => {
      this.#reconnect = null;
      this.#dial();
    }, waitMs);
  }

  #take(frame: Frame): void {
    const { requestId, kind, payload } = frame;
    if (!this.#connected) this.#greeted(frame);
    else if (requestId !== 0) this.#answered(requestId, kind, payload);
    else if (kind === kinds.handover) {
      this.#leaving = true;
      // The owner answers what it has and then ends its side: nothing is left unknown.
      this.#socket?.end();
    } else this.#events.onTold(kind, payload);
  }

  #greeted({ kind, payload }: Frame): void {
    if (kind !== kinds.hello) {
      const code = kind === kinds.failed ? readFailure(payload).code : 'no hello';
      this.#events.onRefused(code);
      throw new ProtocolError(code);
    }
    this.#connected = true;
    this.#attempts = 0;
    this.#flushSoon();
    this.#events.onConnected();
  }

  #answered(id: number, kind: number, payload: Reader): void {
    const call = this.#sent.get(id);
    // Its deadline has passed: nobody waits any more.
    if (call === undefined) return;
    this.#sent.delete(id);
    if (kind === call.kind) {
      this.#ended(call);
      call.resolve(payload);
      return;
    }
    const failure = readFailure(payload);
    if (failure.code === 'handover') this.#hold(call);
    else {
      this.#ended(call);
      call.reject(new StoreError(failure));
    }
  }

  /** Refused untouched by an owner that leaves: the next one gets it. */
  #hold(call: Call): void {
    call.wasWritten = call.wasLost;
    const place = this.#waiting.findIndex((other) => other.askedAt > call.askedAt);
    this.#waiting.splice(place < 0 ? this.#waiting.length : place, 0, call);
  }

  // ── calls

  #nextId(): number {
    do this.#lastId = (this.#lastId + 1) >>> 0;
    while (this.#lastId === 0 || this.#sent.has(this.#lastId));
    return this.#lastId;
  }

  #flushSoon(): void {
    this.#flush ??= setImmediate(() => {
      this.#flush = null;
      this.#writeWaiting();
    });
  }

  #writeWaiting(): void {
    const socket = this.#socket;
    if (socket === null || !this.#connected || this.#leaving || this.#waiting.length === 0) return;
    let bytes = socket.writableLength;
    let count = 0;
    for (const call of this.#waiting) {
      if (bytes >= sqliteLimits.storeUnderWayBytesMax) break;
      bytes += call.frame.length;
      count += 1;
    }
    if (count === 0) return;
    const calls = this.#waiting.splice(0, count);
    for (const call of calls) {
      call.wasWritten = true;
      this.#sent.set(call.id, call);
    }
    const isRoomLeft = socket.write(Buffer.concat(calls.map((call) => call.frame)));
    if (isRoomLeft && this.#waiting.length > 0) this.#flushSoon();
  }

  #sweepDeadlines(): void {
    const now = performance.now();
    const { callMs = sqliteLimits.storeCallMs } = this.#options;
    const isLate = (call: Call) => now - call.askedAt > (call.wasWritten ? callMs : this.#awayMs);
    const late = [...this.#waiting, ...this.#sent.values()].filter(isLate);
    if (late.length === 0) return;
    this.#waiting = this.#waiting.filter((call) => !isLate(call));
    for (const call of late) {
      this.#sent.delete(call.id);
      this.#fail(call, call.wasWritten ? 'no_answer' : 'store_away');
    }
  }

  #fail(call: Call, code: string): void {
    this.#ended(call);
    call.reject(new StoreError({ kind: call.wasWritten ? 'unknown' : 'not_stored', code }));
  }

  #ended(call: Call): void {
    this.#pendingBytes -= call.frame.length;
    if (this.#waiting.length + this.#sent.size > 0) return;
    this.#stopSweeping();
    this.#onIdle?.();
  }

  #stopSweeping(): void {
    if (this.#sweep !== null) clearInterval(this.#sweep);
    this.#sweep = null;
  }
}

function refusal(code: string): Promise<never> {
  const failure: StoreFailure = { kind: 'not_stored', code };
  return Promise.reject(new StoreError(failure));
}
