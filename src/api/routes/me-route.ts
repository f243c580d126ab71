// GET /v1/me answers who the caller is, what it may do, and the facts about this daemon that a page needs
// first.

import { hostname } from 'node:os';
import { meSchema } from '../../contract/api/session.ts';
import { brokersOf } from '../../core/broker.ts';
import { grants } from '../../core/token.ts';
import type { TokenBook } from '../../registry/token-book.ts';
import { urlOfHost } from '../../runtime/listen.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { rightsOf } from '../http/route-access.ts';

export function meRoute(api: Api, { role, isReadOnly = false }: ApiContext, tokens: TokenBook): void {
  const { config, version, clock } = role;
  const host = hostname();
  const port = config['server.port'];
  const brokers = Array.from(brokersOf(config.brokers).values(), ({ name, type }) => ({ name, type }));
  api.get('/v1/me', { schema: meSchema, config: { access: 'known' } }, async (request) => {
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
      store: config.redis.length === 0 ? ('embedded' as const) : ('redis' as const),
      // Port 0 is chosen at the start.
      serverUrl: port === 0 ? null : urlOfHost(config['server.host'], port),
      brokers: grants(rights, 'admin') ? brokers : [],
      now: new Date(clock.now()).toISOString(),
    };
  });
}
