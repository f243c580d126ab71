// How much of request bodies one server holds that are not finished: a body grows for as long as its client sends, and there may be
// any number of clients. Whoever finds no room is refused before more of it is kept. Two rooms, one for bodies of one job and one
// for everything larger, so that batches never leave a push without room.
// Invariant: what is taken for a request is given back once, when it has its answer, lost its connection, or its handler is done.

import type { IncomingMessage } from 'node:http';
import { apiLimits } from '../limits.ts';

interface Held {
  readonly room: BodyBudget;
  bytes: number;
}

const heldKey = Symbol('held body');
type Holder = IncomingMessage & { [heldKey]?: Held | undefined };

export class BodyBudget {
  readonly #max: number;
  #held = 0;

  constructor(max: number) {
    this.#max = max;
  }

  get free(): number {
    return this.#max - this.#held;
  }

  /** So many more bytes of this request's body have come. False when there is no room for them. */
  take(request: IncomingMessage, bytes: number): boolean {
    if (bytes > this.free) return false;
    this.#held += bytes;
    const holder = request as Holder;
    if (holder[heldKey] === undefined) holder[heldKey] = { room: this, bytes };
    else holder[heldKey].bytes += bytes;
    return true;
  }

  give(bytes: number): void {
    this.#held -= bytes;
  }
}

/** `jobs`: bodies of single jobs · `lists`: batches, and the JSON of every other call. */
export interface BodyRooms {
  readonly jobs: BodyBudget;
  readonly lists: BodyBudget;
}

/** `batchBytes`: of the largest batch */
export function createBodyRooms(batchBytes: number): BodyRooms {
  const lists = apiLimits.batchesHeldMax * Math.max(batchBytes, apiLimits.apiBodyBytesMax);
  return { jobs: new BodyBudget(apiLimits.jobBodiesHeldBytesMax), lists: new BodyBudget(lists) };
}

/** Of a request that has its answer, or will get none. Again does nothing. */
export function leaveRoom(request: IncomingMessage): void {
  keepRoom(request)();
}

/** From now on the handler's, which works on the body whether its client is still there or not. Answers how to give it back. */
export function keepRoom(request: IncomingMessage): () => void {
  const holder = request as Holder;
  const held = holder[heldKey];
  if (held === undefined) return nothing;
  holder[heldKey] = undefined;
  return () => held.room.give(held.bytes);
}

const nothing = (): void => {};
