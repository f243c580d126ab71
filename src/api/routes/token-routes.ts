// /v1/tokens: create, list and remove access tokens. One reply shows the token, once; dq stores its digest. A
// caller whose token covers some topics only may do none of this: it could make itself a token for all of
// them.

import { Type } from 'typebox';
import { difference } from '../../core/audit.ts';
import { formatInstant } from '../../core/duration.ts';
import { DqError, invalidField } from '../../core/errors.ts';
import { limits } from '../../core/limits.ts';
import { everyTopic, scopes, type TokenRecord, tokenNamePattern } from '../../core/token.ts';
import type { TokenBook } from '../../registry/token-book.ts';
import { addToken, readLife } from '../../use-cases/add-token.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { auditNote } from '../http/audit-note.ts';
import { closed, instant, nullable, problems, reply, text, yes } from '../http/schemas.ts';

const tags = ['access'];
const Name = Type.String({
  pattern: tokenNamePattern.source,
  description: '1 to 64 of A-Z a-z 0-9 . _ - beginning with a letter or digit',
  examples: ['shop-producer'],
});
export const Scopes = Type.Array(Type.Enum(scopes), {
  minItems: 1,
  uniqueItems: true,
  description:
    'push: pushes, cancel; read: every GET; operate: pause, run, requeue, purge; admin: everything',
  examples: [['push']],
});
const TopicGlob = Type.String({
  pattern: '^[A-Za-z0-9._*-]{1,128}$',
  description: '1 to 128 of A-Z a-z 0-9 . _ - and *',
});
export const Topics = Type.Array(TopicGlob, {
  minItems: 1,
  maxItems: limits.tokenTopicsMax,
  description: 'topic names; * stands for any characters',
  default: [everyTopic],
  examples: [['order.*']],
});
const settings = { name: Name, scopes: Scopes, topics: Topics };
const Token = closed(
  {
    ...settings,
    id: text('the part of the token after dqk_, by which logs name it', '0a1b2c3d4e5f'),
    createdAt: instant('when it was created'),
    expiresAt: nullable('string', {
      description: 'when dq begins to reject it; null: it does not end',
      examples: ['2030-04-01T08:00:00.000Z'],
    }),
    lastUsedAt: nullable('string', {
      description: 'last use, to the minute; null: none is known',
      examples: ['2030-01-01T08:00:00.000Z'],
    }),
  },
  { title: 'Token' },
);
const TokenInput = closed(
  {
    ...settings,
    topics: Type.Optional(Topics),
    expiresIn: Type.Optional(text('how long it is valid, such as 90d; default: it does not end', '90d')),
  },
  { title: 'TokenInput' },
);
const CreatedToken = closed(
  {
    ...Token.properties,
    token: text('the token; shown here and never again', 'dqk_0a1b2c3d4e5f_…'),
  },
  { title: 'CreatedToken' },
);

const listSchema = {
  operationId: 'listTokens',
  tags,
  summary: 'Access tokens by name, without their secret part',
  response: { 200: reply('all tokens', closed({ items: Type.Array(Token) })), ...problems(503) },
};
const createSchema = {
  operationId: 'createToken',
  tags,
  summary: 'Create an access token; once one exists, every request needs a token',
  body: TokenInput,
  response: { 201: reply('the token, shown once', CreatedToken), ...problems(409, 413, 415, 503) },
};
const removeSchema = {
  operationId: 'removeToken',
  tags,
  summary: 'Remove an access token; every process rejects it within 2 s',
  params: closed({ name: text('name of the token', 'shop-producer') }),
  response: { 200: reply('removed', closed({ deleted: yes })), ...problems(404, 413, 503) },
};

export function tokenRoutes(api: Api, { role }: ApiContext, tokens: TokenBook): void {
  const { registry } = role;
  const admin = { access: { scope: 'admin', topics: 'every' } } as const;

  api.get(
    '/v1/tokens',
    { schema: listSchema, config: { access: { scope: 'read', topics: 'every' } } },
    async () => {
      const all = await registry.tokens(-1);
      return { items: (all.tokens ?? []).map(tokenJson) };
    },
  );

  api.post('/v1/tokens', { schema: createSchema, config: admin }, async (request, answer) => {
    const { name, scopes: allowed, topics = [everyTopic], expiresIn } = request.body;
    const life = readLife(expiresIn);
    if (!life.ok) throw invalidField('expiresIn', life.message);
    const wanted = { name, scopes: allowed, topics, expiresInMs: life.value };
    const given = { name, scopes: allowed, topics, expiresIn };
    auditNote(request, { detail: { changes: difference(null, given) } });
    const { token, record } = await addToken(registry, wanted);
    await refreshTokens();
    return answer.code(201).send({ ...tokenJson(record), token });
  });

  api.delete('/v1/tokens/:name', { schema: removeSchema, config: admin }, async (request) => {
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

function tokenJson({ createdAt, expiresAt, usedAt, digest: _, ...token }: TokenRecord): object {
  return {
    ...token,
    createdAt: formatInstant(createdAt),
    expiresAt: instantOrNull(expiresAt),
    lastUsedAt: instantOrNull(usedAt),
  };
}

const instantOrNull = (at: number | null): string | null => (at === null ? null : formatInstant(at));
