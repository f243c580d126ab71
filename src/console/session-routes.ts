// POST /v1/session begins a session of the console with a link or an access token; without either only on
// this machine while no access token exists. DELETE /v1/session ends it. One reply shows the key, and one
// header the cookie; dq stores their digests.

import type { IncomingMessage } from 'node:http';
import type { Api } from '../api/api-context.ts';
import { auditNote } from '../api/audit-trail.ts';
import type { Config } from '../config/options.ts';
import { signInSchema, signOutSchema } from '../contract/api/access.ts';
import { DqError, invalidField } from '../core/errors.ts';
import { isJsonType } from '../core/json-text.ts';
import {
  browserOf,
  digestHalves,
  linkDigestOf,
  makeSessionHalves,
  type SessionRecord,
} from '../core/session.ts';
import { allRights, type Caller, digestOf, type Rights, tokenIdOf } from '../core/token.ts';
import type { Registry } from '../ports/registry.ts';
import { endOf, type SessionBook } from '../registry/session-book.ts';
import type { TokenBook } from '../registry/token-book.ts';
import { monotonicNow } from '../runtime/time.ts';
import { consoleLimits } from './limits.ts';
import type { SessionAccess } from './session-access.ts';

export interface SessionRoutesOptions {
  readonly config: Config;
  readonly registry: Registry;
  readonly tokens: TokenBook;
  readonly sessions: SessionBook;
  readonly access: SessionAccess;
  readonly failures: SignInFailures;
  readonly now: () => number;
}

/** What a caller presented, and what it may do. */
type Presented = Rights & Pick<SessionRecord, 'name' | 'tokenId' | 'signedInBy'>;

export function sessionRoutes(api: Api, options: SessionRoutesOptions): void {
  const { config, registry, tokens, sessions, access, failures, now } = options;

  api.post(
    '/v1/session',
    { schema: signInSchema, config: { access: 'open', audit: true } },
    async (request, answer) => {
      // Without it a browser sends a body of another page without asking.
      if (!isJsonType(request.headers['content-type']))
        throw new DqError('unsupported_media_type', "content-type: send -H 'content-type: application/json'");
      const { raw } = request;
      const address = raw.socket.remoteAddress ?? '';
      const { link, token } = request.body;
      if (link !== undefined && token !== undefined)
        throw invalidField('token', 'give link or token, not both');
      const check = () => present(options, { link, token });
      const known = token === undefined ? null : tokens.rightsOf(token, digestOf(token));
      // A known token asks nothing of the registry, and waits for no turn.
      const presented: Presented | DqError =
        known !== null
          ? { ...known, signedInBy: 'token' }
          : await ((link ?? token) === undefined ? check() : counted(failures, address, check));
      if (presented instanceof DqError) {
        if (isFailure(presented) && (link ?? token) !== undefined) {
          // The secret that was presented is never recorded.
          const filter = { signedInBy: link === undefined ? 'token' : 'link' };
          if (failures.mayRecord()) auditNote(request, { actor: '', always: true, detail: { filter } });
        }
        throw presented;
      }
      const { id, cookie, key } = makeSessionHalves();
      const at = now();
      const { name, scopes: granted, topics, tokenId, signedInBy } = presented;
      auditNote(request, { actor: name, detail: { filter: { signedInBy, session: id } } });
      const session: SessionRecord = {
        id,
        ...digestHalves(cookie, key),
        name,
        scopes: granted,
        topics,
        tokenId,
        signedInBy,
        address,
        browser: browserOf(raw.headers['user-agent'] ?? ''),
        createdAt: at,
        usedAt: at,
        endsAt: at + config['console.sessionMax'],
      };
      await registry.createSession(session);
      await endPrevious(options, raw);
      await refresh(sessions);
      return answer.header('set-cookie', access.setCookie(cookie)).send({
        key,
        name,
        scopes: [...granted],
        topics: [...topics],
        endsAt: new Date(endOf(session, at, config['console.sessionIdle'])).toISOString(),
      });
    },
  );

  api.delete(
    '/v1/session',
    { schema: signOutSchema, config: { access: 'known', audit: true } },
    async (request, answer) => {
      const session = access.sessionOf(request.raw);
      if (session !== null) await registry.removeSessions(session.id);
      await refresh(sessions);
      return answer.header('set-cookie', access.setCookie('')).send({ deleted: true });
    },
  );
}

const isFailure = ({ code }: DqError): boolean => code === 'unauthorized' || code === 'too_many_sign_ins';

/** Checks a secret. Only failures are limited: other users may have the same address. */
async function counted(
  failures: SignInFailures,
  address: string,
  check: () => Promise<Presented | DqError>,
): Promise<Presented | DqError> {
  const isTooMany = failures.begin(address);
  const presented = await (isTooMany ? failures.inTurn(check) : check());
  if (presented === null || (isTooMany && presented instanceof DqError && isFailure(presented)))
    return new DqError(
      'too_many_sign_ins',
      presented === null
        ? 'too many sign-ins wait for their check; send it again: a link that was not checked still works'
        : 'unknown, used or too old, and too many failed sign-ins from your address; a valid link or token signs in',
    );
  if (!(presented instanceof DqError && isFailure(presented))) failures.takeBack(address);
  return presented;
}

async function present(
  { registry, tokens, access, now }: SessionRoutesOptions,
  { link, token }: { readonly link?: string | undefined; readonly token?: string | undefined },
): Promise<Presented | DqError> {
  if (link !== undefined) {
    const digest = linkDigestOf(link);
    const found = digest === null ? null : await registry.takeSignInLink(digest, now());
    // Its token may be younger than the last refresh.
    if (found !== null && found.tokenId !== null && !tokens.mayExist(found.tokenId))
      await tokens.refresh().catch(() => undefined);
    if (found !== null && (found.tokenId === null || tokens.mayExist(found.tokenId)))
      return { ...found, signedInBy: 'link' };
    return new DqError('unauthorized', 'link: unknown, used or too old; run dq console again');
  }
  if (token !== undefined) {
    const caller = await callerOf(token, tokens);
    if (caller !== null) return { ...caller, signedInBy: 'token' };
    if (tokens.count === null) return tokensUnknown();
    return new DqError('unauthorized', 'token: unknown or expired; paste an access token (dqk_…)');
  }
  const { needsNoSignIn } = access;
  if (needsNoSignIn === null) return tokensUnknown();
  if (needsNoSignIn) return { ...allRights, signedInBy: 'machine' };
  return new DqError('unauthorized', 'sign in with dq console on the machine of the daemon, or with a token');
}

/** A token may be younger than the last refresh. */
async function callerOf(token: string, tokens: TokenBook): Promise<Caller | null> {
  const digest = digestOf(token);
  const known = tokens.rightsOf(token, digest);
  if (known !== null || tokenIdOf(token) === null) return known;
  // Without the registry the known tokens decide.
  await tokens.refresh().catch(() => undefined);
  return tokens.rightsOf(token, digest);
}

function tokensUnknown(): DqError {
  return new DqError('not_stored', 'cannot read the access tokens; send the request again');
}

/** A browser that signs in again has no use for its earlier session. */
async function endPrevious({ access, registry }: SessionRoutesOptions, raw: IncomingMessage): Promise<void> {
  const previous = access.sessionOf(raw);
  // It ends by itself otherwise.
  if (previous !== null) await registry.removeSessions(previous.id).catch(() => undefined);
}

/** The change is stored; that this process reads it late is not a failure of the call. */
async function refresh(sessions: SessionBook): Promise<void> {
  await sessions.refresh().catch(() => undefined);
}

/** Counts failed sign-ins per address and minute. Nothing is locked: all users behind a proxy share its
 *  address, so a valid secret signs in whatever the count is. The count bounds what failures cost: above it,
 *  secrets are checked one after the other. */
export class SignInFailures {
  readonly #now: () => number;
  /** by address: failures, and sign-ins that are being checked */
  readonly #counts = new Map<string, number>();
  #minute = 0;
  #recorded = 0;
  #waiting = 0;
  #last: Promise<unknown> = Promise.resolve();

  /** `now`: ms of a monotonic clock */
  constructor(now: () => number = () => monotonicNow()) {
    this.#now = now;
  }

  /** Counts a sign-in as failed until takeBack(): many at once count too. Returns whether its
   *  address has too many. */
  begin(address: string): boolean {
    this.#turn();
    // Secrets have 256 bits: forgetting counts helps no guess.
    if (this.#counts.size >= consoleLimits.signInAddressesMax) this.#counts.clear();
    const count = (this.#counts.get(address) ?? 0) + 1;
    this.#counts.set(address, count);
    return count > consoleLimits.failedSignInsPerMinute;
  }

  /** Called for each begun sign-in that did not fail by its secret. */
  takeBack(address: string): void {
    this.#turn();
    const count = this.#counts.get(address) ?? 0;
    if (count > 1) this.#counts.set(address, count - 1);
    else this.#counts.delete(address);
  }

  /** Runs the checks of addresses with too many failures one after the other: each may ask the registry,
   *  which also serves jobs. null: too many wait. */
  async inTurn<T>(check: () => Promise<T>): Promise<T | null> {
    if (this.#waiting >= consoleLimits.signInsWaitingMax) return null;
    this.#waiting += 1;
    const turn = this.#last.then(check).finally(() => {
      this.#waiting -= 1;
    });
    this.#last = turn.catch(() => undefined);
    return turn;
  }

  /** Whether the audit log has space for a further failure of this minute. */
  mayRecord(): boolean {
    this.#turn();
    this.#recorded += 1;
    return this.#recorded <= consoleLimits.failedSignInsRecorded;
  }

  #turn(): void {
    const minute = Math.floor(this.#now() / 60_000);
    if (minute === this.#minute) return;
    this.#minute = minute;
    this.#counts.clear();
    this.#recorded = 0;
  }
}
