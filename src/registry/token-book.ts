// The access tokens as one process knows them: at most registryLimits.registryPollMs old, refreshed at once when the registry hints a
// change. Reading never waits. Before the registry was read for the first time nothing is known, and nobody may take that for
// "no token exists"; with the registry away later, the last known tokens stay in force.

import { isSameDigest, type Rights, type TokenRecord, tokenIdOf } from '../core/token.ts';
import type { Registry } from '../ports/registry.ts';
import type { Service } from '../runtime/service.ts';
import type { Log } from '../telemetry/log.ts';
import { RegistryPoll } from './registry-poll.ts';

interface Known {
  readonly digest: Buffer;
  readonly rights: Rights;
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

  /** Has read the registry once, if it could be reached at all. */
  async start(): Promise<void> {
    await this.#poll.start();
  }

  async drain(deadlineMs: number): Promise<void> {
    await this.#poll.drain(deadlineMs);
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
    const since = this.#revision;
    const { revision, tokens } = await this.#registry.tokens(since);
    if (tokens === null) return;
    // Less than it had told before it was asked: put back from a backup. A token that is removed after that must go here too.
    const wentBack = revision < since && this.#revision === since;
    // Two refreshes may overtake each other, and the older answer would bring a removed token back.
    if (revision <= this.#revision && !wentBack) return;
    this.#revision = revision;
    this.#known = new Map(tokens.map((token) => [token.id, knownOf(token)]));
  }
}

function knownOf({ digest, scopes, topics }: TokenRecord): Known {
  return { digest: Buffer.from(digest, 'hex'), rights: { scopes, topics } };
}
