// Connects one process to dq-store: sends calls, matches answers, reconnects to the next owner. Owns pending
// calls and their deadlines; knows no payload.
// Invariants: every call ends within sqliteLimits.storeCallMs. An unwritten call waits for an unavailable
// store, then ends as not stored. A written call without an answer is sent again if a repeat is harmless;
// otherwise it is unknown, and never sent twice. Pending calls are bounded in number and bytes.

import { connect } from 'node:net';
import { DqError } from '../../../core/errors.ts';
import { limits } from '../../../core/limits.ts';
import { StoreError, type StoreFailure } from '../../../ports/store-error.ts';
import {
  clearInterval,
  clearTimeout,
  type Immediate,
  monotonicNow,
  setImmediate,
  setInterval,
  setTimeout,
  type Timer,
} from '../../../runtime/time.ts';
import { orAfter } from '../../../runtime/timeout.ts';
import type { Log } from '../../../telemetry/log.ts';
import { storeLimits } from '../../limits.ts';
import { sqliteLimits } from '../limits.ts';
import { failureCodec, readRefusal } from '../wire/messages.ts';
import {
  type Channel,
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
  /** default: connects to socketPath */
  readonly dial?: () => Channel;
  /** default sqliteLimits.storeAwayMs and sqliteLimits.storeCallMs; tests pass less */
  readonly awayMs?: number;
  readonly callMs?: number;
}

/** Messages from the owner that answer no call. */
interface LinkEvents {
  onMessage(kind: number, payload: Reader): void;
  /** Messages sent while disconnected are lost. */
  onConnected(): void;
  /** The owner has another protocol. The link dials again: another owner may start. */
  onRefused(code: string): void;
}

interface Call {
  readonly id: number;
  readonly kind: number;
  readonly frame: Buffer;
  /** a repeat is harmless */
  readonly again: boolean;
  /** monotonicNow(), without the pauses of this process */
  calledAt: number;
  /** It was written, and the owner has not rejected it as untouched. */
  wasWritten: boolean;
  /** It was written to a connection that was lost before the answer. */
  wasLost: boolean;
  resolve(answer: Reader): void;
  reject(error: StoreError): void;
}

/** Interval of the deadline check while calls are pending. */
const sweepMs = 100;

export class Link {
  readonly #options: LinkOptions;
  readonly #events: LinkEvents;
  #socket: Channel | null = null;
  #connected = false;
  /** The owner hands over: nothing more is written to it. */
  #isHandover = false;
  #closed = false;
  #closing: Promise<void> | null = null;
  #attempts = 0;
  #reconnect: Timer | null = null;
  #sweep: Timer | null = null;
  #sweptAt = 0;
  #flush: Immediate | null = null;
  #awayMs: number;
  #lastId = 0;
  #pendingBytes = 0;
  /** Calls not on the wire, oldest first. */
  #waiting: Call[] = [];
  /** Calls on the wire, by id. */
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

  /** Starts connecting; reconnects until close(). */
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
    if (this.#sweep === null) {
      this.#sweptAt = monotonicNow();
      this.#sweep = setInterval(() => this.#sweepDeadlines(), sweepMs);
    }
    return new Promise((resolve, reject) => {
      const calledAt = monotonicNow();
      this.#waiting.push({
        id,
        kind,
        frame,
        again,
        calledAt,
        wasWritten: false,
        wasLost: false,
        resolve,
        reject,
      });
      this.#flushSoon();
    });
  }

  /** Sends a message without an answer; lost if the connection is. */
  send(kind: number, write: (w: Writer) => void): void {
    if (!this.#connected || this.#isHandover) return;
    const w = new Writer(16);
    write(w.begin(0, kind));
    w.end();
    this.#socket?.write(w.done());
  }

  /** The whole daemon ends: calls wait only briefly for an unavailable store. */
  shortenWaits(): void {
    this.#awayMs = Math.min(this.#awayMs, sqliteLimits.storeCloseMs);
  }

  /** Waits for outstanding answers up to the deadline, then fails the rest. */
  close(deadlineMs: number): Promise<void> {
    this.#closing ??= this.#close(deadlineMs);
    return this.#closing;
  }

  async #close(deadlineMs: number): Promise<void> {
    if (this.#waiting.length + this.#sent.size > 0) {
      const idle = new Promise<void>((resolve) => {
        this.#onIdle = resolve;
      });
      await orAfter(deadlineMs, idle, undefined);
    }
    this.#closed = true;
    if (this.#reconnect !== null) clearTimeout(this.#reconnect);
    this.#socket?.destroy();
    for (const call of [...this.#waiting.splice(0), ...this.#sent.values()]) this.#fail(call, 'closed');
    this.#sent.clear();
    this.#stopSweeping();
  }

  // Connection

  #dial(): void {
    const cutter = new FrameCutter();
    const { socketPath, dial = (): Channel => connect({ path: socketPath }) } = this.#options;
    const socket = dial();
    this.#socket = socket;
    socket.on('connect', () => {
      const w = new Writer(64);
      w.begin(this.#nextId(), kinds.hello).u32(protocolMagic).u32(protocolNumber).text(this.#options.title);
      w.end();
      socket.write(w.done());
    });
    socket.on('data', (chunk: Buffer) => {
      try {
        for (const frame of cutter.cut(chunk)) this.#receive(frame);
      } catch (error) {
        if (!(error instanceof ProtocolError)) throw error;
        this.#options.log.error('store client: protocol error', error);
        socket.destroy();
      }
    });
    socket.on('drain', () => this.#flushSoon());
    // 'close' follows and handles it.
    socket.on('error', () => {});
    socket.on('close', () => this.#disconnected());
  }

  #disconnected(): void {
    const wasConnected = this.#connected;
    this.#socket = null;
    this.#connected = false;
    if (this.#closed) return;
    if (wasConnected && !this.#isHandover)
      this.#options.log.notice('store client: connection lost; reconnecting', { pending: this.#sent.size });
    this.#isHandover = false;
    const lost = [...this.#sent.values()];
    for (const call of lost) call.wasLost = true;
    this.#sent.clear();
    // They are older than all waiting calls: keep the order.
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

  #receive(frame: Frame): void {
    const { requestId, kind, payload } = frame;
    if (!this.#connected) this.#greeted(frame);
    else if (requestId !== 0) this.#answered(requestId, kind, payload);
    else if (kind === kinds.handover) {
      this.#isHandover = true;
      // The owner answers what it has received, then ends its side: no call is left unknown.
      this.#socket?.end();
    } else this.#events.onMessage(kind, payload);
  }

  #greeted({ kind, payload }: Frame): void {
    if (kind !== kinds.hello) {
      const code = kind === kinds.failed ? readRefusal(payload).code : 'no hello';
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
    // Its deadline has passed.
    if (call === undefined) return;
    this.#sent.delete(id);
    if (kind === call.kind) {
      this.#ended(call);
      call.resolve(payload);
      return;
    }
    const failure = failureCodec.read(payload);
    if (failure.code === 'handover') this.#requeue(call);
    else {
      this.#ended(call);
      const cause = failure.why === undefined ? undefined : new DqError('unavailable', failure.why);
      call.reject(new StoreError(failure, { cause }));
    }
  }

  /** An owner that hands over rejected it untouched: it waits for the next owner. */
  #requeue(call: Call): void {
    call.wasWritten = call.wasLost;
    const place = this.#waiting.findIndex((other) => other.calledAt > call.calledAt);
    this.#waiting.splice(place < 0 ? this.#waiting.length : place, 0, call);
  }

  // Calls

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
    if (socket === null || !this.#connected || this.#isHandover || this.#waiting.length === 0) return;
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
    const hasBufferSpace = socket.write(Buffer.concat(calls.map((call) => call.frame)));
    if (hasBufferSpace && this.#waiting.length > 0) this.#flushSoon();
  }

  #sweepDeadlines(): void {
    const now = monotonicNow();
    // A pause of this process, as of a suspended machine, does not count: replies that arrived are read
    // after this sweep.
    const pausedMs = now - this.#sweptAt - sweepMs;
    this.#sweptAt = now;
    if (pausedMs > sweepMs)
      for (const call of [...this.#waiting, ...this.#sent.values()]) call.calledAt += pausedMs;
    const { callMs = sqliteLimits.storeCallMs } = this.#options;
    const isLate = (call: Call) => now - call.calledAt > (call.wasWritten ? callMs : this.#awayMs);
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
