// Sign-in links and sessions of the console: a link is made here and exchanged on the console's port. A link
// never has more rights than its maker, and ends with the token of its maker.

import { Type } from 'typebox';
import { difference } from '../../core/audit.ts';
import { DqError, invalidField } from '../../core/errors.ts';
import { limits } from '../../core/limits.ts';
import {
  linkDigestOf,
  linkNamePattern,
  makeSignInLink,
  type SessionRecord,
  signInKinds,
} from '../../core/session.ts';
import { coversGlob, grants } from '../../core/token.ts';
import { servesThisMachine } from '../../process/exposure.ts';
import { endOf, hasEnded } from '../../registry/session-book.ts';
import type { TokenBook } from '../../registry/token-book.ts';
import { wallNow } from '../../runtime/time.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { auditNote } from '../http/audit-note.ts';
import { rightsOf } from '../http/route-access.ts';
import { closed, instant, nullable, problems, reply, text, yes } from '../http/schemas.ts';
import { Scopes, Topics } from './token-routes.ts';

const tags = ['access'];
const LinkInput = closed(
  {
    name: Type.Optional(
      Type.String({
        pattern: linkNamePattern.source,
        description: '1 to 64 of A-Z a-z 0-9 . _ @ - beginning with a letter or digit; default: yours',
        examples: ['li.wei'],
      }),
    ),
    scopes: Type.Optional(Scopes),
    topics: Type.Optional(Topics),
  },
  { title: 'SignInLinkInput' },
);
const rights = {
  name: text('name that the session shows', 'li.wei'),
  scopes: Scopes,
  topics: Type.Array(Type.String(), {
    description: 'topic names; * stands for any characters',
    examples: [['order.*']],
  }),
};
const Link = closed(
  {
    ...rights,
    link: text('open the console at /#in= and this text; works once', 'dql_…'),
    publicUrl: nullable('string', {
      description: 'console.publicUrl; null: not set',
      examples: ['https://dq.example.org/console'],
    }),
    endsAt: instant('when the link ends'),
  },
  { title: 'SignInLink' },
);
const linkSchema = {
  operationId: 'createSignInLink',
  tags,
  summary: 'Create a link that signs in to the console, once, within 10 min',
  description: 'Without scopes or topics the link has those of the caller.',
  body: LinkInput,
  response: { 201: reply('the link, shown once', Link), ...problems(413, 415, 503) },
};

const Session = closed(
  {
    id: text('names the session', '0a1b2c3d4e5f'),
    ...rights,
    signedInBy: Type.Enum(signInKinds, {
      description: 'token; link; machine: without a sign-in, while no access token exists',
    }),
    address: text('IP address of the sign-in', '127.0.0.1'),
    createdAt: instant('when it began'),
    usedAt: instant('a recent use; not every use is recorded'),
    endsAt: instant('when it ends without a further use'),
  },
  { title: 'Session' },
);
const listSchema = {
  operationId: 'listSessions',
  tags,
  summary: 'Sessions of the console',
  response: { 200: reply('all sessions', closed({ items: Type.Array(Session) })), ...problems(503) },
};
const removeSchema = {
  operationId: 'removeSession',
  tags,
  summary: 'End a session of the console; effective within 2 s',
  params: closed({ id: text('id of the session', '0a1b2c3d4e5f') }),
  response: { 200: reply('ended', closed({ deleted: yes })), ...problems(404, 413, 503) },
};
const removeAllSchema = {
  operationId: 'removeSessions',
  tags,
  summary: 'End all sessions of the console; effective within 2 s',
  querystring: closed({ all: Type.Optional(Type.Literal('true', { description: 'required' })) }),
  response: { 200: reply('ended', closed({ deleted: yes })), ...problems(413, 503) },
};

export function sessionRoutes(api: Api, { role }: ApiContext, tokens: TokenBook): void {
  const { registry, config } = role;
  const rules = {
    tokens,
    idleMs: config['console.sessionIdle'],
    servesThisMachine: servesThisMachine(config),
  };
  const admin = { access: { scope: 'admin', topics: 'every' } } as const;

  api.post(
    '/v1/sign-in-links',
    { schema: linkSchema, config: { access: 'known', audit: true } },
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
        endsAt: new Date(endsAt).toISOString(),
      });
    },
  );

  api.get('/v1/sessions', { schema: listSchema, config: admin }, async () => {
    const { sessions } = await registry.sessions(-1);
    const now = wallNow();
    const living = (sessions ?? []).filter((session) => !hasEnded(session, session.usedAt, rules, now));
    return { items: living.map((session) => sessionJson(session, rules.idleMs)) };
  });

  api.delete('/v1/sessions/:id', { schema: removeSchema, config: admin }, async (request) => {
    const { id } = request.params;
    if (!/^[0-9a-f]{12}$/.test(id) || (await registry.removeSessions(id)) === 'absent')
      throw new DqError('session_not_found', `there is no session ${JSON.stringify(id)}`);
    return { deleted: true };
  });

  api.delete('/v1/sessions', { schema: removeAllSchema, config: admin }, async (request) => {
    if (request.query.all === undefined) throw invalidField('all', 'is required: write ?all=true');
    await registry.removeSessions(null);
    return { deleted: true };
  });
}

function sessionJson(session: SessionRecord, idleMs: number): object {
  const { id, name, scopes, topics, signedInBy, address, createdAt, usedAt } = session;
  return {
    id,
    name,
    scopes,
    topics,
    signedInBy,
    address,
    createdAt: new Date(createdAt).toISOString(),
    usedAt: new Date(usedAt).toISOString(),
    endsAt: new Date(endOf(session, usedAt, idleMs)).toISOString(),
  };
}
