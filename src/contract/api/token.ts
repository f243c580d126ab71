// Access tokens.

import { Type } from 'typebox';
import { limits } from '../../core/limits.ts';
import { everyTopic, scopes, tokenNamePattern } from '../../core/token.ts';
import {
  closed,
  instant,
  instantOrNull,
  type JsonOf,
  problems,
  reply,
  text,
  textOrNull,
  yes,
} from './schema.ts';

const tags = ['access'];

const TokenName = Type.String({
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

export const TopicGlobs = Type.Array(TopicGlob, {
  minItems: 1,
  maxItems: limits.tokenTopicsMax,
  description: 'topic names; * stands for any characters',
  default: [everyTopic],
  examples: [['order.*']],
});

const settings = { name: TokenName, scopes: Scopes, topics: TopicGlobs };

const Token = closed(
  {
    ...settings,
    id: text('the part of the token after dqk_, by which logs name it', '0a1b2c3d4e5f'),
    createdAt: instant('when it was created'),
    expiresAt: textOrNull('when dq begins to reject it; null: it does not end', '2030-04-01T08:00:00.000Z'),
    lastUsedAt: instantOrNull('last use, to the minute; null: none is known'),
  },
  { title: 'Token' },
);
export type TokenJson = JsonOf<typeof Token>;

const TokenInput = closed(
  {
    ...settings,
    topics: Type.Optional(TopicGlobs),
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
export type CreatedTokenJson = JsonOf<typeof CreatedToken>;

export const listTokensSchema = {
  operationId: 'listTokens',
  tags,
  summary: 'Access tokens by name, without their secret part',
  response: { 200: reply('all tokens', closed({ items: Type.Array(Token) })), ...problems(503) },
};

export const createTokenSchema = {
  operationId: 'createToken',
  tags,
  summary: 'Create an access token; once one exists, every request needs a token',
  body: TokenInput,
  response: { 201: reply('the token, shown once', CreatedToken), ...problems(409, 413, 415, 503) },
};

export const removeTokenSchema = {
  operationId: 'removeToken',
  tags,
  summary: 'Remove an access token; every process rejects it within 2 s',
  params: closed({ name: text('name of the token', 'shop-producer') }),
  response: { 200: reply('removed', closed({ deleted: yes })), ...problems(404, 413, 503) },
};
