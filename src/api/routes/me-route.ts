// GET /v1/me answers who the caller is, what it may do, and the facts about this daemon that a page needs
// first.

import { hostname } from 'node:os';
import { Type } from 'typebox';
import { brokersOf, brokerTypes } from '../../core/broker.ts';
import { grants, scopes } from '../../core/token.ts';
import type { TokenBook } from '../../registry/token-book.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { urlOfHost } from '../http/listen.ts';
import { rightsOf } from '../http/route-access.ts';
import { closed, instant, nullable, problems, reply, text } from '../http/schemas.ts';

const Me = closed(
  {
    name: text('name of the token or of the session', 'li.wei'),
    scopes: Type.Array(Type.Enum(scopes), { description: 'what the caller may do', examples: [['read']] }),
    topics: Type.Array(Type.String(), {
      description: 'topics that the caller may touch; * stands for any characters',
      examples: [['order.*']],
    }),
    readOnly: Type.Boolean({ description: 'console.readOnly: this port changes nothing', examples: [false] }),
    tokensExist: Type.Boolean({
      description: 'an access token exists; while none does, every program of this machine has all rights',
      examples: [true],
    }),
    label: text('console.label', 'shop production'),
    color: text('console.color', 'red'),
    version: text('version of the daemon', '1.0.0'),
    host: text('name of the machine', 'queue-1'),
    timezone: text('option timezone: the day of "today"', 'Asia/Shanghai'),
    retryUnitMs: Type.Integer({ description: 'option retry.unit, ms', examples: [60_000] }),
    store: Type.Enum(['embedded', 'redis'], { description: 'where the jobs are', examples: ['embedded'] }),
    serverUrl: nullable('string', {
      description: 'address of the API on this machine; null: server.port is 0',
      examples: ['http://127.0.0.1:6789'],
    }),
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
const schema = {
  operationId: 'me',
  tags: ['access'],
  summary: 'Who the caller is, and what it may do',
  response: { 200: reply('the caller', Me), ...problems(503) },
};

export function meRoute(api: Api, { role, isReadOnly = false }: ApiContext, tokens: TokenBook): void {
  const { config, version, clock } = role;
  const host = hostname();
  const port = config['server.port'];
  const brokers = Array.from(brokersOf(config.brokers).values(), ({ name, type }) => ({ name, type }));
  api.get('/v1/me', { schema, config: { access: 'known' } }, async (request) => {
    const rights = rightsOf(request);
    const { name, scopes: granted, topics } = rights;
    return {
      name,
      scopes: granted,
      topics,
      readOnly: isReadOnly,
      tokensExist: tokens.count !== 0,
      label: config['console.label'],
      color: config['console.color'],
      version,
      host,
      timezone: config.timezone,
      retryUnitMs: config['retry.unit'],
      store: config.redis.length === 0 ? 'embedded' : 'redis',
      // Port 0 is chosen at the start.
      serverUrl: port === 0 ? null : urlOfHost(config['server.host'], port),
      brokers: grants(rights, 'admin') ? brokers : [],
      now: new Date(clock.now()).toISOString(),
    };
  });
}
