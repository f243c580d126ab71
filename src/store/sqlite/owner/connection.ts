// Serves one client socket of dq-store: cuts its bytes into frames, sends the answers of a turn in one write.
// Bounded: a client with too many waiting requests is not read; one that does not read its answers is closed.

import { limits } from '../../../core/limits.ts';
import { storeLimits } from '../../limits.ts';
import { sqliteLimits } from '../limits.ts';
import { KnownCapacities } from '../wire/capacity-delta.ts';
import { failureCodec } from '../wire/messages.ts';
import {
  type Channel,
  type Frame,
  FrameCutter,
  kinds,
  ProtocolError,
  protocolMagic,
  protocolNumber,
  Writer,
} from '../wire/protocol.ts';

interface ConnectionEvents {
  /** Complete frames in order, after an accepted hello. Throws ProtocolError for an invalid one. */
  onFrame(connection: Connection, frame: Frame): void;
  /** `reason`: why this side closed the connection; null: it did not. */
  onClose(connection: Connection, reason: unknown): void;
}

export class Connection {
  /** process title of the client, known after hello */
  title = '';
  wantsHints = false;
  readonly capacities = new KnownCapacities();
  readonly #socket: Channel;
  readonly #events: ConnectionEvents;
  readonly #cutter = new FrameCutter();
  #out: Writer | null = null;
  #greeted = false;
  #hasEnded = false;
  #waiting = 0;
  #reason: unknown = null;

  constructor(socket: Channel, events: ConnectionEvents) {
    this.#socket = socket;
    this.#events = events;
    socket.on('data', (chunk: Buffer) => this.#receive(chunk));
    // The client died: 'close' follows.
    socket.on('error', () => {});
    socket.on('end', () => {
      this.#hasEnded = true;
      this.#finishIfServed();
    });
    socket.on('close', () => events.onClose(this, this.#reason));
  }

  /** Writes one answer; flush() sends it. */
  answer(requestId: number, kind: number, write: (w: Writer) => void): void {
    this.#out ??= new Writer(4_096);
    write(this.#out.begin(requestId, kind));
    if (this.#out.end() > limits.frameBytesMax) {
      this.#out.abandon();
      failureCodec.write(this.#out.begin(requestId, kinds.failed), {
        kind: 'unknown',
        code: 'answer_too_large',
      });
      this.#out.end();
    }
  }

  /** Sends a message to a greeted client: before the greeting it would be read as a rejection. */
  send(kind: number, write: (w: Writer) => void = () => {}): void {
    if (this.#greeted) this.answer(0, kind, write);
  }

  /** The owner leaves: the client ends its side and reconnects to the next owner. */
  handOver(): void {
    if (!this.#greeted) this.end();
    this.send(kinds.handover);
    this.flush();
  }

  flush(): void {
    if (this.#out === null) return;
    const bytes = this.#out.done();
    this.#out = null;
    if (this.#socket.writable) this.#socket.write(bytes);
    if (this.#socket.writableLength > storeLimits.pendingCallBytesMax)
      this.end(new Error('client does not read its answers'));
  }

  /** +1: a request waits for its turn; -1: it was answered and flushed. */
  countWaiting(change: 1 | -1): void {
    this.#waiting += change;
    if (this.#waiting > sqliteLimits.groupItemsMax * 2) this.#socket.pause();
    else if (this.#waiting < sqliteLimits.groupItemsMax && this.#socket.isPaused()) this.#socket.resume();
    this.#finishIfServed();
  }

  end(reason: unknown = null): void {
    this.#reason ??= reason;
    this.#socket.destroy();
  }

  /** Ends this side after the client has ended its own and has all answers: a handover leaves no unknown
   *  call. */
  #finishIfServed(): void {
    if (this.#hasEnded && this.#waiting === 0) this.#socket.end();
  }

  #receive(chunk: Buffer): void {
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
    if (kind !== kinds.hello || payload.u32() !== protocolMagic) throw new ProtocolError('missing hello');
    const theirs = payload.u32();
    this.title = payload.text();
    this.#greeted = theirs === protocolNumber;
    if (this.#greeted) this.answer(requestId, kinds.hello, (w) => w.u32(protocolNumber));
    else
      this.answer(requestId, kinds.failed, (w) =>
        failureCodec.write(w, { kind: 'not_stored', code: 'protocol' }),
      );
    this.flush();
    if (!this.#greeted) throw new ProtocolError(`${this.title} speaks protocol ${theirs}`);
  }
}
