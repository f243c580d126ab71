// Resources ends what a process has opened, in reverse order: a later resource uses the earlier ones.
// Invariant: a resource that fails to end leaves no other one open.

/** How much time the end has. */
export interface Ending {
  readonly deadlineMs: number;
  /** The whole daemon ends, and the workers that this process outlives have exited. */
  readonly isLast: boolean;
}

const atOnce: Ending = { deadlineMs: 0, isLast: false };

export class Resources {
  readonly #ends: ((ending: Ending) => unknown)[] = [];

  /** Returns the resource. */
  add<T>(resource: T, end: (resource: T, ending: Ending) => unknown): T {
    this.#ends.push((ending) => end(resource, ending));
    return resource;
  }

  /** Ends each resource once. Rejects with the last failure, after all are ended. */
  async close(ending = atOnce): Promise<void> {
    const end = this.#ends.pop();
    if (end === undefined) return;
    try {
      await end(ending);
    } finally {
      await this.close(ending);
    }
  }
}
