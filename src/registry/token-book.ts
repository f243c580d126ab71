// The access tokens as one process knows them: at most limits.registryPollMs old, refreshed at once when the registry hints a
// change. Reading never waits. Before the registry was read for the first time nothing is known, and nobody may take that for
// "no token exists"; with the registry away later, the last known tokens stay in force.

import { limits } from '../core/limits.ts';
import { Loop } from '../core/loop.ts';
import type { Service } from '../core/service.ts';
import { isSameDigest, type Rights, type TokenRecord, tokenIdOf } from '../core/token.ts';
import type { Log } from '../telemetry/log.ts';
import type { Registry } from './registry.ts';

interface Known {
  readonly digest: Buffer;
  readonly rights: Rights;
}

export class TokenBook implements Service {
  readonly #registry: Registry;
  readonly #loop: Loop;
  #known: ReadonlyMap<string, Known> | null = null;
  #revision = -1;
  #failing = false;
  #unsubscribe: (() => void) | null = null;

  constructor(registry: Registry, log: Log) {
    this.#registry = registry;
    this.#loop = new Loop({
      name: 'token-book',
      step: async () => {
        await this.refresh();
        if (this.#failing) log.notice('access tokens are being refreshed again');
        this.#failing = false;
        return limits.registryPollMs;
      },
      onFailure: (error) => {
        if (!this.#failing)
          log.error('access tokens cannot be refreshed; the last known ones stay in force', error);
        this.#failing = true;
      },
      failureWaitMs: limits.registryPollMs,
    });
  }

  /** Has read the registry once, if it could be reached at all. */
  async start(): Promise<void> {
    this.#unsubscribe = this.#registry.onChange(() => this.#loop.wake());
    try {
      await this.refresh();
    } catch {
      // The loop tries again and logs.
    }
    await this.#loop.start();
  }

  async drain(deadlineMs: number): Promise<void> {
    this.#unsubscribe?.();
    await this.#loop.drain(deadlineMs);
  }

  /** null = not known yet */
  get count(): number | null {
    return this.#known?.size ?? null;
  }

  /** null = no token of this daemon, as far as is known. `digest` is that of `text`. */
  rightsOf(text: string, digest: Buffer): Rights | null {
    const id = tokenIdOf(text);
    const known = id === null ? undefined : this.#known?.get(id);
    return known !== undefined && isSameDigest(digest, known.digest) ? known.rights : null;
  }

  async refresh(): Promise<void> {
    const { revision, tokens } = await this.#registry.tokens(this.#revision);
    // Two refreshes may overtake each other, and the older answer would bring a removed token back.
    if (tokens === null || revision <= this.#revision) return;
    this.#revision = revision;
    this.#known = new Map(tokens.map((token) => [token.id, knownOf(token)]));
  }
}

function knownOf({ digest, scopes, topics }: TokenRecord): Known {
  return { digest: Buffer.from(digest, 'hex'), rights: { scopes, topics } };
}
