// CompatAccess decides which addresses may call the ports for clients of other queues, and what they may do.
// Their protocols have no credentials: the address identifies the caller.

import type { Socket } from 'node:net';
import type { Config } from '../../config/options.ts';
import { DqError } from '../../core/errors.ts';
import { type Address, parseAddress, type Range, rangeOf, within } from '../../core/ip-range.ts';
import { grants, type Rights, reaches, type Scope } from '../../core/token.ts';
import type { TokenBook } from '../../registry/token-book.ts';

export class CompatAccess {
  readonly #allow: readonly Range[];
  readonly #noAuth: boolean;
  readonly #tokens: Pick<TokenBook, 'count'>;
  readonly #rights: Rights;

  constructor(config: Config, tokens: Pick<TokenBook, 'count'>) {
    this.#allow = config['compat.allow'].map(rangeOf);
    this.#noAuth = config.noAuth;
    this.#tokens = tokens;
    // The configuration has checked the names of the scopes.
    this.#rights = { scopes: config['compat.scopes'] as readonly Scope[], topics: config['compat.topics'] };
  }

  /** null = this caller is served, else the reason. */
  refuses({ remoteAddress, localAddress }: Pick<Socket, 'remoteAddress' | 'localAddress'>): string | null {
    const caller = parseAddress(remoteAddress ?? '');
    // The client has left.
    if (caller === null) return 'the connection has no address';
    if (this.#allow.length > 0)
      return within(caller, this.#allow) ? null : `${caller} is not in compat.allow`;
    // A machine calls itself from the address that it calls.
    if (isLoopback(caller) || remoteAddress === localAddress) return null;
    if (this.#noAuth && this.#tokens.count === 0) return null;
    return `${caller} is another machine; add it to compat.allow`;
  }

  /** Throws DqError forbidden. */
  require(scope: Scope, topic: string): void {
    if (!grants(this.#rights, scope))
      throw new DqError('forbidden', `compat.scopes lacks the scope ${scope}; add it`);
    if (!reaches(this.#rights, topic))
      throw new DqError('forbidden', `compat.topics does not cover the topic ${JSON.stringify(topic)}`);
  }
}

function isLoopback(address: Address): boolean {
  return address.range() === 'loopback';
}
