// BodyBudget bounds the bytes of unfinished request bodies that one server holds: a body grows while its
// client sends, and the number of clients is not bounded. A body that exceeds the budget is rejected before
// dq keeps more of it. Two budgets, one for single jobs and one for everything larger: batches never use up
// the budget of pushes.
// Invariant: bytes taken for a request are released exactly once: after its answer, its connection, or its
// handler.

import { apiLimits } from '../limits.ts';

interface Held {
  readonly budget: BodyBudget;
  bytes: number;
}

const heldKey = Symbol('held body');
/** a request of HTTP/1.1, or a stream of HTTP/2 */
type Holder = object & { [heldKey]?: Held | undefined };

export class BodyBudget {
  readonly #max: number;
  #held = 0;

  constructor(max: number) {
    this.#max = max;
  }

  get free(): number {
    return this.#max - this.#held;
  }

  /** Takes `bytes` more for the body of this request. False, and nothing is taken, when the budget is used
   *  up. */
  take(request: object, bytes: number): boolean {
    if (bytes > this.free) return false;
    this.#held += bytes;
    const holder = request as Holder;
    if (holder[heldKey] === undefined) holder[heldKey] = { budget: this, bytes };
    else holder[heldKey].bytes += bytes;
    return true;
  }

  release(bytes: number): void {
    this.#held -= bytes;
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
  holder[heldKey] = undefined;
  return () => held.budget.release(held.bytes);
}

const nothing = (): void => {};
