// The caller, sign-in links, and sessions of the console.

import { Type } from 'typebox';
import { brokerTypes } from '../../core/broker.ts';
import { linkNamePattern, signInKinds } from '../../core/session.ts';
import { scopes } from '../../core/token.ts';
import {
  closed,
  flag,
  instant,
  type JsonOf,
  problems,
  reply,
  text,
  textOrNull,
  texts,
  yes,
} from './schema.ts';
import { Scopes, TopicGlobs } from './token.ts';

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
  tags: ['access'],
  summary: 'Who the caller is, and what it may do',
  response: { 200: reply('the caller', Me), ...problems(503) },
};

const tags = ['access'];

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
