// Who may call (http-api.md, "Access"). While no token exists, dq answers anybody on this machine, and the only strangers who
// get there are web pages in a browser of that machine: they send an Origin, or a Host name of their own that resolves here.
// Judges headers only; never logs or echoes a credential.

import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import { DqError, invalidField } from '../core/errors.ts';

/** These say whether dq lives, to monitors that hold no token. */
const open = /^\/(livez|readyz)(\?|$)/;
/** Origin form, visible ASCII; a `#` never leaves a browser, and everything else has to be percent-encoded. */
const target = /^\/[\x21\x22\x24-\x7e]*$/;

export class Access {
  readonly #adminDigest: Buffer;
  /** The last Host that was good: nearly always the same one. */
  #knownHost = '';

  constructor(adminToken: string) {
    this.#adminDigest = digest(adminToken);
  }

  /** null = may pass. */
  refuses(request: IncomingMessage): DqError | null {
    const url = request.url ?? '';
    if (!target.test(url))
      return invalidField('path', 'must begin with / and have everything but visible ASCII percent-encoded');
    const { host, origin, authorization } = request.headers;
    if (origin !== undefined) return forbidden('a request with an Origin header');
    if (host !== this.#knownHost) {
      // Browsers always send one; health checks of HTTP/1.0 do not.
      if (host === undefined && request.httpVersion !== '1.0') return invalidField('host', 'is needed');
      if (host !== undefined && !isDirect(host))
        return forbidden('a Host that is neither an IP address nor localhost');
      this.#knownHost = host ?? '';
    }
    if (authorization !== undefined && !open.test(url) && !this.#isAdmin(authorization))
      return new DqError('unauthorized', 'the Authorization header carries no token of this daemon');
    return null;
  }

  #isAdmin(authorization: string): boolean {
    const token = /^bearer +(\S+) *$/i.exec(authorization)?.[1];
    // Digests have one length, so the comparison tells nothing about the token.
    return token !== undefined && timingSafeEqual(digest(token), this.#adminDigest);
  }
}

function digest(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}

function isDirect(host: string): boolean {
  const name = host.replace(/:\d{0,5}$/, '');
  if (name.startsWith('[') && name.endsWith(']')) return isIP(name.slice(1, -1)) === 6;
  return isIP(name) === 4 || name.toLowerCase() === 'localhost';
}

function forbidden(what: string): DqError {
  return new DqError(
    'forbidden',
    `while no token exists, ${what} is refused: any web page open on this machine could send it`,
  );
}
