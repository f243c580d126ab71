// Caches the access tokens for one process: at most registryLimits.registryPollMs old, refreshed at once
// after a change hint. Reading never waits. Before the first answer of the registry the tokens are unknown,
// which is not the same as no tokens; while the registry is unavailable later, the last known tokens stay in
// force.

import { type Caller, isSameDigest, type TokenRecord, tokenIdOf } from '../core/token.ts';
import type { Registry } from '../ports/registry.ts';
import type { Service } from '../runtime/service.ts';
import type { Log } from '../telemetry/log.ts';
import { RegistryPoll } from './registry-poll.ts';

interface Known {
  readonly digest: Buffer;
  readonly caller: Caller;
}

export class TokenBook implements Service {
  readonly #registry: Registry;
  readonly #poll: RegistryPoll;
  #known: ReadonlyMap<string, Known> | null = null;
  #revision = -1;

  constructor(registry: Registry, log: Log) {
    this.#registry = registry;
    this.#poll = new RegistryPoll({ registry, log, what: 'access tokens', refresh: () => this.refresh() });
  }

  /** Reads the registry once, if it is available, then polls. */
  async start(): Promise<void> {
    await this.#poll.start();
  }

  async drain(deadlineMs: number): Promise<void> {
    await this.#poll.drain(deadlineMs);
  }

  /** null: not known yet */
  get count(): number | null {
    return this.#known?.size ?? null;
  }

  /** null: not a known token of this daemon. `digest`: of `text`. */
  rightsOf(text: string, digest: Buffer): Caller | null {
    const id = tokenIdOf(text);
    const known = id === null ? undefined : this.#known?.get(id);
    return known !== undefined && isSameDigest(digest, known.digest) ? known.caller : null;
  }

  /** Whether the token with this readable part exists; true while the tokens are not known. */
  mayExist(id: string): boolean {
    return this.#known?.has(id) ?? true;
  }

  async refresh(): Promise<void> {
    const since = this.#revision;
    const { revision, tokens } = await this.#registry.tokens(since);
    if (tokens === null) return;
    // A lower revision than before the call: the registry was restored. Later removals must apply here too.
    const wentBack = revision < since && this.#revision === since;
    // Refreshes may overtake each other: an older answer must not bring a removed token back.
    if (revision <= this.#revision && !wentBack) return;
    this.#revision = revision;
    this.#known = new Map(tokens.map((token) => [token.id, knownOf(token)]));
  }
}

function knownOf({ id, name, digest, scopes, topics }: TokenRecord): Known {
  return { digest: Buffer.from(digest, 'hex'), caller: { scopes, topics, name, tokenId: id } };
}
