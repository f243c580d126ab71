// Who calls (http-api.md, "Access"); what a caller may do is declared with each route. With the first token every request needs
// one. While none exists, dq answers anybody on this machine, and the only strangers who get there are web pages in a browser
// of that machine: they send an Origin, or a Host name of their own that resolves here.
// Judges headers only; never logs or echoes a credential.

import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import { DqError, invalidField } from '../../core/errors.ts';
import { allRights, digestOf, isSameDigest, noRights, ownerRights, type Rights } from '../../core/token.ts';
import type { TokenBook } from '../../registry/token-book.ts';

export interface AccessOptions {
  /** of this start, for the command line; does not count as a token that exists */
  readonly adminToken: string;
  readonly tokens: Pick<TokenBook, 'count' | 'rightsOf'>;
  /** Whether callers without a token are served while none exists. False where other machines reach dq and nobody said
   *  --no-auth: removing the last token must not open the door to them. */
  readonly servesStrangers: boolean;
}

/** These say whether dq lives, also to monitors that hold no token. How much they say depends on the rights. */
const open = /^\/(livez|readyz)(\?|$)/;
/** Origin form, visible ASCII; a `#` never leaves a browser, and everything else has to be percent-encoded. */
const target = /^\/[\x21\x22\x24-\x7e]*$/;

export class Access {
  readonly #options: AccessOptions;
  readonly #adminDigest: Buffer;
  /** The last Host that was good: nearly always the same one. */
  #knownHost = '';

  constructor(options: AccessOptions) {
    this.#options = options;
    this.#adminDigest = digestOf(options.adminToken);
  }

  /** The caller's rights, or why the request may not pass. */
  admit(request: IncomingMessage): Rights | DqError {
    const url = request.url ?? '';
    if (!target.test(url))
      return invalidField('path', 'must begin with / and have everything but visible ASCII percent-encoded');
    const repeated = repeatedHeader(request.rawHeaders);
    if (repeated !== null) return invalidField(repeated, 'is given twice');
    const { host, origin, authorization } = request.headers;
    // Browsers always send one; health checks of HTTP/1.0 do not.
    if (host === undefined && request.httpVersion !== '1.0') return invalidField('host', 'is needed');
    const strangers = this.#options.servesStrangers && this.#options.tokens.count === 0;
    if (strangers) {
      if (origin !== undefined) return fromWebPage('a request with an Origin header');
      if (!this.#isDirect(host)) return fromWebPage('a Host that is neither an IP address nor localhost');
    }
    const admitted = this.#judge(authorization, request.method, strangers);
    return admitted instanceof DqError && open.test(url) ? noRights : admitted;
  }

  #judge(
    authorization: string | undefined,
    method: string | undefined,
    servesAnybody: boolean,
  ): Rights | DqError {
    if (authorization !== undefined) return this.#rightsOf(authorization, method);
    if (servesAnybody) return allRights;
    if (this.#options.servesStrangers && this.#options.tokens.count === null) return unknown(method);
    return new DqError('unauthorized', 'an access token is needed: Authorization: Bearer dqk_…');
  }

  #rightsOf(authorization: string, method: string | undefined): Rights | DqError {
    const token = /^bearer +(\S+) *$/i.exec(authorization)?.[1];
    if (token !== undefined) {
      const digest = digestOf(token);
      if (isSameDigest(digest, this.#adminDigest)) return ownerRights;
      const rights = this.#options.tokens.rightsOf(token, digest);
      if (rights !== null) return rights;
    }
    if (this.#options.tokens.count === null) return unknown(method);
    return new DqError('unauthorized', 'the Authorization header carries no token of this daemon');
  }

  #isDirect(host: string | undefined): boolean {
    if (host === undefined || host === this.#knownHost) return true;
    if (!isDirect(host)) return false;
    this.#knownHost = host;
    return true;
  }
}

/** Of these Node keeps the first; a proxy may have judged the last. */
const once: readonly string[] = ['host', 'authorization', 'content-type'];
const onceLengths: readonly boolean[] = Array.from({ length: 14 }, (_, length) =>
  once.some((name) => name.length === length),
);

/** `raw`: names in turn with their values. */
function repeatedHeader(raw: readonly string[]): string | null {
  let seen = 0;
  for (let n = 0; n < raw.length; n += 2) {
    const name = raw[n] ?? '';
    // Most names are told apart by their length; writing each in small letters would cost more than the rest of this.
    if (onceLengths[name.length] !== true) continue;
    const index = once.indexOf(name.toLowerCase());
    if (index < 0) continue;
    if ((seen & (1 << index)) !== 0) return once[index] ?? null;
    seen |= 1 << index;
  }
  return null;
}

function isDirect(host: string): boolean {
  const name = host.replace(/:\d{0,5}$/, '');
  if (name.startsWith('[') && name.endsWith(']')) return isIP(name.slice(1, -1)) === 6;
  return isIP(name) === 4 || name.toLowerCase() === 'localhost';
}

/** Whether the caller may is not known yet: nothing was done. */
function unknown(method: string | undefined): DqError {
  const code = method === 'GET' ? 'unavailable' : 'not_stored';
  return new DqError(code, 'the access tokens cannot be read now; try again');
}

function fromWebPage(what: string): DqError {
  return new DqError(
    'forbidden',
    `while no token exists, ${what} is refused: any web page open on this machine could send it`,
  );
}
