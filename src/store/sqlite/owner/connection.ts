// One client at the owner's socket: cuts its bytes into frames, gathers the answers of a turn into one write. Bounded: a
// client that sends faster than it is served is not read for a while, one that does not read its answers is cut off.

import type { Socket } from 'node:net';
import { limits } from '../../../core/limits.ts';
import { storeLimits } from '../../limits.ts';
import { sqliteLimits } from '../limits.ts';
import { RoomsKnown } from '../wire/capacity-delta.ts';
import {
  type Frame,
  FrameCutter,
  kinds,
  ProtocolError,
  protocolMagic,
  protocolNumber,
  Writer,
} from '../wire/protocol.ts';

export interface ConnectionEvents {
  /** Whole frames, in order, after a hello that was accepted. Throws ProtocolError for a bad one. */
  onFrame(connection: Connection, frame: Frame): void;
  /** `reason` is null unless the connection was cut off from this side. */
  onClose(connection: Connection, reason: unknown): void;
}

export class Connection {
  /** process title of the client, once it has said hello */
  title = '';
  wantsHints = false;
  readonly rooms = new RoomsKnown();
  readonly #socket: Socket;
  readonly #events: ConnectionEvents;
  readonly #cutter = new FrameCutter();
  #out: Writer | null = null;
  #greeted = false;
  #hasEnded = false;
  #waiting = 0;
  #reason: unknown = null;

  constructor(socket: Socket, events: ConnectionEvents) {
    this.#socket = socket;
    this.#events = events;
    socket.on('data', (chunk: Buffer) => this.#take(chunk));
    // A client that died: 'close' follows, and nobody is left to answer.
    socket.on('error', () => {});
    socket.on('end', () => {
      this.#hasEnded = true;
      this.#finishIfServed();
    });
    socket.on('close', () => events.onClose(this, this.#reason));
  }

  /** Answers one request. The bytes leave with flush(). */
  answer(requestId: number, kind: number, write: (w: Writer) => void): void {
    this.#out ??= new Writer(4_096);
    write(this.#out.begin(requestId, kind));
    if (this.#out.end() > limits.frameBytesMax) {
      this.#out.abandon();
      this.#out.begin(requestId, kinds.failed).u8(1).text('answer_too_large').end();
    }
  }

  /** Speaks by itself, to who has been greeted: anything else before the greeting would be taken for a refusal of it. */
  tell(kind: number, write: (w: Writer) => void = () => {}): void {
    if (this.#greeted) this.answer(0, kind, write);
  }

  /** The owner leaves: a client that knows the protocol ends its side and comes back to the next one. */
  handOver(): void {
    if (!this.#greeted) this.end();
    this.tell(kinds.handover);
    this.flush();
  }

  flush(): void {
    if (this.#out === null) return;
    const bytes = this.#out.done();
    this.#out = null;
    if (this.#socket.writable) this.#socket.write(bytes);
    if (this.#socket.writableLength > storeLimits.pendingCallBytesMax)
      this.end(new Error('does not read its answers'));
  }

  /** A request of this client waits for its turn, or has been answered and flushed. */
  waits(change: 1 | -1): void {
    this.#waiting += change;
    if (this.#waiting > sqliteLimits.groupItemsMax * 2) this.#socket.pause();
    else if (this.#waiting < sqliteLimits.groupItemsMax && this.#socket.isPaused()) this.#socket.resume();
    this.#finishIfServed();
  }

  end(reason: unknown = null): void {
    this.#reason ??= reason;
    this.#socket.destroy();
  }

  /** Once the client has ended its side and has all its answers, this side ends too: a handover leaves no call unknown. */
  #finishIfServed(): void {
    if (this.#hasEnded && this.#waiting === 0) this.#socket.end();
  }

  #take(chunk: Buffer): void {
    try {
      for (const frame of this.#cutter.cut(chunk)) {
        if (this.#greeted) this.#events.onFrame(this, frame);
        else this.#greet(frame);
      }
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error;
      this.end(error);
    }
  }

  #greet({ requestId, kind, payload }: Frame): void {
    if (kind !== kinds.hello || payload.u32() !== protocolMagic) throw new ProtocolError('no hello');
    const theirs = payload.u32();
    this.title = payload.text();
    this.#greeted = theirs === protocolNumber;
    if (this.#greeted) this.answer(requestId, kinds.hello, (w) => w.u32(protocolNumber));
    else this.answer(requestId, kinds.failed, (w) => w.u8(0).text('protocol'));
    this.flush();
    if (!this.#greeted) throw new ProtocolError(`${this.title} speaks protocol ${theirs}`);
  }
}
