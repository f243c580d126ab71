// Caches the console sessions for one process, as TokenBook caches the tokens. Decides when a session has
// ended: by its last use, at its latest time, or with the token that its rights come from. While the registry
// is unavailable, known sessions stay in force.
// Uses are recorded in the registry now and then: a session that one console serves does not end in another.

import type { SessionRecord } from '../core/session.ts';
import { isSameDigest } from '../core/token.ts';
import type { Registry } from '../ports/registry.ts';
import { wallNow } from '../runtime/time.ts';
import type { Log } from '../telemetry/log.ts';
import { registryLimits } from './limits.ts';
import { ReadRevision, RegistryCache } from './registry-cache.ts';
import type { TokenBook } from './token-book.ts';

/** What ends sessions. */
interface SessionRules {
  readonly tokens: Pick<TokenBook, 'count' | 'mayExist'>;
  /** a session ends after this time without use */
  readonly idleMs: number;
  /** whether sessions without a sign-in are served while no token exists */
  readonly servesThisMachine: boolean;
}

interface SessionBookOptions extends SessionRules {
  readonly registry: Registry;
  readonly log: Log;
  readonly now?: () => number;
}

interface Known {
  readonly session: SessionRecord;
  readonly keyDigest: Buffer;
  /** of the last use here; the registry may have a later one of another instance */
  usedAt: number;
  /** last use that was sent to the registry */
  sentAt: number;
}

export class SessionBook extends RegistryCache {
  readonly #options: SessionBookOptions;
  readonly #now: () => number;
  /** by the digest of the cookie; null: not known yet */
  #known: ReadonlyMap<string, Known> | null = null;
  readonly #revision = new ReadRevision();
  #registryId: string | null = null;

  constructor(options: SessionBookOptions) {
    const { registry, log } = options;
    super({ registry, log, what: 'sessions' });
    this.#options = options;
    this.#now = options.now ?? wallNow;
  }

  get isKnown(): boolean {
    return this.#known !== null;
  }

  /** Id of the registry, which all consoles of its instances share; null: not known yet. */
  get registryId(): string | null {
    return this.#registryId;
  }

  /** The session of both halves, which counts as a use; null = there is none, or it has ended. */
  find(cookieDigest: string, keyDigest: string): SessionRecord | null {
    const known = this.#known?.get(cookieDigest);
    if (known === undefined || !isSameDigest(Buffer.from(keyDigest, 'hex'), known.keyDigest)) return null;
    if (hasEnded(known.session, known.usedAt, this.#options, this.#now())) return null;
    this.#use(known);
    return known.session;
  }

  #use(known: Known): void {
    const now = this.#now();
    known.usedAt = now;
    if (now - known.sentAt < this.#options.idleMs / registryLimits.sessionUseParts) return;
    known.sentAt = now;
    // A lost one costs a part of the idle time after a restart; the poll logs an unavailable registry.
    this.#options.registry.useSession(known.session.id, now).catch(() => undefined);
  }

  override async refresh(): Promise<void> {
    this.#registryId ??= await this.#options.registry.id();
    const since = this.#revision.value;
    const { revision, sessions } = await this.#options.registry.sessions(since);
    if (sessions === null || !this.#revision.accepts(revision, since)) return;
    const before = this.#known;
    this.#known = new Map(
      sessions.map((session) => [session.cookieDigest, knownOf(session, before?.get(session.cookieDigest))]),
    );
  }
}

/** When the session ends without a further use, epoch ms. */
export function endOf({ endsAt }: SessionRecord, usedAt: number, idleMs: number): number {
  return Math.min(endsAt, usedAt + idleMs);
}

export function hasEnded(session: SessionRecord, usedAt: number, rules: SessionRules, now: number): boolean {
  if (now >= endOf(session, usedAt, rules.idleMs)) return true;
  const { tokens, servesThisMachine } = rules;
  if (session.signedInBy === 'machine' && !(servesThisMachine && tokens.count === 0)) return true;
  return session.tokenId !== null && !tokens.mayExist(session.tokenId);
}

function knownOf(session: SessionRecord, before: Known | undefined): Known {
  return {
    session,
    keyDigest: Buffer.from(session.keyDigest, 'hex'),
    usedAt: Math.max(session.usedAt, before?.usedAt ?? 0),
    sentAt: Math.max(session.usedAt, before?.sentAt ?? 0),
  };
}
