// /v1/tokens: make, list and remove access tokens. The token itself is in one answer, once; what is kept is its digest. A
// caller for some topics only may do none of this: it could make itself a token for all of them.

import { Type } from 'typebox';
import { DqError, invalidField } from '../../core/errors.ts';
import { limits } from '../../core/limits.ts';
import { everyTopic, makeToken, scopes, type TokenRecord, tokenNamePattern } from '../../core/token.ts';
import type { TokenBook } from '../../registry/token-book.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { closed, Instant, problems, reply } from '../http/schemas.ts';

const tags = ['access'];
const Name = Type.String({
  pattern: tokenNamePattern.source,
  description: '1 to 64 of A-Z a-z 0-9 . _ - beginning with a letter or digit',
});
const Scopes = Type.Array(Type.Enum(scopes), {
  minItems: 1,
  uniqueItems: true,
  description:
    'push: pushes, cancel; read: every GET; operate: pause, run, requeue, purge; admin: everything',
});
const Topic = Type.String({
  pattern: '^[A-Za-z0-9._*-]{1,128}$',
  description: '1 to 128 of A-Z a-z 0-9 . _ - and *',
});
const Topics = Type.Array(Topic, {
  minItems: 1,
  maxItems: limits.tokenTopicsMax,
  description: 'names in which * stands for any characters; every topic when not given',
});
const members = { name: Name, scopes: Scopes, topics: Topics };
const Token = closed({
  ...members,
  id: Type.String({ description: 'what a token begins with, after dqk_' }),
  createdAt: Instant,
});
const MadeToken = closed({
  ...Token.properties,
  token: Type.String({ description: 'shown here and never again' }),
});

export function tokenRoutes(api: Api, { role }: ApiContext, tokens: TokenBook): void {
  const { registry } = role;

  api.get(
    '/v1/tokens',
    {
      schema: {
        operationId: 'listTokens',
        tags,
        summary: 'Access tokens by name, without what makes them valid',
        response: { 200: reply('all of them', closed({ items: Type.Array(Token) })), ...problems(503) },
      },
      config: { access: { scope: 'read', topics: 'every' } },
    },
    async () => {
      const all = await registry.tokens(-1);
      return { items: (all.tokens ?? []).map(tokenJson) };
    },
  );

  api.post(
    '/v1/tokens',
    {
      schema: {
        operationId: 'createToken',
        tags,
        summary: 'Make an access token; from the first one on, nobody is served without',
        body: closed({ ...members, topics: Type.Optional(Topics) }),
        response: { 201: reply('the token, this once', MadeToken), ...problems(409, 413, 415, 503) },
      },
      config: { access: { scope: 'admin', topics: 'every' } },
    },
    async (request, answer) => {
      const { name, scopes: allowed, topics = [everyTopic] } = request.body;
      const { token, id, digest } = makeToken();
      const record: TokenRecord = { name, id, digest, scopes: allowed, topics, createdAt: Date.now() };
      const outcome = await registry.createToken(record);
      if (outcome === 'exists') throw new DqError('token_exists', `there is a token ${name} already`);
      if (outcome === 'full')
        throw invalidField('name', `there are ${limits.tokensMax} tokens already; remove one`);
      await learn();
      return answer.code(201).send({ ...tokenJson(record), token });
    },
  );

  api.delete(
    '/v1/tokens/:name',
    {
      schema: {
        operationId: 'removeToken',
        tags,
        summary: 'Remove an access token; refused everywhere within 2 s',
        params: closed({ name: Type.String({ description: 'name of the token' }) }),
        response: {
          200: reply('removed', closed({ deleted: Type.Literal(true) })),
          ...problems(404, 413, 503),
        },
      },
      config: { access: { scope: 'admin', topics: 'every' } },
    },
    async (request) => {
      const { name } = request.params;
      if ((await registry.removeToken(name)) === 'absent')
        throw new DqError('token_not_found', `there is no token ${JSON.stringify(name)}`);
      await learn();
      return { deleted: true };
    },
  );

  async function learn(): Promise<void> {
    // The change is made; that this process learns of it late is no failure of the call.
    await tokens.refresh().catch(() => undefined);
  }
}

function tokenJson({ name, id, scopes: allowed, topics, createdAt }: TokenRecord): object {
  return { name, id, scopes: allowed, topics, createdAt: new Date(createdAt).toISOString() };
}
