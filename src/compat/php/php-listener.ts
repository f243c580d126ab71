// PhpListener is the TCP server for clients of php-delayqueue: admission, number of connections, draining.

import { createServer, type Server, type Socket } from 'node:net';
import { RejectionLines } from '../../api/http/request-log.ts';
import { catalogue, type DqError } from '../../core/errors.ts';
import type { RoleContext } from '../../process/role.ts';
import { FailureLog } from '../../runtime/failure-log.ts';
import {
  clearInterval,
  clearTimeout,
  monotonicNow,
  setImmediate,
  setInterval,
  setTimeout,
  type Timer,
} from '../../runtime/time.ts';
import type { CompatAccess } from '../compat-access.ts';
import { CompatJobs } from '../compat-jobs.ts';
import type { CompatListener, CompatParts } from '../compat-listener.ts';
import { type CompatTimes, compatLimits } from '../limits.ts';
import { PhpConnection, type PhpEvents } from './php-connection.ts';
import { PhpDialect } from './php-dialect.ts';

export class PhpListener implements CompatListener {
  readonly server: Server;
  readonly #role: RoleContext;
  readonly #access: CompatAccess;
  readonly #dialect: PhpDialect;
  readonly #rejections: RejectionLines;
  readonly #late: FailureLog;
  readonly #loop = new LoopWatch();
  readonly #times: CompatTimes;
  readonly #connectionsMax: number;
  readonly #connections = new Map<Socket, PhpConnection>();
  #drained: Promise<void> | null = null;

  constructor({ role, pushes, access, times = compatLimits }: CompatParts) {
    const { log, config } = role;
    this.#role = role;
    this.#access = access;
    this.#times = times;
    this.#connectionsMax = times.connectionsMax ?? compatLimits.connectionsMax;
    this.#dialect = new PhpDialect(
      new CompatJobs({ role, pushes, access, via: 'php' }),
      log,
      config.timezone,
    );
    this.#rejections = new RejectionLines(log);
    this.#late = new FailureLog(log, {
      failure: `php: no outcome within ${compatLimits.answerMs} ms; dq closes such connections`,
      end: 'php: outcomes arrive in time again',
    });
    // A client may end its side behind its last request.
    const { keepAliveMs } = compatLimits;
    this.server = createServer(
      { allowHalfOpen: true, noDelay: true, keepAlive: true, keepAliveInitialDelay: keepAliveMs },
      (socket) => this.#onConnection(socket),
    );
    this.server.maxConnections = this.#connectionsMax;
    this.server.on('listening', () => this.#loop.begin());
    this.server.on('drop', () => {
      this.#endSilent();
      this.#reject('unavailable', `more than ${this.#connectionsMax} connections`);
    });
  }

  inFlight(): number {
    let sum = 0;
    for (const { inFlight } of this.#connections.values()) sum += inFlight;
    return sum;
  }

  drain(deadlineMs: number): Promise<void> {
    this.#drained ??= this.server.listening ? this.#end(deadlineMs) : Promise.resolve();
    return this.#drained;
  }

  async #end(deadlineMs: number): Promise<void> {
    const closed = new Promise<void>((resolve) => this.server.close(() => resolve()));
    for (const connection of this.#connections.values()) connection.drain();
    const half = setTimeout(() => {
      for (const connection of this.#connections.values()) connection.leave();
    }, deadlineMs / 2);
    const deadline = setTimeout(() => {
      for (const socket of this.#connections.keys()) socket.destroy();
    }, deadlineMs);
    await closed;
    clearTimeout(half);
    clearTimeout(deadline);
    this.#loop.end();
    this.#rejections.close();
  }

  #onConnection(socket: Socket): void {
    const refusal = this.#access.refuses(socket);
    if (refusal !== null) {
      socket.on('error', () => {});
      socket.destroy();
      this.#reject('forbidden', refusal);
      return;
    }
    const connection = new PhpConnection(socket, this.#dialect, this.#events, this.#times);
    this.#connections.set(socket, connection);
    socket.on('close', () => this.#connections.delete(socket));
    if (this.#connections.size > this.#connectionsMax * compatLimits.crowdedPart) this.#endSilent();
    if (this.#drained !== null) connection.drain();
  }

  /** Clients keep their connections: some that are silent must not hold every place. */
  #endSilent(): void {
    const { silentMs = compatLimits.silentMs } = this.#times;
    for (const connection of this.#connections.values()) connection.endIfSilent(silentMs);
  }

  readonly #events: PhpEvents = {
    onAnswer: (verb, outcome) => {
      this.#role.metrics.count('dq_compat_requests_total', 1, 'php', verb, outcome);
      // Only a success proves that the store answers.
      if (outcome === 'ok') this.#late.succeeded();
    },
    onMalformed: (reason) => this.#reject('invalid', `frame: ${reason}`),
    onLate: () => this.#late.failed(undefined),
    unreadSince: () => this.#loop.unreadSince(),
  };

  /** Of a connection that dq closes without a request. */
  #reject(code: DqError['code'], reason: string): void {
    this.#role.metrics.count('dq_compat_requests_total', 1, 'php', 'other', 'closed');
    this.#rejections.write({
      method: 'POST',
      topic: null,
      id: null,
      status: catalogue[code].status,
      code,
      version: null,
      dueAt: null,
      bytes: 0,
      ms: null,
      via: 'php',
      reason,
    });
  }
}

/** With the half more that a tick may be late, a wait that stays unnoticed ends 25 ms before the client's
 *  patience. */
const tickMs = 50;
const stallMs = 75;

/** Finds out how long the event loop has not read its sockets, for example while it parsed a large body.
 *  Bytes that it reads now can have waited in the kernel since then. */
class LoopWatch {
  #tickAt = monotonicNow();
  /** of a stall that ended in this turn of the loop: its sockets are read next */
  #stalledAt: number | null = null;
  #timer: Timer | undefined;

  begin(): void {
    this.#tickAt = monotonicNow();
    this.#timer ??= setInterval(() => this.#tick(), tickMs).unref();
  }

  end(): void {
    clearInterval(this.#timer);
  }

  /** monotonicNow() of the earliest arrival of bytes that are read now. */
  unreadSince(): number {
    const now = monotonicNow();
    return this.#stalledAt ?? (now - this.#tickAt > stallMs ? this.#tickAt : now);
  }

  #tick(): void {
    const now = monotonicNow();
    if (now - this.#tickAt > stallMs) {
      this.#stalledAt = this.#tickAt;
      // Runs after the sockets.
      setImmediate(() => {
        this.#stalledAt = null;
      });
    }
    this.#tickAt = now;
  }
}
