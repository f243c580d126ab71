// /v1/dead: look at dead letters, bring them back, remove them.

import { Type } from 'typebox';
import { formatInstant } from '../../core/duration.ts';
import { limits } from '../../core/limits.ts';
import type { DeadLetter as StoredDeadLetter } from '../../ports/job-store.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { pageOf, pagingParams, readLimit, refuseCursor } from '../http/paging.ts';
import { closed, Instant, instantText, nullable, problems, reply, VersionText } from '../http/schemas.ts';
import {
  readFilter,
  readIds,
  requireFilter,
  requireKnownTopic,
  requireKnownTopicOf,
  requireTopicOf,
} from './dead-filter.ts';

const tags = ['dead letters'];

const DeadLetter = Type.Object({
  topic: Type.String(),
  id: Type.String(),
  version: VersionText,
  deadAt: Instant,
  reason: Type.Enum(['attempts_exhausted', 'gone', 'no_retry', 'poison']),
  status: nullable('integer'),
  attempt: Type.Integer({ description: 'attempts finished' }),
  replyExcerpt: Type.String({ description: 'of the last attempt' }),
  dueAt: Instant,
  createdAt: Instant,
});

const instantValue = Type.Unsafe<string | number>({
  type: ['string', 'integer'],
  description: 'RFC 3339 with an offset, or epoch milliseconds',
});

export function deadRoutes(api: Api, { role }: ApiContext): void {
  const { dead } = role.store;

  api.get(
    '/v1/dead',
    {
      schema: {
        operationId: 'listDead',
        tags,
        summary: 'Dead letters, newest death first',
        querystring: closed({
          topic: Type.Optional(Type.String()),
          since: instantText('died then or later'),
          until: instantText('died before'),
          ...pagingParams,
        }),
        response: {
          200: reply('a page', pageOf(DeadLetter)),
          ...problems(404, 503),
        },
      },
      config: { access: { scope: 'read', topics: 'handler' } },
    },
    async (request) => {
      const { limit, cursor, ...query } = request.query;
      requireTopicOf(request, query.topic);
      const items = readLimit(limit);
      const page = await dead.list(readFilter(query, true), items, cursor ?? null).catch(refuseCursor);
      await requireKnownTopicOf(page, cursor, role.topics, query.topic);
      return { items: page.items.map(deadJson), nextCursor: page.nextCursor, missing: page.missing };
    },
  );

  api.post(
    '/v1/dead/requeue',
    {
      schema: {
        operationId: 'requeueDead',
        tags,
        summary: `Bring dead letters back, at most ${limits.bulkMax} per call`,
        body: closed({
          topic: Type.Optional(Type.String()),
          since: Type.Optional(instantValue),
          until: Type.Optional(instantValue),
          ids: Type.Optional(
            Type.Array(Type.String(), { minItems: 1, maxItems: limits.bulkMax, description: 'needs topic' }),
          ),
          all: Type.Optional(Type.Boolean({ description: 'needed when there is no filter at all' })),
        }),
        response: {
          200: reply('done', closed({ requeued: Type.Integer(), more: Type.Boolean() })),
          ...problems(404, 413, 415, 503),
        },
      },
      config: { access: { scope: 'operate', topics: 'handler' } },
    },
    async (request) => {
      const { all, ...filter } = request.body;
      requireTopicOf(request, filter.topic);
      requireFilter(filter, all === true);
      const outcome = await dead.requeue(readFilter(filter, false), limits.bulkMax);
      if (outcome.requeued === 0) await requireKnownTopic(role.topics, filter.topic);
      return outcome;
    },
  );

  api.delete(
    '/v1/dead',
    {
      schema: {
        operationId: 'purgeDead',
        tags,
        summary: `Remove dead letters for good, at most ${limits.bulkMax} per call; their alerts are still sent`,
        querystring: closed({
          topic: Type.Optional(Type.String()),
          since: instantText('died then or later'),
          until: instantText('died before'),
          ids: Type.Optional(Type.String({ description: 'a JSON list of ids; needs topic' })),
          all: Type.Optional(Type.Enum(['true'], { description: 'needed when there is no filter at all' })),
        }),
        response: {
          200: reply('done', closed({ purged: Type.Integer(), more: Type.Boolean() })),
          ...problems(404, 413, 503),
        },
      },
      config: { access: { scope: 'operate', topics: 'handler' } },
    },
    async (request) => {
      const { all, ids, ...rest } = request.query;
      requireTopicOf(request, rest.topic);
      const filter = { ...rest, ...(ids === undefined ? {} : { ids: readIds(ids) }) };
      requireFilter(filter, all === 'true');
      const outcome = await dead.purge(readFilter(filter, true), limits.bulkMax);
      if (outcome.purged === 0) await requireKnownTopic(role.topics, rest.topic);
      return outcome;
    },
  );
}

function deadJson(job: StoredDeadLetter): object {
  const last = job.attempts.at(-1);
  return {
    topic: job.topic,
    id: job.id,
    version: String(job.version),
    deadAt: formatInstant(job.deadAt ?? job.dueAt),
    reason: job.buryReason,
    status: last?.status ?? null,
    attempt: job.failures,
    replyExcerpt: last?.replyExcerpt ?? '',
    dueAt: formatInstant(job.dueAt),
    createdAt: formatInstant(job.acceptedAt),
  };
}
