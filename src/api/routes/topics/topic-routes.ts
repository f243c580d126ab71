// /v1/topics: list, create, read, replace, patch and remove topics, set their states, rotate their secrets.
// Each call reads and writes the registry itself, so a caller sees its own change. Then this process
// refreshes its topics at once, and the others within useCaseLimits.topicChangeMs.

import type { FastifyRequest } from 'fastify';
import {
  createTopicSchema,
  getTopicSchema,
  listTopicsSchema,
  patchTopicSchema,
  putTopicSchema,
  removeTopicSchema,
  rotateSecretSchema,
  SecretInput,
  stateVerb,
  TopicInput as TopicBody,
  TopicPatch,
  TopicReplacement,
} from '../../../contract/api/topic.ts';
import { difference } from '../../../core/audit.ts';
import { formatInstant } from '../../../core/duration.ts';
import { FieldErrors, invalidField } from '../../../core/errors.ts';
import { unknownName } from '../../../core/suggest.ts';
import { topicNamePattern, topicNameRule } from '../../../core/topic/fields.ts';
import { parseSecret, type TopicSecret } from '../../../core/topic/secrets.ts';
import { parseTopicInput, type TopicInput, topicJson } from '../../../core/topic/settings.ts';
import type { KnownTopic, Topic, TopicState } from '../../../core/topic/topic.ts';
import type { RoleContext } from '../../../process/role.ts';
import {
  type ChangeWatch,
  checkNamed,
  createTopic,
  getTopic,
  isUnreadable,
  patchTopic,
  putTopic,
  rotateSecret,
  topicNotFound,
} from '../../../use-cases/change-topic.ts';
import { findTopics } from '../../../use-cases/find-topics.ts';
import { removeTopic } from '../../../use-cases/remove-topic.ts';
import type { Api, ApiContext } from '../../api-context.ts';
import { auditNote } from '../../audit-trail.ts';
import { invalidCursor, readIfMatch, readLimit } from '../../http/request-head.ts';
import { mayTouch, needs, requireTopic, seesHeaderValues } from '../../http/route-access.ts';

const url = '/v1/topics/:topic';
const admin = needs('admin', 'path');

export function topicRoutes(api: Api, context: ApiContext): void {
  listRoute(api, context);
  createRoute(api, context);
  getRoute(api, context);
  changeRoutes(api, context);
  removeRoute(api, context);
  stateRoutes(api, context);
  secretRoute(api, context);
}

function listRoute(api: Api, { role }: ApiContext): void {
  api.get('/v1/topics', { schema: listTopicsSchema, config: needs('read', 'handler') }, async (request) => {
    const { search, owner, state, cursor } = request.query;
    const limit = readLimit(request.query.limit);
    const after = cursor === undefined ? '' : readCursor(cursor);
    await role.topics.refresh();
    const filter = { search, owner, state, isVisible: (name: string) => mayTouch(request, name) };
    const found = await findTopics(role.topics, filter, after, limit + 1);
    const page = found.slice(0, limit);
    const last = found.length > limit ? page.at(-1) : undefined;
    const showsValues = seesHeaderValues(request);
    return {
      items: page.flatMap((topic) => readableJson(topic, showsValues)),
      nextCursor: last === undefined ? null : writeCursor(last.topic),
    };
  });
}

function createRoute(api: Api, context: ApiContext): void {
  api.post(
    '/v1/topics',
    {
      schema: createTopicSchema,
      config: { ...needs('admin', 'handler'), jsonBody: TopicBody },
    },
    async (request, answer) => {
      const input = readInput(request, context, true, true);
      const name = input.topic as string;
      requireTopic(request, name);
      const topic = await createTopic(context.role.registry, name, input, watchOf(request));
      await refreshTopics(context.role);
      answer.header('etag', etagOf(topic));
      return answer.code(201).send(withSecret(topic));
    },
  );
}

function getRoute(api: Api, { role }: ApiContext): void {
  api.get(url, { schema: getTopicSchema, config: needs('read', 'path') }, async (request, answer) => {
    const name = nameToFind(request.params.topic);
    const topic = await getTopic(role.registry, name);
    if (topic === null) throw topicNotFound(name);
    answer.header('etag', etagOf(topic));
    return topicJson(topic, seesHeaderValues(request));
  });
}

function changeRoutes(api: Api, context: ApiContext): void {
  const { registry, clock } = context.role;
  api.put(
    url,
    { schema: putTopicSchema, config: { ...admin, jsonBody: TopicReplacement } },
    async (request, answer) => {
      const name = nameToWrite(request.params.topic);
      const input = readInput(request, context, true);
      checkNamed(name, input);
      const expected = expectedBy(request);
      const watch = watchOf(request);
      const { topic, created } = await putTopic(registry, name, input, clock.now(), expected, watch);
      await refreshTopics(context.role);
      answer.header('etag', etagOf(topic));
      // Otherwise the caller could only learn the secret by a rotation, which the first receiver would have
      // to follow.
      return created
        ? answer.code(201).send(withSecret(topic))
        : answer.code(200).send(topicJson(topic, true));
    },
  );

  api.patch(
    url,
    { schema: patchTopicSchema, config: { ...admin, jsonBody: TopicPatch } },
    async (request, answer) => {
      const name = nameToFind(request.params.topic);
      const input = readInput(request, context, false);
      checkNamed(name, input);
      const expected = expectedBy(request);
      const topic = await patchTopic(registry, name, input, clock.now(), expected, watchOf(request));
      await refreshTopics(context.role);
      answer.header('etag', etagOf(topic));
      return topicJson(topic, true);
    },
  );
}

function removeRoute(api: Api, { role }: ApiContext): void {
  api.delete(url, { schema: removeTopicSchema, config: admin }, async (request) => {
    const name = nameToFind(request.params.topic);
    const { registry, store } = role;
    const withJobs = request.query.jobs === 'purge';
    const purged = await removeTopic(registry, store.admin, name, withJobs, expectedBy(request));
    auditNote(request, { detail: { count: purged } });
    await refreshTopics(role);
    return { deleted: true, purged };
  });
}

const stateVerbs: Readonly<Record<string, { readonly state: TopicState; readonly summary: string }>> = {
  pause: { state: 'paused', summary: 'Hold deliveries, accept pushes' },
  resume: { state: 'active', summary: 'Deliver again' },
  offline: { state: 'offline', summary: 'Hold deliveries, reject pushes' },
};

/** Repeating one has no further effect. */
function stateRoutes(api: Api, { role }: ApiContext): void {
  for (const [verb, { state, summary }] of Object.entries(stateVerbs)) {
    const schema = { ...stateVerb, operationId: `${verb}Topic`, summary };
    api.post(`${url}/${verb}`, { schema, config: needs('operate', 'path') }, async (request) => {
      const name = nameToFind(request.params.topic);
      const given = { settings: {}, state };
      const topic = await patchTopic(role.registry, name, given, null, null, watchOf(request));
      await refreshTopics(role);
      return topicJson(topic, seesHeaderValues(request));
    });
  }
}

/** Rotates the secret. Only this reply shows the new one. */
function secretRoute(api: Api, { role }: ApiContext): void {
  const config = { ...admin, jsonBody: SecretInput };
  api.post(`${url}/secret`, { schema: rotateSecretSchema, config }, async (request) => {
    const name = nameToFind(request.params.topic);
    const secret = readSecret(request.body);
    auditNote(request, { detail: { changes: [{ field: 'secret', before: '***', after: '***' }] } });
    const now = await role.clock.read();
    const topic = await rotateSecret(role.registry, name, secret, now, expectedBy(request));
    await refreshTopics(role);
    // The first one signs; a topic has one.
    const [current, old] = topic.secrets as [TopicSecret, TopicSecret?];
    return {
      topic: name,
      secret: current.secret,
      oldSignsUntil: formatInstant(old?.untilAt ?? topic.updatedAt),
    };
  });
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

/** As parseTopicInput. Throws DqError invalid. */
function readInput(
  request: FastifyRequest,
  { egress }: ApiContext,
  complete: boolean,
  named = false,
): TopicInput {
  const parsed = parseTopicInput(request.body, egress, complete, named);
  if (!parsed.ok) throw parsed.error;
  return parsed.input;
}

/** Throws DqError forbidden where jobs would be pushed to a topic that the caller has no rights to. Notes the
 *  change for the audit log before the write: also one of unknown outcome has its difference. */
const watchOf = (request: FastifyRequest): ChangeWatch => ({
  mayName: (topic) => requireTopic(request, topic),
  onWrite(before, draft) {
    const old = before === null ? null : topicJson(before, true);
    const next = topicJson({ ...draft, revision: 0, createdAt: 0, updatedAt: 0 }, true);
    auditNote(request, { topic: draft.topic, detail: { changes: difference(old, next) } });
  },
});

const withSecret = (topic: Topic) => ({ ...topicJson(topic, true), secret: topic.secrets[0]?.secret });

/** Empty for a topic that cannot be decrypted. */
function readableJson(topic: KnownTopic, showsValues: boolean): readonly ReturnType<typeof topicJson>[] {
  try {
    return [topicJson(topic.open(), showsValues)];
  } catch (error) {
    if (isUnreadable(error)) return [];
    throw error;
  }
}

function writeCursor(name: string): string {
  return Buffer.from(name).toString('base64url');
}

function readCursor(cursor: string): string {
  const name = Buffer.from(cursor, 'base64url').toString();
  if (!topicNamePattern.test(name) || writeCursor(name) !== cursor) throw invalidCursor();
  return name;
}

/** The revision that the caller has read; null: any. */
const expectedBy = (request: FastifyRequest): number | null =>
  readIfMatch(request, 'ETag or the revision of the topic');

const etagOf = ({ revision }: Topic): string => `"${revision}"`;

async function refreshTopics({ topics }: RoleContext): Promise<void> {
  // The change is stored; that this process reads it late is not a failure of the call.
  await topics.refresh().catch(() => undefined);
}

/** Throws topic_not_found for an invalid name, without a look-up. */
export function nameToFind(name: string): string {
  if (!topicNamePattern.test(name)) throw topicNotFound(name);
  return name;
}

function nameToWrite(name: string): string {
  if (topicNamePattern.test(name)) return name;
  throw invalidField('topic', topicNameRule);
}
