// Serves the registry through the store's socket: one JSON call {method, args} per request.
// All processes of a start read the same pages of topics at once: each page is read and encoded once and
// cached for some seconds. Between two page reads other requests get their turn. A cached page may be stale:
// later changes are in a later page (TopicChanges in ports/registry.ts). The last page is never cached,
// because it holds the current revision.

import {
  type ChangePlace,
  isChange,
  type Registry,
  type RegistryVerb,
  registryVerbs,
} from '../../../ports/registry.ts';
import { StoreError, type StoreFailure } from '../../../ports/store-error.ts';
import { setTimeout, type Timer, turn } from '../../../runtime/time.ts';
import { sqliteLimits } from '../limits.ts';

type Served =
  /** `text`: JSON, already encoded */
  | ({ readonly changed: boolean } & ({ readonly result: unknown } | { readonly text: Buffer }))
  /** `cause`: an unexpected error */
  | { readonly failure: StoreFailure; readonly cause?: unknown };

/** Never rejects. */
export async function serveRegistry(
  registry: Registry | undefined,
  call: unknown,
  pages: RegistryPages,
): Promise<Served> {
  const { method, args } = Object(call) as { readonly method?: unknown; readonly args?: unknown };
  if (registry === undefined || typeof method !== 'string' || !Object.hasOwn(registryVerbs, method))
    return { failure: { kind: 'not_stored', code: 'no_registry' } };
  if (!Array.isArray(args)) return { failure: { kind: 'not_stored', code: 'bad_call' } };
  const name = method as RegistryVerb;
  try {
    if (name === 'changes')
      return { text: await pages.page(registry, args[0] as ChangePlace), changed: false };
    const result = (await run(registry, name, args)) ?? null;
    return { result, changed: registryVerbs[name].changes && isChange(result) };
  } catch (error) {
    if (error instanceof StoreError) return { failure: error.failure };
    return { failure: { kind: 'unknown', code: 'registry_failed' }, cause: error };
  }
}

function run(registry: Registry, name: RegistryVerb, args: readonly unknown[]): Promise<unknown> {
  const method = registry[name] as (...args: readonly unknown[]) => Promise<unknown>;
  return method.apply(registry, args as unknown[]);
}

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
