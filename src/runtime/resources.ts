// Resources closes what a process has opened, in reverse order: a later resource uses the earlier ones.
// Invariant: a resource that fails to close leaves no other one open.

export class Resources {
  readonly #closes: (() => unknown)[] = [];

  /** Returns the resource. */
  add<T>(resource: T, close: (resource: T) => unknown): T {
    this.#closes.push(() => close(resource));
    return resource;
  }

  /** Closes each resource once. Rejects with the last failure, after all are closed. */
  async close(): Promise<void> {
    const close = this.#closes.pop();
    if (close === undefined) return;
    try {
      await close();
    } finally {
      await this.close();
    }
  }
}
