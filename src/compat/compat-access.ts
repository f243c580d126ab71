// CompatAccess decides which addresses may call the ports for clients of other queues, and what they may do.
// Their protocols have no credentials: the address identifies the caller. Those over HTTP also accept a
// token, whose rights then apply.
// dq's own service of gRPC also follows the rule of the HTTP API: once a token exists, each call needs one.

import type { Socket } from 'node:net';
import { bearerTokenOf, notBearer } from '../api/http/access.ts';
import type { Config } from '../config/options.ts';
import { parseAddress, type Range, rangeOf, within } from '../core/egress-policy.ts';
import { DqError } from '../core/errors.ts';
import { digestOf, grants, type Rights, reaches, type Scope } from '../core/token.ts';
import type { TokenBook } from '../registry/token-book.ts';

export class CompatAccess {
  readonly #allow: readonly Range[];
  readonly #noAuth: boolean;
  readonly #tokens: Pick<TokenBook, 'count' | 'rightsOf'>;
  /** of a caller without a token */
  readonly rights: Rights;

  constructor(config: Config, tokens: Pick<TokenBook, 'count' | 'rightsOf'>) {
    this.#allow = config['compat.allow'].map(rangeOf);
    this.#noAuth = config.noAuth;
    this.#tokens = tokens;
    // The configuration has checked the names of the scopes.
    this.rights = { scopes: config['compat.scopes'] as readonly Scope[], topics: config['compat.topics'] };
  }

  /** null = this caller is served, else the reason. */
  refuses(socket: Pick<Socket, 'remoteAddress' | 'localAddress'>): string | null {
    const caller = parseAddress(socket.remoteAddress ?? '');
    // The client has left.
    if (caller === null) return 'the connection has no address';
    if (this.#allow.length > 0)
      return within(caller, this.#allow) ? null : `${caller} is not in compat.allow`;
    if (isThisMachine(socket)) return null;
    if (this.#noAuth && this.#tokens.count === 0) return null;
    return `${caller} is another machine; add it to compat.allow`;
  }

  /** Throws DqError unauthorized or unavailable. */
  #rightsOf(authorization: string): Rights {
    const token = bearerTokenOf(authorization);
    if (token === null) throw notBearer();
    const rights = this.#tokens.rightsOf(token, digestOf(token));
    if (rights !== null) return rights;
    if (this.#tokens.count === null)
      throw new DqError('unavailable', 'cannot read the access tokens; send the request again');
    throw new DqError('unauthorized', 'authorization: unknown or expired token; send Bearer dqk_…');
  }

  /** The rights of a call. `authorization`: undefined: the call has none. `asApi`: of dq's own service.
   *  Throws DqError unauthorized or unavailable. */
  admit(authorization: string | undefined, asApi = false): Rights {
    if (authorization !== undefined) return this.#rightsOf(authorization);
    const { count } = this.#tokens;
    if (!asApi || count === 0) return this.rights;
    if (count === null)
      throw new DqError('unavailable', 'cannot read the access tokens; send the request again');
    throw new DqError('unauthorized', 'authorization: is required; send Bearer dqk_…');
  }

  /** Of a call that has waited; `admit`: its admission, again. null: it still has its rights. */
  refusal(admit: () => Rights, scope: Scope, topics: readonly string[]): DqError | null {
    try {
      const rights = admit();
      for (const topic of topics) this.require(scope, topic, rights);
      return null;
    } catch (error) {
      if (error instanceof DqError) return error;
      throw error;
    }
  }

  /** Throws DqError forbidden. */
  require(scope: Scope, topic: string, rights = this.rights): void {
    this.requireScope(scope, rights);
    if (reaches(rights, topic)) return;
    const whose = rights === this.rights ? 'compat.topics does' : 'the topics of the token do';
    throw new DqError('forbidden', `${whose} not cover the topic ${JSON.stringify(topic)}`);
  }

  /** Throws DqError forbidden. */
  requireScope(scope: Scope, rights = this.rights): void {
    if (grants(rights, scope)) return;
    const whose = rights === this.rights ? 'compat.scopes lacks' : 'the token lacks';
    throw new DqError('forbidden', `${whose} the scope ${scope}; add it`);
  }
}

/** A machine calls itself from the address that it calls. */
export function isThisMachine({
  remoteAddress,
  localAddress,
}: Pick<Socket, 'remoteAddress' | 'localAddress'>): boolean {
  const caller = parseAddress(remoteAddress ?? '');
  return caller !== null && (caller.range() === 'loopback' || remoteAddress === localAddress);
}
