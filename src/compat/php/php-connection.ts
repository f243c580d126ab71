// PhpConnection serves one client of php-delayqueue: it executes requests and answers them in order.
// Invariants: a reply leaves in one write, because the client takes a short read for a broken reply; no reply
// leaves after answerMs, because the client would take it for that of its next request; a request that was
// not answered ends the connection.

import type { Socket } from 'node:net';
import { clearTimeout, monotonicNow, setImmediate, setTimeout, type Timer } from '../../runtime/time.ts';
import { afterRunning, type RunningTimer } from '../../runtime/timeout.ts';
import { type CompatTimes, compatLimits } from '../limits.ts';
import { FrameReader } from './frames.ts';
import { type PhpDialect, type PhpReply, type PhpRequest, readRequest } from './php-dialect.ts';

interface Slot {
  readonly request: PhpRequest;
  readonly bytes: number;
  /** monotonicNow() */
  readonly deadline: number;
  /** undefined: not yet */
  reply: PhpReply | undefined;
}

export interface PhpEvents {
  onAnswer(verb: PhpRequest['verb'], outcome: 'ok' | 'fail' | 'closed'): void;
  /** The bytes are not frames. */
  onMalformed(reason: string): void;
  /** The deadline of a request passed without a reply. */
  onLate(): void;
  /** monotonicNow(): bytes that are read now have arrived since then */
  unreadSince(): number;
}

export class PhpConnection {
  readonly #socket: Socket;
  readonly #dialect: PhpDialect;
  readonly #events: PhpEvents;
  readonly #times: CompatTimes;
  readonly #frames = new FrameReader();
  /** unanswered requests in order of arrival */
  #slots: Slot[] = [];
  /** of #slots: begun */
  #begun = 0;
  /** begun, and without an outcome */
  #running = 0;
  /** bytes of #slots */
  #held = 0;
  #isAdvancing = false;
  /** monotonicNow() of the moment that dq stopped reading; null: it reads */
  #pausedAt: number | null = null;
  /** monotonicNow() */
  #lastReadAt = monotonicNow();
  /** the next reply is the last one, unless a further request has begun to arrive */
  #isLeaving = false;
  /** no further request is read: malformed bytes followed, or the client has ended its side */
  #isLast = false;
  #hasEnded = false;
  #answerTimer: Timer | undefined;
  #frameTimer: RunningTimer | undefined;

  constructor(socket: Socket, dialect: PhpDialect, events: PhpEvents, times: CompatTimes) {
    this.#socket = socket;
    this.#dialect = dialect;
    this.#events = events;
    this.#times = times;
    socket.setTimeout(times.idleMs);
    socket.on('data', (chunk: Buffer) => this.#read(chunk));
    socket.on('drain', () => this.#readOn());
    socket.on('timeout', () => this.#end());
    socket.on('end', () => {
      this.#isLast = true;
      this.#send();
    });
    // A reset; `close` follows.
    socket.on('error', () => {});
    socket.on('close', () => this.#drop());
  }

  get inFlight(): number {
    return this.#slots.length;
  }

  /** Ends the connection once it has been idle for a while. The client gets no sign before that: it would
   *  lose the request that it is sending. */
  drain(): void {
    this.#socket.setTimeout(this.#times.drainIdleMs);
  }

  /** Ends the connection behind its next reply: a client that waits for each reply sends nothing then. */
  leave(): void {
    this.#isLeaving = true;
  }

  /** Ends the connection if its client has sent nothing for so long, and waits for nothing. */
  endIfSilent(silentMs: number): void {
    const isWaiting = this.#slots.length > 0 || this.#frames.isWithin;
    if (!isWaiting && monotonicNow() - this.#lastReadAt >= silentMs) this.#end();
  }

  #read(chunk: Buffer): void {
    this.#lastReadAt = monotonicNow();
    if (this.#isLast || this.#hasEnded) return;
    const since = this.#pausedAt ?? this.#events.unreadSince();
    this.#pausedAt = null;
    const deadline = since + (this.#times.answerMs ?? compatLimits.answerMs);
    let mistake: string | null = null;
    // Each frame has its own time.
    let isLater = false;
    const wrong = this.#frames.read(chunk, (json) => {
      isLater = true;
      const request = mistake === null ? readRequest(json) : null;
      if (request === null) mistake ??= 'a frame holds invalid JSON or invalid UTF-8';
      else {
        this.#slots.push({ request, bytes: json.length, deadline, reply: undefined });
        this.#held += json.length;
      }
    });
    mistake ??= wrong;
    if (mistake !== null) {
      this.#isLast = true;
      this.#events.onMalformed(mistake);
    }
    this.#watchFrame(isLater);
    this.#advance();
  }

  /** Requests of one verb run at once: a push must not overtake the cancel before it. */
  #advance(): void {
    if (this.#isAdvancing) return;
    this.#isAdvancing = true;
    for (let slot = this.#next(); slot !== null; slot = this.#next()) this.#execute(slot);
    this.#isAdvancing = false;
    this.#send();
  }

  /** The slot that may begin now. */
  #next(): Slot | null {
    const slot = this.#slots[this.#begun];
    if (slot === undefined || isLate(slot)) return null;
    const verb = this.#slots[this.#begun - 1]?.request.verb;
    return this.#running === 0 || slot.request.verb === verb ? slot : null;
  }

  #execute(slot: Slot): void {
    this.#begun += 1;
    this.#running += 1;
    this.#dialect.execute(slot.request, (reply) => {
      slot.reply = reply;
      this.#running -= 1;
      this.#advance();
    });
  }

  /** Writes the replies that are ready and not late, in order. */
  #send(): void {
    if (this.#hasEnded || this.#isAdvancing) return;
    let text = '';
    let answered = 0;
    let isUnknown = false;
    for (const slot of this.#slots) {
      const { request, bytes, reply } = slot;
      const isTooLate = isLate(slot);
      if (isTooLate) this.#events.onLate();
      isUnknown = isTooLate || reply === null;
      if (isUnknown || !reply) break;
      text += reply.frame;
      answered += 1;
      this.#held -= bytes;
      this.#events.onAnswer(request.verb, reply.outcome);
    }
    this.#slots.splice(0, answered);
    this.#begun -= answered;
    if (text !== '') this.#socket.write(text);
    const leaves = this.#isLeaving && answered > 0 && !this.#frames.isWithin;
    if (isUnknown || ((this.#isLast || leaves) && this.#slots.length === 0)) this.#end();
    else {
      this.#watchAnswer();
      this.#readOn();
    }
  }

  #readOn(): void {
    const isFull = this.#held >= compatLimits.heldBytesMax || this.#socket.writableNeedDrain;
    if (isFull && !this.#hasEnded) {
      this.#pausedAt ??= monotonicNow();
      this.#socket.pause();
    } else if (this.#socket.isPaused()) {
      this.#socket.resume();
      // Bytes that waited are read in the next turn of the loop.
      setImmediate(() => setImmediate(() => this.#forgetPause()));
    }
  }

  /** Later bytes have arrived later. */
  #forgetPause(): void {
    if (!this.#socket.isPaused()) this.#pausedAt = null;
  }

  #watchAnswer(): void {
    clearTimeout(this.#answerTimer);
    const [first] = this.#slots;
    if (first === undefined) return;
    this.#answerTimer = setTimeout(() => this.#send(), first.deadline - monotonicNow());
  }

  /** `isLater`: another frame than before is incomplete now, or none. */
  #watchFrame(isLater: boolean): void {
    const isWithin = this.#frames.isWithin && !this.#isLast;
    if (isLater || !isWithin) {
      this.#frameTimer?.clear();
      this.#frameTimer = undefined;
    }
    if (isWithin) this.#frameTimer ??= this.#untilSlow();
  }

  /** Arrived bytes are read first. */
  #untilSlow(): RunningTimer {
    const timer = afterRunning(this.#times.frameMs, () =>
      setImmediate(() => {
        if (this.#frameTimer === timer) this.#onSlowFrame();
      }),
    );
    return timer;
  }

  #onSlowFrame(): void {
    // dq itself does not read.
    if (this.#socket.isPaused()) {
      this.#frameTimer = this.#untilSlow();
      return;
    }
    this.#events.onMalformed('a frame is incomplete');
    this.#isLast = true;
    this.#send();
  }

  /** Closes without a further reply. Earlier replies still arrive. */
  #end(): void {
    if (this.#hasEnded) return;
    this.#drop();
    const socket = this.#socket;
    socket.end();
    socket.resume();
    setTimeout(() => socket.destroy(), compatLimits.lingerMs).unref();
  }

  #drop(): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    clearTimeout(this.#answerTimer);
    this.#frameTimer?.clear();
    this.#frameTimer = undefined;
    for (const { request } of this.#slots) this.#events.onAnswer(request.verb, 'closed');
    this.#slots = [];
    this.#held = 0;
  }
}

function isLate({ deadline }: Slot): boolean {
  return monotonicNow() >= deadline;
}
