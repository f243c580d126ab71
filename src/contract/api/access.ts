// Access: tokens, the caller, sign-in links, and sessions of the console. The audit log: who
// changed what.

import { Type } from 'typebox';
import { brokerTypes } from '../../core/broker.ts';
import { limits } from '../../core/limits.ts';
import { linkNamePattern, signInKinds } from '../../core/session.ts';
import { everyTopic, scopes, tokenNamePattern } from '../../core/token.ts';
import { contractLimits } from './limits.ts';
import {
  closed,
  flag,
  instant,
  instantOrNull,
  instantText,
  type JsonOf,
  limitParam,
  orNull,
  pageOf,
  pagingParams,
  problems,
  reply,
  text,
  textOrNull,
  texts,
  yes,
} from './schema.ts';

const tags = ['access'];

const TokenName = Type.String({
  pattern: tokenNamePattern.source,
  description: '1 to 64 of A-Z a-z 0-9 . _ - beginning with a letter or digit',
  examples: ['shop-producer'],
});

const Scopes = Type.Array(Type.Enum(scopes), {
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

const TopicGlobs = Type.Array(TopicGlob, {
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

const Me = closed(
  {
    name: text('name of the token or of the session', 'li.wei'),
    scopes: Type.Array(Type.Enum(scopes), { description: 'what the caller may do', examples: [['read']] }),
    topics: texts('topics that the caller may touch; * stands for any characters', ['order.*']),
    readOnly: flag('console.readOnly: this port changes nothing'),
    tokensExist: flag(
      'an access token exists; while none does, every program of this machine has all rights',
      true,
    ),
    label: text('console.label', 'shop production'),
    color: text('console.color', 'red'),
    version: text('version of the daemon', '1.0.0'),
    host: text('name of the machine', 'queue-1'),
    timezone: text('option timezone: the day of "today"', 'Asia/Shanghai'),
    retryUnitMs: Type.Integer({ description: 'option retry.unit, ms', examples: [60_000] }),
    store: Type.Enum(['embedded', 'redis'], { description: 'where the jobs are', examples: ['embedded'] }),
    serverUrl: textOrNull(
      'address of the API on this machine; null: server.port is 0',
      'http://127.0.0.1:6789',
    ),
    brokers: Type.Array(
      closed(
        {
          name: text('its name', 'main'),
          type: Type.Enum(brokerTypes, { description: 'its protocol', examples: ['amqp091'] }),
        },
        { title: 'BrokerName' },
      ),
      {
        description:
          'brokers of the configuration, which topics can name; only for callers with the scope admin, others get an empty list',
      },
    ),
    now: instant("the daemon's time"),
  },
  { title: 'Me' },
);
export type MeJson = JsonOf<typeof Me>;

export const meSchema = {
  operationId: 'me',
  tags,
  summary: 'Who the caller is, and what it may do',
  response: { 200: reply('the caller', Me), ...problems(503) },
};

const SignInLinkInput = closed(
  {
    name: Type.Optional(
      Type.String({
        pattern: linkNamePattern.source,
        description: '1 to 64 of A-Z a-z 0-9 . _ @ - beginning with a letter or digit; default: yours',
        examples: ['li.wei'],
      }),
    ),
    scopes: Type.Optional(Scopes),
    topics: Type.Optional(TopicGlobs),
  },
  { title: 'SignInLinkInput' },
);

const shownRights = {
  name: text('name that the session shows', 'li.wei'),
  scopes: Scopes,
  topics: texts('topic names; * stands for any characters', ['order.*']),
};

const SignInLink = closed(
  {
    ...shownRights,
    link: text('open the console at /#in= and this text; works once', 'dql_…'),
    publicUrl: textOrNull('console.publicUrl; null: not set', 'https://dq.example.org/console'),
    endsAt: instant('when the link ends'),
  },
  { title: 'SignInLink' },
);
export type SignInLinkJson = JsonOf<typeof SignInLink>;

export const createSignInLinkSchema = {
  operationId: 'createSignInLink',
  tags,
  summary: 'Create a link that signs in to the console, once, within 10 min',
  description: 'Without scopes or topics the link has those of the caller.',
  body: SignInLinkInput,
  response: { 201: reply('the link, shown once', SignInLink), ...problems(413, 415, 503) },
};

const Session = closed(
  {
    id: text('names the session', '0a1b2c3d4e5f'),
    ...shownRights,
    signedInBy: Type.Enum(signInKinds, {
      description: 'token; link; machine: without a sign-in, while no access token exists',
    }),
    address: text('IP address of the sign-in', '127.0.0.1'),
    browser: text('names of the browser and its system; empty: unknown', 'Firefox, Linux'),
    isOwn: flag('the session of this call'),
    createdAt: instant('when it began'),
    usedAt: instant('a recent use; not every use is recorded'),
    endsAt: instant('when it ends without a further use'),
  },
  { title: 'Session' },
);
export type SessionJson = JsonOf<typeof Session>;

export const listSessionsSchema = {
  operationId: 'listSessions',
  tags,
  summary: 'Sessions of the console',
  response: { 200: reply('all sessions', closed({ items: Type.Array(Session) })), ...problems(503) },
};

export const removeSessionSchema = {
  operationId: 'removeSession',
  tags,
  summary: 'End a session of the console; effective within 2 s',
  params: closed({ id: text('id of the session', '0a1b2c3d4e5f') }),
  response: { 200: reply('ended', closed({ deleted: yes })), ...problems(404, 413, 503) },
};

export const removeSessionsSchema = {
  operationId: 'removeSessions',
  tags,
  summary: 'End all sessions of the console; effective within 2 s',
  querystring: closed({ all: Type.Optional(Type.Literal('true', { description: 'required' })) }),
  response: { 200: reply('ended', closed({ deleted: yes })), ...problems(413, 503) },
};

const SignedIn = closed(
  {
    key: text('send it as x-dq-key with every call; shown here and never again', 'Zk9…'),
    name: text('name of the token or link', 'li.wei'),
    scopes: Type.Array(Type.Enum(scopes), { description: 'what the session may do', examples: [['read']] }),
    topics: texts('topics that the session may touch', ['*']),
    endsAt: instant('when it ends without a further use'),
  },
  { title: 'SignedIn' },
);
export type SignedInJson = JsonOf<typeof SignedIn>;

export const signInSchema = {
  operationId: 'signIn',
  tags,
  summary: 'Begin a session of the console; on its port only',
  description:
    'With a link or a token; without either on this machine, while no access token exists. The reply sets the cookie, the other half of the session.',
  body: closed(
    {
      link: Type.Optional(text('of dq console; works once', 'dql_…')),
      token: Type.Optional(text('an access token', 'dqk_…')),
    },
    { title: 'SignIn' },
  ),
  response: { 200: reply('signed in', SignedIn), ...problems(413, 415, 429, 503) },
};

export const signOutSchema = {
  operationId: 'signOut',
  tags,
  summary: 'End the session of this call; on the console port only',
  response: { 200: reply('signed out', closed({ deleted: yes })), ...problems(413, 503) },
};

const anyValue = (description: string, example: unknown) =>
  Type.Unsafe<unknown>({ description, examples: [example] });

const AuditEntry = closed(
  {
    id: text('orders entries by time', '019a8e6b0f2c0a1b2c3d4e5f'),
    at: instant('when dq answered the call'),
    actor: text('token, sign-in link, "this machine", or "dq CLI" and the user of the system', 'li.wei'),
    address: text('IP address of the caller, or of the proxy before dq', '127.0.0.1'),
    action: text('operationId of the call', 'patchTopic'),
    topic: textOrNull('null: concerns no single topic', 'order.close'),
    jobId: textOrNull('null: concerns no single job'),
    detail: orNull(
      closed(
        {
          changes: Type.Optional(
            Type.Array(
              closed({
                field: text('name of the field', 'maxAttempts'),
                before: anyValue('earlier value; null: none. *** stands for a hidden value', 5),
                after: anyValue('new value; null: none', 10),
              }),
              { description: 'fields whose value differs' },
            ),
          ),
          filter: Type.Optional(
            Type.Record(Type.String(), Type.Unknown(), {
              description: 'what the caller selected or gave',
              examples: [{ topic: 'order.close' }],
            }),
          ),
          count: Type.Optional(Type.Integer({ description: 'jobs that the call changed', examples: [12] })),
        },
        { title: 'AuditDetail' },
      ),
      'the difference, or filter and count',
    ),
    status: Type.Integer({ description: 'HTTP status of the answer', examples: [200] }),
    code: textOrNull('of the error; null: it succeeded'),
  },
  { title: 'AuditEntry' },
);
export type AuditEntryJson = JsonOf<typeof AuditEntry>;

export const auditSchema = {
  operationId: 'audit',
  tags,
  summary: 'Changes by operators and sign-ins, newest first',
  description:
    'Entries appear within a second and stay for audit.days, at most 100,000. The log files of kind audit have all of them. A page can be short and have a nextCursor.',
  querystring: closed({
    topic: Type.Optional(text('only this topic', 'order.close')),
    id: Type.Optional(text('only this job; requires topic', '4711')),
    actor: Type.Optional(text('only this name, also with a user of the system, or this user', 'li.wei')),
    action: Type.Optional(text('only this operationId', 'patchTopic')),
    since: instantText('recorded then or later'),
    until: instantText('recorded before'),
    ...pagingParams,
    limit: limitParam('items of a page', contractLimits.auditPageMax),
  }),
  response: { 200: reply('a page', pageOf(AuditEntry)), ...problems(503) },
};
