// GET / answers the index of the API: name, version, and where to go on.

import { indexSchema } from '../../contract/api/daemon.ts';
import type { Api, ApiContext } from '../api-context.ts';

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

export function indexRoute(api: Api, { role }: ApiContext): void {
  const index = { name: 'dq' as const, version: role.version, links };
  api.get(
    '/',
    { schema: indexSchema, config: { access: { scope: 'read', topics: 'none' } } },
    async () => index,
  );
}
