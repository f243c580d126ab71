// /v1/topics: list, create, look at, put, patch, remove. Reads and writes the registry itself, so that whoever changed a topic
// sees the change; then this process learns of it at once, and the others within useCaseLimits.topicChangeMs.

import { setImmediate as turn } from 'node:timers/promises';
import { Type } from 'typebox';
import { invalidField } from '../../../core/errors.ts';
import { topicNamePattern, topicNameRule } from '../../../core/topic/fields.ts';
import { parseTopicInput, type TopicInput, topicJson } from '../../../core/topic/settings.ts';
import type { KnownTopic } from '../../../core/topic/topic.ts';
import type { TopicBook } from '../../../registry/topic-book.ts';
import {
  checkNamed,
  createTopic,
  getTopic,
  isUnreadable,
  patchTopic,
  putTopic,
  topicNotFound,
} from '../../../use-cases/change-topic.ts';
import { removeTopic } from '../../../use-cases/remove-topic.ts';
import type { Api, ApiContext } from '../../api-context.ts';
import { pageOf, pagingParams, readLimit } from '../../http/paging.ts';
import { mayTouch, requireTopic, seesHeaderValues } from '../../http/route-access.ts';
import { closed, problems, reply, topicParam } from '../../http/schemas.ts';
import { apiLimits } from '../../limits.ts';
import { Topic, TopicCreate, TopicPatch, TopicPut, TopicWithSecret } from './topic-schemas.ts';

const tags = ['topics'];
const params = closed(topicParam);
const url = '/v1/topics/:topic';

export function topicRoutes(api: Api, context: ApiContext): void {
  listRoute(api, context);
  const { registry, store } = context.role;

  api.post(
    '/v1/topics',
    {
      schema: {
        operationId: 'createTopic',
        tags,
        summary: 'Register a topic',
        response: {
          201: reply('the topic and its secret', TopicWithSecret),
          ...problems(409, 413, 415, 503),
        },
      },
      config: { access: { scope: 'admin', topics: 'handler' }, jsonBody: TopicCreate },
    },
    async (request, answer) => {
      const input = read(request.body, true);
      if (input.topic === undefined) throw invalidField('topic', 'is needed');
      requireTopic(request, input.topic);
      const topic = await createTopic(registry, input.topic, input);
      await learn();
      return answer.code(201).send({ ...topicJson(topic, true), secret: topic.secrets[0]?.secret });
    },
  );

  api.get(
    url,
    {
      schema: {
        operationId: 'getTopic',
        tags,
        summary: 'Look at a topic',
        params,
        response: { 200: reply('the topic', Topic), ...problems(404, 503) },
      },
      config: { access: { scope: 'read', topics: 'path' } },
    },
    async (request) => {
      const { topic: name } = request.params;
      const topic = topicNamePattern.test(name) ? await getTopic(registry, name) : null;
      if (topic === null) throw topicNotFound(name);
      return topicJson(topic, seesHeaderValues(request));
    },
  );

  api.put(
    url,
    {
      schema: {
        operationId: 'putTopic',
        tags,
        summary: 'Create or replace a topic; what is not given becomes the default, the secret stays',
        params,
        response: {
          200: reply('replaced', Topic),
          201: reply('created, with its secret', TopicWithSecret),
          ...problems(413, 415, 503),
        },
      },
      config: { access: { scope: 'admin', topics: 'path' }, jsonBody: TopicPut },
    },
    async (request, answer) => {
      const name = nameToWrite(request.params.topic);
      const input = read(request.body, true);
      checkNamed(name, input);
      const { topic, created } = await putTopic(registry, name, input, context.role.clock.now());
      await learn();
      if (!created) return answer.code(200).send(topicJson(topic, true));
      // Its only other appearance would be a rotation, which the first receiver would have to follow.
      return answer.code(201).send({ ...topicJson(topic, true), secret: topic.secrets[0]?.secret });
    },
  );

  api.patch(
    url,
    {
      schema: {
        operationId: 'patchTopic',
        tags,
        summary: 'Change the given fields of a topic',
        params,
        response: { 200: reply('changed', Topic), ...problems(404, 413, 415, 503) },
      },
      config: { access: { scope: 'admin', topics: 'path' }, jsonBody: TopicPatch },
    },
    async (request) => {
      const name = nameToFind(request.params.topic);
      const input = read(request.body, false);
      checkNamed(name, input);
      const topic = await patchTopic(registry, name, input, context.role.clock.now());
      await learn();
      return topicJson(topic, true);
    },
  );

  api.delete(
    url,
    {
      schema: {
        operationId: 'removeTopic',
        tags,
        summary: 'Remove a topic that has no jobs; else 409 and no change. Takes 2 s',
        params,
        querystring: closed({
          jobs: Type.Optional(
            Type.Enum(['purge'], { description: 'remove its jobs too, dead ones included' }),
          ),
        }),
        response: {
          200: reply('removed', Type.Object({ deleted: Type.Literal(true), purged: Type.Integer() })),
          ...problems(404, 409, 413, 503),
        },
      },
      config: { access: { scope: 'admin', topics: 'path' } },
    },
    async (request) => {
      const name = nameToFind(request.params.topic);
      const purged = await removeTopic(registry, store.admin, name, request.query.jobs === 'purge');
      await learn();
      return { deleted: true, purged };
    },
  );

  function read(body: unknown, complete: boolean): TopicInput {
    const parsed = parseTopicInput(body, context.egress, complete);
    if (!parsed.ok) throw parsed.error;
    return parsed.input;
  }

  async function learn(): Promise<void> {
    // The change is made; that this process learns of it late is no failure of the call.
    await context.role.topics.refresh().catch(() => undefined);
  }
}

function listRoute(api: Api, { role }: ApiContext): void {
  api.get(
    '/v1/topics',
    {
      schema: {
        operationId: 'listTopics',
        tags,
        summary: 'Topics by name',
        querystring: closed({
          search: Type.Optional(Type.String({ description: 'part of name, title or owner, in any case' })),
          owner: Type.Optional(Type.String({ description: 'exactly' })),
          ...pagingParams,
        }),
        response: {
          200: reply('a page', pageOf(Topic)),
          ...problems(503),
        },
      },
      config: { access: { scope: 'read', topics: 'handler' } },
    },
    async (request) => {
      const { search, owner, cursor } = request.query;
      const limit = readLimit(request.query.limit);
      const after = cursor === undefined ? '' : readCursor(cursor);
      await role.topics.refresh();
      const isWanted = (topic: KnownTopic) => matches(topic, search, owner) && mayTouch(request, topic.topic);
      const found = await findFrom(role.topics, after, limit + 1, isWanted);
      const page = found.slice(0, limit);
      const last = found.length > limit ? page.at(-1) : undefined;
      const showsValues = seesHeaderValues(request);
      return {
        items: page.flatMap((topic) => openedJson(topic, showsValues)),
        nextCursor: last === undefined ? null : writeCursor(last.topic),
      };
    },
  );
}

/** The first of them by name. A search may have to look at all: others have their turn meanwhile. */
async function findFrom(
  topics: TopicBook,
  after: string,
  max: number,
  isWanted: (topic: KnownTopic) => boolean,
): Promise<readonly KnownTopic[]> {
  const found: KnownTopic[] = [];
  for (let from = after; ; await turn()) {
    const names = topics.namesAfter(from, apiLimits.topicsPerTurn);
    for (const name of names) {
      const topic = topics.get(name);
      if (topic === undefined || !isWanted(topic)) continue;
      found.push(topic);
      if (found.length === max) return found;
    }
    const last = names.at(-1);
    if (last === undefined || names.length < apiLimits.topicsPerTurn) return found;
    from = last;
  }
}

/** None of one that cannot be decrypted. */
function openedJson(topic: KnownTopic, showsValues: boolean): readonly ReturnType<typeof topicJson>[] {
  try {
    return [topicJson(topic.open(), showsValues)];
  } catch (error) {
    if (isUnreadable(error)) return [];
    throw error;
  }
}

function matches(topic: KnownTopic, search: string | undefined, owner: string | undefined): boolean {
  if (owner !== undefined && topic.owner !== owner) return false;
  const part = search?.toLowerCase();
  return (
    part === undefined ||
    [topic.topic, topic.title, topic.owner].some((text) => text.toLowerCase().includes(part))
  );
}

function writeCursor(name: string): string {
  return Buffer.from(name).toString('base64url');
}

function readCursor(cursor: string): string {
  const name = Buffer.from(cursor, 'base64url').toString();
  if (!topicNamePattern.test(name) || writeCursor(name) !== cursor)
    throw invalidField('cursor', 'is not the nextCursor of a page');
  return name;
}

/** A name that cannot exist need not be looked for. */
export function nameToFind(name: string): string {
  if (!topicNamePattern.test(name)) throw topicNotFound(name);
  return name;
}

function nameToWrite(name: string): string {
  if (topicNamePattern.test(name)) return name;
  throw invalidField('topic', topicNameRule);
}
