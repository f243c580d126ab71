// GET /v1/me answers who the caller is, what it may do, and the facts about this daemon that a page needs
// first. Sign-in links and sessions of the console: a link is made here and exchanged on the console's port.
// A link never has more rights than its maker, and ends with the token of its maker.

import { hostname } from 'node:os';
import {
  createSignInLinkSchema,
  listSessionsSchema,
  meSchema,
  removeSessionSchema,
  removeSessionsSchema,
} from '../../contract/api/session.ts';
import { difference } from '../../core/audit.ts';
import { brokersOf } from '../../core/broker.ts';
import { formatInstant } from '../../core/duration.ts';
import { DqError, invalidField } from '../../core/errors.ts';
import { limits } from '../../core/limits.ts';
import { linkDigestOf, makeSignInLink, type SessionRecord } from '../../core/session.ts';
import { coversGlob, grants } from '../../core/token.ts';
import { servesThisMachine } from '../../process/exposure.ts';
import { endOf, hasEnded } from '../../registry/session-book.ts';
import { urlOfHost } from '../../runtime/listen.ts';
import { wallNow } from '../../runtime/time.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { auditNote } from '../http/audit-note.ts';
import { needs, rightsOf } from '../http/route-access.ts';

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
