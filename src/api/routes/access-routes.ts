// Access, and the record of changes. GET /v1/me answers who the caller is, what it may do, and the facts
// about this daemon that a page needs first. Sign-in links and sessions of the console: a link is made here
// and exchanged on the console's port. A link never has more rights than its maker, and ends with the token
// of its maker. /v1/tokens: one reply shows the token, once; dq stores its digest. A caller whose token
// covers some topics only may do nothing there: it could make itself a token for all of them.

import { hostname } from 'node:os';
import {
  auditSchema,
  createSignInLinkSchema,
  createTokenSchema,
  listSessionsSchema,
  listTokensSchema,
  meSchema,
  removeSessionSchema,
  removeSessionsSchema,
  removeTokenSchema,
} from '../../contract/api/access.ts';
import { contractLimits } from '../../contract/api/limits.ts';
import { type AuditEntry, auditIdPattern, difference } from '../../core/audit.ts';
import { brokersOf } from '../../core/broker.ts';
import { formatInstant, formatInstantOrNull } from '../../core/duration.ts';
import { DqError, invalidField } from '../../core/errors.ts';
import { limits } from '../../core/limits.ts';
import { linkDigestOf, makeSignInLink, type SessionRecord } from '../../core/session.ts';
import {
  coversGlob,
  everyTopic,
  grants,
  reaches,
  reachesEveryTopic,
  type TokenRecord,
} from '../../core/token.ts';
import { servesThisMachine } from '../../process/exposure.ts';
import { endOf, hasEnded } from '../../registry/session-book.ts';
import { urlOfHost } from '../../runtime/listen.ts';
import { wallNow } from '../../runtime/time.ts';
import { addToken, readTokenLifetime } from '../../use-cases/add-token.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { auditNote } from '../audit-trail.ts';
import { invalidCursor, readInstant, readLimit } from '../http/request-head.ts';
import { needs, requireTopic, rightsOf } from '../http/route-access.ts';

export function sessionRoutes(api: Api, context: ApiContext): void {
  const { registry, config } = context.role;
  const rules = {
    tokens: context.tokens,
    idleMs: config['console.sessionIdle'],
    servesThisMachine: servesThisMachine(config),
  };
  const admin = needs('admin', 'every');

  meRoute(api, context);

  api.post(
    '/v1/sign-in-links',
    { schema: createSignInLinkSchema, config: { access: 'known', audit: true } },
    async (request, answer) => {
      const caller = rightsOf(request);
      // What admits them ends with the first token; a session by their link would not.
      if (caller.isThisMachine === true)
        throw new DqError('forbidden', 'while no access token exists, no link is needed; use dq console');
      // Each further link would begin a session that outlives the first one, without end.
      if (caller.isByLink === true)
        throw new DqError(
          'forbidden',
          'a session of a link makes no further links; use dq console or a token',
        );
      const { name = caller.name, scopes = caller.scopes, topics = caller.topics } = request.body;
      const scope = scopes.find((one) => !grants(caller, one));
      if (scope !== undefined)
        throw new DqError('forbidden', `scopes: this token lacks ${scope}; leave it out`);
      const glob = topics.find((one) => !coversGlob(caller, one));
      if (glob !== undefined)
        throw new DqError(
          'forbidden',
          `topics: this token does not cover ${JSON.stringify(glob)}; leave it out`,
        );
      if (scopes.length === 0 || topics.length === 0) throw invalidField('scopes', 'needs at least one');
      auditNote(request, { detail: { changes: difference(null, { name, scopes, topics }) } });
      const link = makeSignInLink();
      const now = wallNow();
      const endsAt = now + limits.signInLinkMs;
      const digest = linkDigestOf(link) as string;
      await registry.createSignInLink({ digest, name, scopes, topics, tokenId: caller.tokenId, endsAt }, now);
      return answer.code(201).send({
        name,
        scopes: [...scopes],
        topics: [...topics],
        link,
        publicUrl: config['console.publicUrl'] || null,
        endsAt: formatInstant(endsAt),
      });
    },
  );

  api.get('/v1/sessions', { schema: listSessionsSchema, config: admin }, async (request) => {
    const { sessionId } = rightsOf(request);
    const { sessions } = await registry.sessions(-1);
    const now = wallNow();
    const living = (sessions ?? []).filter((session) => !hasEnded(session, session.usedAt, rules, now));
    return { items: living.map((session) => sessionJson(session, rules.idleMs, sessionId)) };
  });

  api.delete('/v1/sessions/:id', { schema: removeSessionSchema, config: admin }, async (request) => {
    const { id } = request.params;
    if (!/^[0-9a-f]{12}$/.test(id) || (await registry.removeSessions(id)) === 'absent')
      throw new DqError('session_not_found', `there is no session ${JSON.stringify(id)}`);
    return { deleted: true };
  });

  api.delete('/v1/sessions', { schema: removeSessionsSchema, config: admin }, async (request) => {
    if (request.query.all === undefined) throw invalidField('all', 'is required: write ?all=true');
    await registry.removeSessions(null);
    return { deleted: true };
  });
}

/** `own`: id of the session that asks. */
function sessionJson(session: SessionRecord, idleMs: number, own: string | undefined) {
  const { id, name, scopes, topics, signedInBy, address, browser, createdAt, usedAt } = session;
  return {
    id,
    name,
    scopes,
    topics,
    signedInBy,
    address,
    browser,
    isOwn: id === own,
    createdAt: formatInstant(createdAt),
    usedAt: formatInstant(usedAt),
    endsAt: formatInstant(endOf(session, usedAt, idleMs)),
  };
}

function meRoute(api: Api, { role, tokens, isReadOnly = false }: ApiContext): void {
  const { config, version, clock } = role;
  const host = hostname();
  const port = config['server.port'];
  const brokers = Array.from(brokersOf(config.brokers).values(), ({ name, type }) => ({ name, type }));
  api.get('/v1/me', { schema: meSchema, config: { access: 'known' } }, async (request) => {
    const rights = rightsOf(request);
    const { name, scopes, topics } = rights;
    return {
      name,
      scopes,
      topics,
      readOnly: isReadOnly,
      tokensExist: tokens.count !== 0,
      label: config['console.label'],
      color: config['console.color'],
      version,
      host,
      timezone: config.timezone,
      retryUnitMs: config['retry.unit'],
      store: config.redis.length === 0 ? ('embedded' as const) : ('redis' as const),
      // Port 0 is chosen at the start.
      serverUrl: port === 0 ? null : urlOfHost(config['server.host'], port),
      brokers: grants(rights, 'admin') ? brokers : [],
      now: formatInstant(clock.now()),
    };
  });
}

export function tokenRoutes(api: Api, { role, tokens }: ApiContext): void {
  const { registry } = role;
  const admin = needs('admin', 'every');

  api.get('/v1/tokens', { schema: listTokensSchema, config: needs('read', 'every') }, async () => {
    const all = await registry.tokens(-1);
    return { items: (all.tokens ?? []).map(tokenJson) };
  });

  api.post('/v1/tokens', { schema: createTokenSchema, config: admin }, async (request, answer) => {
    const { name, scopes: allowed, topics = [everyTopic], expiresIn } = request.body;
    const life = readTokenLifetime(expiresIn);
    if (!life.ok) throw invalidField('expiresIn', life.message);
    const wanted = { name, scopes: allowed, topics, expiresInMs: life.value };
    const given = { name, scopes: allowed, topics, expiresIn };
    auditNote(request, { detail: { changes: difference(null, given) } });
    const { token, record } = await addToken(registry, wanted);
    await refreshTokens();
    return answer.code(201).send({ ...tokenJson(record), token });
  });

  api.delete('/v1/tokens/:name', { schema: removeTokenSchema, config: admin }, async (request) => {
    const { name } = request.params;
    if ((await registry.removeToken(name)) === 'absent')
      throw new DqError('token_not_found', `there is no token ${JSON.stringify(name)}`);
    await refreshTokens();
    return { deleted: true };
  });

  async function refreshTokens(): Promise<void> {
    // The change is stored; that this process reads it late is not a failure of the call.
    await tokens.refresh().catch(() => undefined);
  }
}

function tokenJson({ createdAt, expiresAt, usedAt, digest: _, ...token }: TokenRecord) {
  return {
    ...token,
    createdAt: formatInstant(createdAt),
    expiresAt: formatInstantOrNull(expiresAt),
    lastUsedAt: formatInstantOrNull(usedAt),
  };
}

/** A caller whose token covers some topics only sees the entries of these topics. */
export function auditRoute(api: Api, { role }: ApiContext): void {
  api.get('/v1/audit', { schema: auditSchema, config: needs('admin', 'handler') }, async (request) => {
    const { topic, id, actor, action, since, until, cursor } = request.query;
    const limit = readLimit(request.query.limit, contractLimits.auditPageMax);
    if (topic !== undefined) requireTopic(request, topic);
    if (id !== undefined && topic === undefined) throw invalidField('id', 'requires topic');
    if (cursor !== undefined && !auditIdPattern.test(cursor)) throw invalidCursor();
    const filter = {
      topic,
      jobId: id,
      actor,
      action,
      since: since === undefined ? undefined : readInstant('since', since),
      until: until === undefined ? undefined : readInstant('until', until),
    };
    const page = await role.registry.audit(filter, cursor ?? null, limit);
    const rights = rightsOf(request);
    const isVisible = (entry: AuditEntry) =>
      reachesEveryTopic(rights) || (entry.topic !== null && reaches(rights, entry.topic));
    return { items: page.items.filter(isVisible).map(entryJson), nextCursor: page.next };
  });
}

function entryJson({ at, ...entry }: AuditEntry) {
  return { ...entry, at: formatInstant(at) };
}
