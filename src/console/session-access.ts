// SessionAccess decides who may call the API through the console's port: sessions, and no tokens. A request
// needs both halves of its session: the cookie, which every port of this host receives, and the header
// x-dq-key, which a page of another origin cannot send. Never logs or echoes a half.

import { isDirect, isOpen, malformedHead, type RequestHead } from '../api/http/access.ts';
import { isRead } from '../api/http/request-head.ts';
import type { Config } from '../config/options.ts';
import { DqError } from '../core/errors.ts';
import { halfDigestOf, readOnlyRights, type SessionRecord } from '../core/session.ts';
import { type Caller, noRights } from '../core/token.ts';
import { parsePublicUrl } from '../core/url/server-url.ts';
import { servesThisMachine } from '../process/exposure.ts';
import type { SessionBook } from '../registry/session-book.ts';
import type { TokenBook } from '../registry/token-book.ts';

export interface SessionAccessOptions {
  readonly config: Config;
  readonly tokens: Pick<TokenBook, 'count'>;
  readonly sessions: Pick<SessionBook, 'find' | 'isKnown' | 'registryId'>;
}

const signIn = /^\/v1\/session(?:\?|$)/;

export class SessionAccess {
  /** port of the console, once it listens: cookies of two daemons of one host differ by it */
  port = 0;
  readonly #options: SessionAccessOptions;
  /** of console.publicUrl; null = not set */
  readonly #publicOrigin: string | null;
  readonly #isHttps: boolean;
  readonly #servesThisMachine: boolean;

  constructor(options: SessionAccessOptions) {
    const { config } = options;
    const publicUrl = parsePublicUrl(config['console.publicUrl']);
    this.#options = options;
    this.#publicOrigin = publicUrl.ok ? publicUrl.value.origin : null;
    this.#isHttps = publicUrl.ok && publicUrl.value.isHttps;
    this.#servesThisMachine = servesThisMachine(config);
  }

  /** The rights of the caller's session, or the reason to reject the request. */
  admit(request: RequestHead): Caller | DqError {
    const malformed = malformedHead(request);
    if (malformed !== null) return malformed;
    // A proxy may add its own Basic credentials.
    if (/^bearer\b/i.test(request.headers.authorization ?? ''))
      return new DqError('forbidden', `authorization: the console takes no token; ${this.#otherPort}`);
    const foreign = this.#whyForeign(request);
    if (foreign !== null) return new DqError('forbidden', foreign);
    // The handler checks what the caller presents.
    if (request.method === 'POST' && signIn.test(request.url ?? '')) return noRights;
    const session = this.sessionOf(request);
    if (session !== null) return this.#callerOf(session);
    if (isOpen(request)) return noRights;
    if (!this.#options.sessions.isKnown)
      return new DqError(
        isRead(request.method) ? 'unavailable' : 'not_stored',
        'cannot read the sessions; send the request again',
      );
    // A page sends its key once it has one: the caller is a program, or a page that has not signed in.
    const hint = request.headers['x-dq-key'] === undefined ? `; ${this.#otherPort}` : '';
    return new DqError('unauthorized', `session: missing or ended; sign in again${hint}`);
  }

  /** For a caller of the API that uses the console's port. */
  get #otherPort(): string {
    const port = this.#options.config['server.port'];
    const place = port === 0 ? 'the address that dq status prints' : `port ${port}`;
    return `this is the port of the console, and the API is at ${place}`;
  }

  /** null = the request has no session that is in force. */
  sessionOf({ headers }: RequestHead): SessionRecord | null {
    const name = this.#cookieName;
    const keyHeader = headers['x-dq-key'];
    const key = halfDigestOf(typeof keyHeader === 'string' ? keyHeader : undefined);
    if (name === null || key === null) return null;
    for (const value of cookiesIn(headers.cookie, name)) {
      const cookie = halfDigestOf(value);
      const session = cookie === null ? null : this.#options.sessions.find(cookie, key);
      if (session !== null) return session;
    }
    return null;
  }

  /** Whether this machine gets a session without a sign-in; null = the tokens are not known. */
  get needsNoSignIn(): boolean | null {
    const { count } = this.#options.tokens;
    if (!this.#servesThisMachine) return false;
    return count === null ? null : count === 0;
  }

  /** The header that gives the browser its half; '' ends it. Throws not_stored while the registry is not
   *  known. */
  setCookie(value: string): string {
    const name = this.#cookieName;
    if (name === null) throw new DqError('not_stored', 'cannot read the registry; sign in again');
    const seconds = value === '' ? 0 : Math.floor(this.#options.config['console.sessionMax'] / 1_000);
    return [
      `${name}=${value}`,
      'Path=/',
      `Max-Age=${seconds}`,
      'HttpOnly',
      'SameSite=Strict',
      ...(this.#isHttps ? ['Secure'] : []),
    ].join('; ');
  }

  /** By registry, too: by ssh the ports of two daemons become ports of one host, and a browser would send
   *  each the cookie of the other. Equal for all instances of a registry. */
  get #cookieName(): string | null {
    const { registryId } = this.#options.sessions;
    if (registryId === null) return null;
    return `${this.#isHttps ? '__Host-' : ''}dq_console_${this.port}_${registryId.slice(0, 6)}`;
  }

  /** Why the request may come from a page of another origin; null = it does not. */
  #whyForeign({ headers }: RequestHead): string | null {
    const { host, origin } = headers;
    const site = headers['sec-fetch-site'];
    const own = this.#publicOrigin ?? `http://${host}`;
    if (origin !== undefined && origin !== own)
      return 'origin: not the one of this console; behind a proxy set console.publicUrl';
    if (site !== undefined && site !== 'same-origin') return 'sec-fetch-site: must be same-origin';
    if (this.needsNoSignIn !== false && host !== undefined && !isDirect(host))
      return 'host: while no access token exists, must be an IP address or localhost; make a token';
    return null;
  }

  #callerOf(session: SessionRecord): Caller {
    const { id, name, tokenId, signedInBy } = session;
    const { scopes, topics } = this.#options.config['console.readOnly'] ? readOnlyRights(session) : session;
    const kind = { machine: { isThisMachine: true }, link: { isByLink: true }, token: {} } as const;
    return { name, tokenId, scopes, topics, sessionId: id, ...kind[signedInBy] };
  }
}

/** Several: a server on another port of this host can set a cookie of the same name, with a longer path,
 *  and a browser sends that one first. */
function cookiesIn(header: string | undefined, name: string): readonly string[] {
  const start = `${name}=`;
  const pairs = header?.split(/; */).filter((part) => part.startsWith(start)) ?? [];
  return pairs.map((pair) => pair.slice(start.length));
}
