// GET / answers the index of the API: name, version, and where to go on.

import { Type } from 'typebox';
import type { Api, ApiContext } from '../api-context.ts';
import { closed, problems, reply, text } from '../http/schemas.ts';

const links = {
  openapi: '/openapi.json',
  livez: '/livez',
  readyz: '/readyz',
  metrics: '/metrics',
  topics: '/v1/topics',
  jobs: '/v1/jobs',
  dead: '/v1/dead',
  alerts: '/v1/alerts',
  summary: '/v1/summary',
  stats: '/v1/stats',
  processes: '/v1/processes',
  me: '/v1/me',
  tokens: '/v1/tokens',
  sessions: '/v1/sessions',
  shards: '/v1/shards',
} as const;

const Index = closed(
  {
    name: Type.Literal('dq', { description: 'always dq' }),
    version: text('version of the daemon', '1.0.0'),
    links: Type.Record(Type.String(), Type.String(), {
      description: 'paths that answer a GET, by name',
      examples: [{ openapi: '/openapi.json' }],
    }),
  },
  { title: 'Index' },
);

const schema = {
  operationId: 'index',
  tags: ['operation'],
  summary: 'Name, version and links',
  response: { 200: reply('the index', Index), ...problems() },
};

export function indexRoute(api: Api, { role }: ApiContext): void {
  const index = { name: 'dq', version: role.version, links };
  api.get('/', { schema, config: { access: { scope: 'read', topics: 'none' } } }, async () => index);
}
