// POST /v1/topics/{topic}/secret rotates a topic's secret. Only this reply shows the new one.

import { rotateSecretSchema, SecretInput } from '../../../contract/api/topic.ts';
import { formatInstant } from '../../../core/duration.ts';
import { FieldErrors, invalidField } from '../../../core/errors.ts';
import { unknownName } from '../../../core/suggest.ts';
import { parseSecret, type TopicSecret } from '../../../core/topic/secrets.ts';
import { rotateSecret } from '../../../use-cases/change-topic.ts';
import type { Api, ApiContext } from '../../api-context.ts';
import { auditNote } from '../../http/audit-note.ts';
import { expectedBy, nameToFind, refreshTopics } from './topic-routes.ts';

export function secretRoute(api: Api, { role }: ApiContext): void {
  api.post(
    '/v1/topics/:topic/secret',
    {
      schema: rotateSecretSchema,
      config: { access: { scope: 'admin', topics: 'path' }, jsonBody: SecretInput },
    },
    async (request) => {
      const name = nameToFind(request.params.topic);
      const secret = readSecret(request.body);
      auditNote(request, { detail: { changes: [{ field: 'secret', before: '***', after: '***' }] } });
      const topic = await rotateSecret(
        role.registry,
        name,
        secret,
        await role.clock.read(),
        expectedBy(request),
      );
      await refreshTopics(role);
      // The first one signs; a topic has one.
      const [current, old] = topic.secrets as [TopicSecret, TopicSecret?];
      return {
        topic: name,
        secret: current.secret,
        oldSignsUntil: formatInstant(old?.untilAt ?? topic.updatedAt),
      };
    },
  );
}

/** undefined without a body or without the member: dq generates a secret. Throws DqError invalid. */
function readSecret(body: unknown): string | undefined {
  if (body === undefined) return undefined;
  if (typeof body !== 'object' || body === null || Array.isArray(body))
    throw invalidField('body', 'must be a JSON object');
  const errors = new FieldErrors();
  for (const name of Object.keys(body))
    if (name !== 'secret')
      errors.reject(name, unknownName('field', name, ['secret'], 'only secret is known'));
  const parsed = 'secret' in body ? parseSecret(body.secret) : null;
  if (parsed?.ok === false) errors.reject('secret', parsed.message);
  errors.throwIfAny();
  return parsed?.ok === true ? parsed.value : undefined;
}
