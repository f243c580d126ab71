// Serves pages of topics to the clients of dq-store. All processes of a start read the same pages at once:
// each page is read and encoded once and cached for some seconds. Between two page reads other requests get
// their turn. A cached page may be stale: later changes are in a later page (TopicChanges in
// ports/registry.ts). The last page is never cached, because it holds the current revision.

import type { ChangePlace, Registry } from '../../../ports/registry.ts';
import { setTimeout, type Timer, turn } from '../../../runtime/time.ts';
import { sqliteLimits } from '../limits.ts';

export class RegistryPages {
  readonly #bytesMax: number;
  /** Oldest first. */
  readonly #cached = new Map<string, Buffer>();
  #cachedBytes = 0;
  #forget: Timer | null = null;
  #last: Promise<unknown> = Promise.resolve();

  constructor(bytesMax: number = sqliteLimits.registryPagesKeptBytes) {
    this.#bytesMax = bytesMax;
  }

  /** TopicChanges as JSON. Rejects as Registry.changes does. */
  page(registry: Registry, after: ChangePlace): Promise<Buffer> {
    // Usually the reader knows everything, and the answer is one number.
    if (after.name === null && after.revision > 0) return this.#read(registry, after);
    const cached = this.#cached.get(JSON.stringify(after));
    this.#forgetLater();
    if (cached !== undefined) return Promise.resolve(cached);
    const page = this.#last.then(async () => {
      await turn();
      return this.#cached.get(JSON.stringify(after)) ?? this.#read(registry, after);
    });
    this.#last = page.catch(() => undefined);
    return page;
  }

  async #read(registry: Registry, after: ChangePlace): Promise<Buffer> {
    const changes = await registry.changes(after);
    const page = Buffer.from(JSON.stringify(changes));
    if (changes.next !== null) this.#keep(JSON.stringify(after), page);
    return page;
  }

  #keep(key: string, page: Buffer): void {
    this.#cachedBytes += page.length - (this.#cached.get(key)?.length ?? 0);
    this.#cached.delete(key);
    this.#cached.set(key, page);
    for (const [oldest, { length }] of this.#cached) {
      if (this.#cachedBytes <= this.#bytesMax) break;
      this.#cached.delete(oldest);
      this.#cachedBytes -= length;
    }
  }

  /** Some time after the last request. */
  #forgetLater(): void {
    this.#forget ??= setTimeout(() => {
      this.#cached.clear();
      this.#cachedBytes = 0;
    }, sqliteLimits.registryPagesKeptMs).unref();
    this.#forget.refresh();
  }
}
