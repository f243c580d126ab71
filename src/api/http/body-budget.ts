// BodyBudget bounds the bytes of unfinished request bodies that one server holds: a body grows while its
// client sends, and the number of clients is not bounded. A body that exceeds the budget is rejected before
// dq keeps more of it. Two budgets, one for single jobs and one for everything larger: batches never use up
// the budget of pushes.
// One client must not use up the budget of the others. While it is alone, it may hold everything. Where a
// body of another client does not fit, the client that holds more than half loses its newest unfinished ones.
// Without such a client, the arriving body is rejected: if bodies of equal clients gave way to others that
// have just begun, none would be completed. Small bodies have a share of their own.
// Invariant: bytes taken for a request are released exactly once: after its answer, its connection, or its
// handler.

import { apiLimits } from '../limits.ts';

export interface BodyOwner {
  /** of clientOf() */
  readonly client: string;
  /** Rejects the request; its bytes are released already. */
  giveWay(): void;
}

interface Client {
  readonly name: string;
  bytes: number;
  /** of the unfinished ones, by their first bytes; null: there is none */
  newest: Held | null;
}

interface Held {
  readonly budget: BodyBudget;
  readonly request: Holder;
  readonly client: Client;
  readonly owner: BodyOwner;
  bytes: number;
  isFinished: boolean;
  /** Neighbours among the unfinished ones of the client: one client can hold many thousands of them. */
  older: Held | null;
  newer: Held | null;
}

const heldKey = Symbol('held body');
/** a request of HTTP/1.1, or a stream of HTTP/2 */
type Holder = object & { [heldKey]?: Held | undefined };

export class BodyBudget {
  readonly #max: number;
  readonly #clients = new Map<string, Client>();
  #held = 0;

  constructor(max: number) {
    this.#max = max;
  }

  /** Whether a body of this length can be taken as things are; it is not taken. */
  fits(bytes: number, client: string): boolean {
    return bytes <= this.#max - this.#held || this.#givingWayTo(client) !== null;
  }

  /** Takes `bytes` more for the body of this request. False, and nothing is taken, when the budget is used
   *  up. */
  take(request: object, bytes: number, owner: BodyOwner): boolean {
    const holder = request as Holder;
    const isSmall = (holder[heldKey]?.bytes ?? 0) + bytes <= apiLimits.socketReadBytes;
    const max = this.#max + (isSmall ? apiLimits.smallBodiesHeldBytesMax : 0);
    while (this.#held + bytes > max) {
      const newest = this.#givingWayTo(owner.client);
      if (newest === null) return false;
      releaseBody(newest.request);
      newest.owner.giveWay();
    }
    const held = holder[heldKey] ?? this.#begin(holder, owner);
    held.bytes += bytes;
    held.client.bytes += bytes;
    this.#held += bytes;
    return true;
  }

  release({ client, bytes }: Held): void {
    this.#held -= bytes;
    client.bytes -= bytes;
    if (client.bytes === 0) this.#clients.delete(client.name);
  }

  #begin(request: Holder, owner: BodyOwner): Held {
    const name = owner.client;
    const client = this.#clients.get(name) ?? { name, bytes: 0, newest: null };
    this.#clients.set(name, client);
    const older = client.newest;
    const held: Held = {
      budget: this,
      request,
      client,
      owner,
      bytes: 0,
      isFinished: false,
      older,
      newer: null,
    };
    if (older !== null) older.newer = held;
    client.newest = held;
    request[heldKey] = held;
    return held;
  }

  /** The newest unfinished body of the client that holds more than half, if that is another one. */
  #givingWayTo(client: string): Held | null {
    for (const { name, bytes, newest } of this.#clients.values())
      if (bytes > this.#max / 2 && name !== client) return newest;
    return null;
  }
}

/** `jobs`: bodies of single jobs · `lists`: batches, and the JSON of every other call. */
export interface BodyBudgets {
  readonly jobs: BodyBudget;
  readonly lists: BodyBudget;
}

/** `batchBytes`: size of the largest batch. */
export function createBodyBudgets(batchBytes: number): BodyBudgets {
  const lists = apiLimits.batchesHeldMax * Math.max(batchBytes, apiLimits.apiBodyBytesMax);
  return { jobs: new BodyBudget(apiLimits.jobBodiesHeldBytesMax), lists: new BodyBudget(lists) };
}

/** The body has arrived: it does not give way any more. */
export function finishBody(request: object): void {
  const held = (request as Holder)[heldKey];
  if (held === undefined || held.isFinished) return;
  held.isFinished = true;
  const { client, older, newer } = held;
  if (older !== null) older.newer = newer;
  if (newer !== null) newer.older = older;
  else client.newest = older;
}

/** For a request that has its answer, or gets none. Repeating it has no effect. */
export function releaseBody(request: object): void {
  takeOverBody(request)();
}

/** Makes the caller the owner of the body's bytes, because it uses the body even when the client has left.
 *  Returns the release function. */
export function takeOverBody(request: object): () => void {
  const holder = request as Holder;
  const held = holder[heldKey];
  if (held === undefined) return nothing;
  finishBody(request);
  holder[heldKey] = undefined;
  return () => held.budget.release(held);
}

const nothing = (): void => {};
