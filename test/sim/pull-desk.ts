// What a dq-server of a world does for pull clients: the real calls of src/intake/pull without HTTP. A
// request and its answer take time, and either can be lost with its connection.
// Invariant: a client gets one end of each request: an answer, a rejection, or the loss of its connection.

import { EventEmitter } from 'node:events';
import type { ServerResponse } from 'node:http';
import { storeProblem } from '../../src/api/http/problem.ts';
import { DqError } from '../../src/core/errors.ts';
import { type LeaseResult, PullCalls, readLeaseLength, readWait } from '../../src/intake/pull/pull-calls.ts';
import { pullForClient } from '../../src/intake/pull/pull-for-client.ts';
import { PulledLeases } from '../../src/intake/pull/pulled-leases.ts';
import { Puller } from '../../src/intake/pull/puller.ts';
import { StoreError } from '../../src/ports/store-error.ts';
import type { RoleContext } from '../../src/process/role.ts';
import { monotonicNow } from '../../src/runtime/time.ts';
import type { Process } from './process.ts';
import type { Scene } from './scene.ts';

/** As of POST /v1/pull. */
export interface PullAsk {
  readonly topics: readonly string[];
  readonly max: number;
  readonly waitMs: number;
  /** null: that of the topic */
  readonly leaseMs: number | null;
}

/** A job, as its client reads it. */
export interface PulledItem {
  readonly topic: string;
  readonly id: string;
  readonly lease: string;
  readonly leaseUntil: string;
  readonly attempt: number;
  readonly maxAttempts: number;
  readonly body: Buffer;
}

/** Ack, nack or extend of some leases. */
export type LeaseAsk =
  | { readonly verb: 'ack' }
  | { readonly verb: 'nack'; readonly delayMs: number | null }
  | { readonly verb: 'bury' }
  /** `delayMs`: a snooze */
  | { readonly verb: 'release'; readonly delayMs?: number | null }
  | { readonly verb: 'extend'; readonly ms: number };

export type End<T> =
  | { readonly kind: 'answered'; readonly value: T }
  | { readonly kind: 'rejected'; readonly code: string }
  /** by the end of its dq-server, or by its client */
  | { readonly kind: 'lost' }
  | { readonly kind: 'left' };

/** Of the limits of HTTP dq-server sets none here. */
class ClientSocket extends EventEmitter {
  destroyed = false;
  readonly errored = null;

  get readable(): boolean {
    return !this.destroyed;
  }

  setTimeout(): this {
    return this;
  }

  close(): void {
    this.destroyed = true;
    this.emit('close');
  }
}

/** Sends all at once. */
class ClientResponse extends EventEmitter {
  readonly req = { socket: new ClientSocket() };
}

/** Every client may touch every topic. */
const mayTouch = () => true;
const duration = (ms: number) => `${ms}ms`;

/** Of one dq-server. */
export class PullDesk {
  readonly #leases: PulledLeases;
  readonly #puller: Puller;
  readonly #calls: PullCalls;
  /** requests without an answer */
  open = 0;
  /** Its port is closed: a request is not read. */
  isClosed = false;

  constructor(ctx: RoleContext) {
    this.#leases = new PulledLeases(ctx);
    this.#puller = new Puller(ctx, this.#leases);
    this.#calls = new PullCalls(ctx, this.#leases);
  }

  async start(): Promise<void> {
    await this.#leases.start();
  }

  /** Ends the waits; the leases go on. */
  endWaits(deadlineMs: number): Promise<void> {
    return this.#puller.drain(deadlineMs);
  }

  close(): Promise<void> {
    this.isClosed = true;
    return this.#leases.drain();
  }

  async pull(response: ServerResponse, client: string, ask: PullAsk): Promise<readonly PulledItem[]> {
    const until = monotonicNow() + readWait(duration(ask.waitMs));
    const leaseMs = readLeaseLength(ask.leaseMs === null ? undefined : duration(ask.leaseMs));
    await Promise.all(ask.topics.map((name) => this.#calls.checkTopic(name)));
    const { topics: names, max } = ask;
    const waitMs = Math.max(0, until - monotonicNow());
    const request = { topics: names, max, waitMs, leaseMs, client, refusal: () => null };
    return pullForClient(this.#puller, response, request, (pulled) =>
      pulled.map((one) => ({ ...this.#calls.pulled(one), body: one.job.body })),
    );
  }

  async answer(texts: readonly string[], ask: LeaseAsk): Promise<readonly LeaseResult[]> {
    if (ask.verb === 'ack') return this.#calls.ack(texts, mayTouch);
    if (ask.verb === 'extend') return this.#calls.extend(texts, mayTouch, duration(ask.ms), 'for');
    const { delayMs = null } = ask.verb === 'nack' || ask.verb === 'release' ? ask : {};
    const delay = delayMs === null ? undefined : duration(delayMs);
    const input = { delay, reason: '', dead: ask.verb === 'bury', release: ask.verb === 'release' };
    return this.#calls.nack(texts, mayTouch, input);
  }
}

export interface RequestOptions<T> {
  readonly scene: Scene;
  readonly process: Process;
  readonly desk: PullDesk;
  readonly name: string;
  readonly act: (response: ServerResponse) => Promise<T>;
  /** the answer leaves the dq-server */
  readonly onSent?: (value: T) => void;
  readonly onEnd: (end: End<T>) => void;
}

/** A request of a client on a connection of its own. */
export class ClientRequest<T> {
  readonly #options: RequestOptions<T>;
  readonly #response = new ClientResponse();
  readonly #socket = this.#response.req.socket;
  #isOver = false;
  /** virtual ms of the answer, which the end of the dq-server does not overtake */
  #arrivesAt = 0;
  /** It reached the dq-server. */
  hasArrived = false;

  constructor(options: RequestOptions<T>) {
    this.#options = options;
    const { scene, process, name } = options;
    const { loop, network } = scene;
    process.onDeath.push(() => {
      const at = Math.max(this.#arrivesAt, loop.at + network.latency());
      loop.schedule(null, at, 'closed', () => this.#end({ kind: 'lost' }));
    });
    loop.after(network.latency(), process, name, () => this.#arrive());
  }

  /** The client closes its connection. */
  leave(): void {
    if (this.#isOver) return;
    const { loop, network } = this.#options.scene;
    loop.after(network.latency(), this.#options.process, 'client has left', () => this.#socket.close());
    this.#end({ kind: 'left' });
  }

  #arrive(): void {
    if (this.#socket.destroyed || this.#options.desk.isClosed) return;
    const { desk, act, scene, onSent } = this.#options;
    this.hasArrived = true;
    desk.open += 1;
    const answer = (end: End<T>) => {
      desk.open -= 1;
      if (this.#socket.destroyed || !this.#options.process.sends()) return;
      if (end.kind === 'answered') onSent?.(end.value);
      this.#response.emit('finish');
      this.#arrivesAt = scene.loop.at + scene.network.latency();
      scene.loop.schedule(null, this.#arrivesAt, 'answer', () => this.#end(end));
    };
    act(this.#response as unknown as ServerResponse).then(
      (value) => answer({ kind: 'answered', value }),
      (error: unknown) => {
        const problem = error instanceof StoreError ? storeProblem(error, false) : error;
        // Another error would be status 500.
        if (!(problem instanceof DqError)) scene.loop.thrown.push(problem);
        answer({ kind: 'rejected', code: problem instanceof DqError ? problem.code : 'internal' });
      },
    );
  }

  #end(end: End<T>): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#options.onEnd(end);
  }
}
