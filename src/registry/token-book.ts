// Caches the access tokens for one process: polled (registry-cache.ts), refreshed at once
// after a change hint. Reading never waits. Before the first answer of the registry the tokens are unknown,
// which is not the same as no tokens; while the registry is unavailable later, the last known tokens stay in
// force. An expired token grants nothing, and still counts: its end must not open dq to everyone.
// Uses are recorded in the registry now and then, with a poll.

import { type Caller, isSameDigest, type TokenRecord, tokenIdOf } from '../core/token.ts';
import type { Registry } from '../ports/registry.ts';
import { wallNow } from '../runtime/time.ts';
import type { Log } from '../telemetry/log.ts';
import { registryLimits } from './limits.ts';
import { ReadRevision, RegistryCache } from './registry-cache.ts';

interface Known {
  readonly digest: Buffer;
  readonly caller: Caller;
  readonly expiresAt: number | null;
  /** of the last use here; null: none */
  usedAt: number | null;
  /** last use that the registry knows */
  sentAt: number;
}

export class TokenBook extends RegistryCache {
  readonly #registry: Registry;
  readonly #now: () => number;
  #known: ReadonlyMap<string, Known> | null = null;
  readonly #revision = new ReadRevision();

  constructor(registry: Registry, log: Log, now: () => number = wallNow) {
    super({ registry, log, what: 'access tokens' });
    this.#registry = registry;
    this.#now = now;
  }

  /** Expired ones included; null: not known yet */
  get count(): number | null {
    return this.#known?.size ?? null;
  }

  /** Counts as a use. null: not a known token of this daemon, or expired. `digest`: of `text`. */
  rightsOf(text: string, digest: Buffer): Caller | null {
    const id = tokenIdOf(text);
    const known = id === null ? undefined : this.#known?.get(id);
    if (known === undefined || !isSameDigest(digest, known.digest)) return null;
    const now = this.#now();
    if (hasExpired(known, now)) return null;
    known.usedAt = now;
    return known.caller;
  }

  /** Whether the token with this readable part exists and has not expired; true while the tokens are not
   *  known. */
  mayExist(id: string): boolean {
    if (this.#known === null) return true;
    const known = this.#known.get(id);
    return known !== undefined && !hasExpired(known, this.#now());
  }

  override async refresh(): Promise<void> {
    const since = this.#revision.value;
    const { revision, tokens } = await this.#registry.tokens(since);
    if (tokens === null || !this.#revision.accepts(revision, since)) return;
    const before = this.#known;
    this.#known = new Map(tokens.map((token) => [token.id, knownOf(token, before?.get(token.id))]));
  }

  protected override async refreshInTurn(): Promise<void> {
    await this.refresh();
    await this.#sendUses();
  }

  /** Uses that cannot be written wait for the next poll, which reports an unavailable registry. */
  async #sendUses(): Promise<void> {
    const sent = [...(this.#known ?? [])].flatMap(([id, known]) => {
      const { usedAt, sentAt } = known;
      return usedAt === null || usedAt - sentAt < registryLimits.tokenUseMs ? [] : [{ id, usedAt, known }];
    });
    const some = sent.slice(0, registryLimits.tokenUsesMax);
    if (some.length === 0) return;
    try {
      await this.#registry.useTokens(some.map(({ id, usedAt }) => ({ id, usedAt })));
    } catch {
      return;
    }
    for (const { known, usedAt } of some) known.sentAt = usedAt;
  }
}

const hasExpired = ({ expiresAt }: Known, now: number): boolean => expiresAt !== null && now >= expiresAt;

function knownOf(
  { id, name, digest, scopes, topics, expiresAt, usedAt }: TokenRecord,
  before: Known | undefined,
): Known {
  return {
    digest: Buffer.from(digest, 'hex'),
    caller: { scopes, topics, name, tokenId: id },
    expiresAt,
    usedAt: before?.usedAt ?? null,
    sentAt: Math.max(usedAt ?? 0, before?.sentAt ?? 0),
  };
}
