// /livez: this process answers. /readyz: it can do its work; a failing check is named. Both are cheap and open to monitors.

import { Type } from 'typebox';
import { DqError, reasonOf } from '../core/errors.ts';
import type { RoleContext } from '../process/role.ts';
import type { Api, IntakeContext } from './intake-context.ts';
import { closed, problems, reply } from './schemas.ts';

const tags = ['operation'];

export function healthRoutes(api: Api, { role }: IntakeContext): void {
  api.get(
    '/livez',
    {
      schema: {
        operationId: 'livez',
        tags,
        summary: 'Does this process answer?',
        response: { 200: reply('it does', closed({ live: Type.Literal(true) })), ...problems() },
      },
      config: { access: 'open' },
    },
    async () => ({ live: true }),
  );

  api.get(
    '/readyz',
    {
      schema: {
        operationId: 'readyz',
        tags,
        summary: 'Can dq do its work?',
        response: {
          200: reply(
            'it can',
            closed({
              ready: Type.Literal(true),
              durability: Type.String({ description: 'what an acknowledged job survives' }),
              warnings: Type.Array(Type.String()),
            }),
          ),
          ...problems(503),
        },
      },
      config: { access: 'open' },
    },
    async () => {
      const { durability, warnings } = await checkStore(role);
      await checkRegistry(role);
      return { ready: true, durability, warnings };
    },
  );
}

async function checkStore({
  store,
}: RoleContext): Promise<{ durability: string; warnings: readonly string[] }> {
  const health = await store.admin.health().catch((error: unknown) => {
    throw notReady('store', reasonOf(error));
  });
  if (!health.ok) throw notReady('store', health.warnings.join('; ') || 'is not healthy');
  return health;
}

async function checkRegistry({ topics }: RoleContext): Promise<void> {
  await topics.refresh().catch((error: unknown) => {
    throw notReady('registry', reasonOf(error));
  });
}

function notReady(check: string, message: string): DqError {
  return new DqError('unavailable', `${check}: ${message}`, { errors: [{ field: check, message }] });
}
