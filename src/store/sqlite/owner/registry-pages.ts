// Pages of topics for the clients of dq-store. All processes of a start read all topics at once, and ask for the same pages:
// each page is read and written as JSON once and kept for a moment. Between two pages that must be read, everything else that
// has arrived gets its turn.
// A kept page may be some seconds old. That does no harm: what has changed since is in a later page (registry.ts, TopicChanges).
// The last page is never kept, because it says how far its reader is.

import { setImmediate as turn } from 'node:timers/promises';
import type { ChangePlace, Registry } from '../../../ports/registry.ts';
import { sqliteLimits } from '../limits.ts';

export class RegistryPages {
  readonly #bytesMax: number;
  /** The oldest first. */
  readonly #kept = new Map<string, Buffer>();
  #keptBytes = 0;
  #forget: NodeJS.Timeout | null = null;
  #last: Promise<unknown> = Promise.resolve();

  constructor(bytesMax: number = sqliteLimits.registryPagesKeptBytes) {
    this.#bytesMax = bytesMax;
  }

  /** TopicChanges as JSON. Rejects as Registry.changes does. */
  page(registry: Registry, after: ChangePlace): Promise<Buffer> {
    // Mostly everything is known, and then it is one number.
    if (after.name === null && after.revision > 0) return this.#read(registry, after);
    const kept = this.#kept.get(JSON.stringify(after));
    this.#forgetLater();
    if (kept !== undefined) return Promise.resolve(kept);
    const page = this.#last.then(async () => {
      await turn();
      return this.#kept.get(JSON.stringify(after)) ?? this.#read(registry, after);
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
    this.#keptBytes += page.length - (this.#kept.get(key)?.length ?? 0);
    this.#kept.delete(key);
    this.#kept.set(key, page);
    for (const [oldest, { length }] of this.#kept) {
      if (this.#keptBytes <= this.#bytesMax) break;
      this.#kept.delete(oldest);
      this.#keptBytes -= length;
    }
  }

  /** Some time after the last question. */
  #forgetLater(): void {
    this.#forget ??= setTimeout(() => {
      this.#kept.clear();
      this.#keptBytes = 0;
    }, sqliteLimits.registryPagesKeptMs).unref();
    this.#forget.refresh();
  }
}
