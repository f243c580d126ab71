// /v1/dead: list, requeue and purge dead letters.

import type { FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { shownFilter } from '../../core/audit.ts';
import { formatInstant } from '../../core/duration.ts';
import { attemptReasons } from '../../core/job.ts';
import { limits } from '../../core/limits.ts';
import type { DeadLetter as StoredDeadLetter } from '../../ports/job-store.ts';
import { deadMatcher, findDead } from '../../use-cases/find-dead.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { auditNote } from '../http/audit-note.ts';
import { pageOf, pagingParams, readLimit, rejectBadCursor } from '../http/paging.ts';
import {
  CreatedAt,
  closed,
  count,
  DeadReason,
  FinishedAttempts,
  instant,
  instantText,
  JobId,
  nullable,
  problems,
  reply,
  TopicName,
  text,
  Version,
} from '../http/schemas.ts';
import { apiLimits } from '../limits.ts';
import {
  type RawDeadFilter,
  readFilter,
  readIds,
  requireFilter,
  requireKnownTopic,
  requireKnownTopicOf,
  requireTopicOf,
} from './dead-filter.ts';

const tags = ['dead letters'];

const DeadLetter = Type.Object(
  {
    topic: TopicName,
    id: JobId,
    version: Version,
    deadAt: instant('when the job died'),
    reason: DeadReason,
    lastReason: nullable('string', { description: 'why the last attempt failed', examples: ['status'] }),
    status: nullable('integer', { description: 'HTTP status of the last attempt', examples: [500] }),
    attempt: FinishedAttempts,
    replyExcerpt: text('start of the reply to the last attempt', 'internal error'),
    dueAt: instant('when the last attempt was due'),
    createdAt: CreatedAt,
  },
  { title: 'DeadLetter' },
);

const ofTopic = Type.Optional(text('only jobs of this topic', 'order.close'));
const More = Type.Boolean({ description: 'more dead letters match; call again', examples: [false] });
const filterQuery = {
  topic: ofTopic,
  since: instantText('died then or later'),
  until: instantText('died before'),
};

const listSchema = {
  operationId: 'listDead',
  tags,
  summary: 'Dead letters, newest first',
  description:
    'With reason, lastReason or status a page can be short or empty although nextCursor is set: each call ' +
    `examines at most ${apiLimits.deadRowsMax} dead letters.`,
  querystring: closed({
    ...filterQuery,
    reason: Type.Optional(DeadReason),
    lastReason: Type.Optional(
      Type.Enum([...attemptReasons], { description: 'why the last attempt failed', examples: ['status'] }),
    ),
    status: Type.Optional(
      Type.String({
        pattern: '^([1-9]\\d\\d|[1-9]xx|none)$',
        description: 'an HTTP status of the last attempt such as 500, a class such as 5xx, or none',
        examples: ['5xx'],
      }),
    ),
    ...pagingParams,
  }),
  response: { 200: reply('a page', pageOf(DeadLetter)), ...problems(404, 503) },
};

const instantValue = (description: string) =>
  Type.Optional(
    Type.Unsafe<string | number>({
      type: ['string', 'integer'],
      description: `${description}: RFC 3339 with an offset, or epoch milliseconds`,
      examples: ['2030-01-01T08:00:00+08:00'],
    }),
  );
const requeueSchema = {
  operationId: 'requeueDead',
  tags,
  summary: `Requeue dead letters, at most ${limits.bulkMax} per call`,
  body: closed(
    {
      topic: ofTopic,
      since: instantValue('died then or later'),
      until: instantValue('died before'),
      ids: Type.Optional(
        Type.Array(Type.String(), {
          minItems: 1,
          maxItems: limits.bulkMax,
          description: 'only these ids; requires topic',
          examples: [['4711', '4712']],
        }),
      ),
      all: Type.Optional(
        Type.Boolean({ default: false, description: 'required without any filter', examples: [true] }),
      ),
    },
    { title: 'DeadFilter' },
  ),
  response: {
    200: reply('done', closed({ requeued: count('jobs requeued', 2), more: More })),
    ...problems(404, 413, 415, 503),
  },
};

const purgeSchema = {
  operationId: 'purgeDead',
  tags,
  summary: `Remove dead letters for good, at most ${limits.bulkMax} per call; dq still sends their alerts`,
  querystring: closed({
    ...filterQuery,
    ids: Type.Optional(text('only these ids: a JSON list; requires topic', '["4711","4712"]')),
    all: Type.Optional(Type.Enum(['true'], { description: 'required without any filter' })),
  }),
  response: {
    200: reply('done', closed({ purged: count('jobs removed', 2), more: More })),
    ...problems(404, 413, 503),
  },
};

export function deadRoutes(api: Api, { role }: ApiContext): void {
  const { dead } = role.store;
  const operate = { access: { scope: 'operate', topics: 'handler' } } as const;

  api.get(
    '/v1/dead',
    { schema: listSchema, config: { access: { scope: 'read', topics: 'handler' } } },
    async (request) => {
      const { limit, cursor, reason, lastReason, status, ...query } = request.query;
      requireTopicOf(request, query.topic);
      const filter = readFilter(query, true);
      const isWanted = deadMatcher({ reason, lastReason, status });
      const page = await findDead(dead, filter, isWanted, {
        limit: readLimit(limit),
        cursor: cursor ?? null,
        rowsMax: apiLimits.deadRowsMax,
      }).catch(rejectBadCursor);
      await requireKnownTopicOf(page, cursor, role.topics, query.topic);
      return { items: page.items.map(deadJson), nextCursor: page.nextCursor, missing: page.missing };
    },
  );

  api.post('/v1/dead/requeue', { schema: requeueSchema, config: operate }, async (request) => {
    const { all, ...filter } = request.body;
    requireTopicOf(request, filter.topic);
    requireFilter(filter, all === true);
    const outcome = await dead.requeue(readFilter(filter, false), limits.bulkMax);
    noteFilter(request, filter, outcome.requeued);
    if (outcome.requeued === 0) await requireKnownTopic(role.topics, filter.topic);
    return outcome;
  });

  api.delete('/v1/dead', { schema: purgeSchema, config: operate }, async (request) => {
    const { all, ids, ...rest } = request.query;
    requireTopicOf(request, rest.topic);
    const filter = { ...rest, ...(ids === undefined ? {} : { ids: readIds(ids) }) };
    requireFilter(filter, all === 'true');
    const outcome = await dead.purge(readFilter(filter, true), limits.bulkMax);
    noteFilter(request, filter, outcome.purged);
    if (outcome.purged === 0) await requireKnownTopic(role.topics, rest.topic);
    return outcome;
  });
}

function noteFilter(request: FastifyRequest, { topic, ...filter }: RawDeadFilter, count: number): void {
  auditNote(request, { topic, detail: { filter: shownFilter({ ...filter }) ?? {}, count } });
}

function deadJson(job: StoredDeadLetter): object {
  const last = job.attempts.at(-1);
  return {
    topic: job.topic,
    id: job.id,
    version: String(job.version),
    deadAt: formatInstant(job.deadAt ?? job.dueAt),
    reason: job.buryReason,
    lastReason: last?.reason ?? null,
    status: last?.status ?? null,
    attempt: job.failures,
    replyExcerpt: last?.replyExcerpt ?? '',
    dueAt: formatInstant(job.dueAt),
    createdAt: formatInstant(job.acceptedAt),
  };
}
