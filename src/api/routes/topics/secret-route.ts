// POST /v1/topics/{topic}/secret: a new secret for a topic, shown in this answer and never again.

import { Type } from 'typebox';
import { Complaints } from '../../../core/complaints.ts';
import { formatInstant } from '../../../core/duration.ts';
import { invalidField } from '../../../core/errors.ts';
import { parseSecret } from '../../../core/topic/secrets.ts';
import { rotateSecret } from '../../../use-cases/rotate-secret.ts';
import type { Api, ApiContext } from '../../api-context.ts';
import { closed, Instant, problems, reply, topicParam } from '../../http/schemas.ts';
import { nameToFind } from './topic-routes.ts';
import { Secret } from './topic-schemas.ts';

const Rotated = closed({
  topic: Type.String(),
  secret: Type.String({ description: 'shown here and never again' }),
  oldSignsUntil: Type.Unsafe<string>({
    ...Instant,
    description: 'the secret before it signs too until then',
  }),
});

export function secretRoute(api: Api, { role }: ApiContext): void {
  api.post(
    '/v1/topics/:topic/secret',
    {
      schema: {
        operationId: 'rotateSecret',
        tags: ['topics'],
        summary: 'Give a topic a new secret; the old one signs too for 24 h',
        params: closed(topicParam),
        response: { 200: reply('the new secret', Rotated), ...problems(404, 413, 415, 503) },
      },
      config: {
        access: { scope: 'admin', topics: 'path' },
        jsonBody: closed({ secret: Type.Optional(Secret) }),
      },
    },
    async (request) => {
      const name = nameToFind(request.params.topic);
      const topic = await rotateSecret(
        role.registry,
        name,
        readSecret(request.body),
        await role.clock.read(),
      );
      // Others learn within useCaseLimits.topicChangeMs; that this process learns late is no failure of the call.
      await role.topics.refresh().catch(() => undefined);
      const [current, old] = topic.secrets;
      return {
        topic: name,
        secret: current?.secret,
        oldSignsUntil: formatInstant(old?.untilAt ?? topic.updatedAt),
      };
    },
  );
}

/** Without a body, or without the member, one is made. */
function readSecret(body: unknown): string | undefined {
  if (body === undefined) return undefined;
  if (typeof body !== 'object' || body === null || Array.isArray(body))
    throw invalidField('body', 'must be a JSON object');
  const complaints = new Complaints();
  for (const name of Object.keys(body))
    if (name !== 'secret') complaints.reject(name, 'is no member of this object');
  const parsed = 'secret' in body ? parseSecret(body.secret) : null;
  if (parsed?.ok === false) complaints.reject('secret', parsed.message);
  complaints.throwIfAny();
  return parsed?.ok === true ? parsed.value : undefined;
}
