// Access authenticates requests by their headers; route-access.ts authorizes them. Once a token exists, every
// request needs one. While no token exists, dq serves every program of this machine, but no web page in a
// browser there: a page's request carries an Origin, or a Host name that the page's owner resolved to this
// machine. Never logs or echoes a credential.

import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import { DqError, invalidField } from '../../core/errors.ts';
import { allRights, type Caller, digestOf, isSameDigest, noRights, ownerRights } from '../../core/token.ts';
import type { TokenBook } from '../../registry/token-book.ts';
import { isRead } from './request-head.ts';

/** What admission reads of a request. */
export type RequestHead = Pick<IncomingMessage, 'method' | 'url' | 'headers' | 'rawHeaders' | 'httpVersion'>;

export interface AccessOptions {
  /** token of this start, for the command line; not counted in tokens.count */
  readonly adminToken: string;
  readonly tokens: Pick<TokenBook, 'count' | 'rightsOf'>;
  /** serve callers without a token while no token exists. False where other machines reach dq without
   *  --no-auth: removing the last token must not admit them */
  readonly servesStrangers: boolean;
}

const open = /^\/(livez|readyz)(\?|$)/;
/** Origin form, visible ASCII without `#` (a browser never sends it); other characters must be
 *  percent-encoded. */
const target = /^\/[\x21\x22\x24-\x7e]*$/;

export class Access {
  readonly #options: AccessOptions;
  readonly #adminDigest: Buffer;
  /** the last Host that was accepted: nearly always the same one */
  #knownHost = '';

  constructor(options: AccessOptions) {
    this.#options = options;
    this.#adminDigest = digestOf(options.adminToken);
  }

  /** The caller's rights, or the reason to reject the request. */
  admit(request: RequestHead): Caller | DqError {
    const malformed = malformedHead(request);
    if (malformed !== null) return malformed;
    const { host, origin, authorization } = request.headers;
    const needsNoToken = this.#options.servesStrangers && this.#options.tokens.count === 0;
    if (needsNoToken) {
      if (origin !== undefined) return fromWebPage('a request with an Origin header');
      if (!this.#isDirect(host)) return fromWebPage('a Host that is neither an IP address nor localhost');
    }
    const rights = this.#authenticate(authorization, request.method, needsNoToken);
    return rights instanceof DqError && isOpen(request) ? noRights : rights;
  }

  #authenticate(
    authorization: string | undefined,
    method: string | undefined,
    needsNoToken: boolean,
  ): Caller | DqError {
    if (authorization !== undefined) return this.#rightsOf(authorization, method);
    if (needsNoToken) return allRights;
    if (this.#options.servesStrangers && this.#options.tokens.count === null)
      return tokensUnavailable(method);
    return new DqError('unauthorized', 'authorization: is required; send Authorization: Bearer dqk_…');
  }

  #rightsOf(authorization: string, method: string | undefined): Caller | DqError {
    const token = bearerTokenOf(authorization);
    if (token === null) return notBearer();
    const digest = digestOf(token);
    if (isSameDigest(digest, this.#adminDigest)) return ownerRights;
    const rights = this.#options.tokens.rightsOf(token, digest);
    if (rights !== null) return rights;
    if (this.#options.tokens.count === null) return tokensUnavailable(method);
    return new DqError(
      'unauthorized',
      'authorization: unknown or expired token; send Authorization: Bearer dqk_…',
    );
  }

  #isDirect(host: string | undefined): boolean {
    if (host === undefined || host === this.#knownHost) return true;
    if (!isDirect(host)) return false;
    this.#knownHost = host;
    return true;
  }
}

/** Of an Authorization header; null: it has another scheme, or no token. */
export function bearerTokenOf(authorization: string): string | null {
  return /^bearer +(\S+) *$/i.exec(authorization)?.[1] ?? null;
}

/** Of a header without the scheme, which clients forget most often, with another one, or without a token. */
export const notBearer = (): DqError =>
  new DqError(
    'unauthorized',
    'authorization: must be the word Bearer, a blank and a token; send Authorization: Bearer dqk_…',
  );

/** Open to monitors without a token; how much they answer depends on the caller's rights. */
export function isOpen({ url = '' }: RequestHead): boolean {
  return open.test(url);
}

/** The reason to reject a request whose meaning could be read in two ways; null = there is none. */
export function malformedHead({ url = '', rawHeaders, headers, httpVersion }: RequestHead): DqError | null {
  if (!target.test(url))
    return invalidField('path', 'must begin with /; percent-encode all but visible ASCII characters');
  const repeated = repeatedHeader(rawHeaders);
  if (repeated !== null) return invalidField(repeated, 'given twice; give it once');
  // Browsers always send a Host; HTTP/1.0 health checks do not.
  if (headers.host === undefined && httpVersion !== '1.0') return invalidField('host', 'is required');
  return null;
}

/** Node keeps the first of these; a proxy may have checked the last. */
const once: readonly string[] = ['host', 'authorization', 'content-type'];
const onceLengths: readonly boolean[] = Array.from({ length: 14 }, (_, length) =>
  once.some((name) => name.length === length),
);

/** The name that is given twice, or null. `raw`: name, value, name, value … */
function repeatedHeader(raw: readonly string[]): string | null {
  let seen = 0;
  for (let n = 0; n < raw.length; n += 2) {
    const name = raw[n] ?? '';
    // The length excludes most names; toLowerCase for each would cost more than the rest of this loop.
    if (onceLengths[name.length] !== true) continue;
    const index = once.indexOf(name.toLowerCase());
    if (index < 0) continue;
    if ((seen & (1 << index)) !== 0) return once[index] ?? null;
    seen |= 1 << index;
  }
  return null;
}

/** Whether a Host is an address or localhost, not a name that the owner of a web page could have resolved to
 *  this machine. */
export function isDirect(host: string): boolean {
  const name = host.replace(/:\d{0,5}$/, '');
  if (name.startsWith('[') && name.endsWith(']')) return isIP(name.slice(1, -1)) === 6;
  return isIP(name) === 4 || name.toLowerCase() === 'localhost';
}

/** The tokens are not read yet, so the caller's rights are unknown; the request had no effect. */
function tokensUnavailable(method: string | undefined): DqError {
  const code = isRead(method) ? 'unavailable' : 'not_stored';
  return new DqError(code, 'cannot read the access tokens; send the request again');
}

function fromWebPage(what: string): DqError {
  return new DqError(
    'forbidden',
    `while no token exists, dq rejects ${what}: any web page open on this machine could send it; make a token`,
  );
}
