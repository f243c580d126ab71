// Who may call (http-api.md, "Access"). While no token exists, dq answers anybody on this machine, and the only strangers who
// get there are web pages in a browser of that machine: they send an Origin, or a Host name of their own that resolves here.
// Judges headers only; never logs or echoes a credential.

import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import { DqError, invalidField } from '../core/errors.ts';
import { allRights, digestOf, isSameDigest, type Rights } from '../core/token.ts';

/** These say whether dq lives, to monitors that hold no token. */
const open = /^\/(livez|readyz)(\?|$)/;
/** Origin form, visible ASCII; a `#` never leaves a browser, and everything else has to be percent-encoded. */
const target = /^\/[\x21\x22\x24-\x7e]*$/;

export class Access {
  readonly #adminDigest: Buffer;
  /** The last Host that was good: nearly always the same one. */
  #knownHost = '';

  constructor(adminToken: string) {
    this.#adminDigest = digestOf(adminToken);
  }

  /** The caller's rights, or why the request may not pass. */
  admit(request: IncomingMessage): Rights | DqError {
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
    return allRights;
  }

  #isAdmin(authorization: string): boolean {
    const token = /^bearer +(\S+) *$/i.exec(authorization)?.[1];
    return token !== undefined && isSameDigest(digestOf(token), this.#adminDigest);
  }
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
