// /v1/dead: look at dead letters and bring them back.

import type { FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { formatInstant, parseInstant } from '../core/duration.ts';
import { DqError, type FieldError, invalidField } from '../core/errors.ts';
import type { JobSnapshot } from '../core/job.ts';
import { refusesId } from '../core/job-id.ts';
import { limits } from '../core/limits.ts';
import { topicNamePattern } from '../core/topic.ts';
import { type DeadFilter, StoreError } from '../store/job-store.ts';
import type { Api, IntakeContext } from './intake-context.ts';
import { pageOf, pagingParams, readLimit } from './paging.ts';
import { requireEveryTopic, requireTopic } from './route-access.ts';
import { closed, Instant, instantText, problems, reply, VersionText } from './schemas.ts';

const tags = ['dead letters'];
const nullable = (type: string) => Type.Unsafe<unknown>({ type: [type, 'null'] });

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

interface RawFilter {
  readonly topic?: string;
  readonly since?: string | number;
  readonly until?: string | number;
  readonly ids?: readonly string[];
}

export function deadRoutes(api: Api, { role }: IntakeContext): void {
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
          ...problems(503),
        },
      },
      config: { access: { scope: 'read', topics: 'handler' } },
    },
    async (request) => {
      const { limit, cursor, ...query } = request.query;
      requireTopicOf(request, query.topic);
      const items = readLimit(limit);
      const page = await dead.list(readFilter(query, true), items, cursor ?? null).catch((error: unknown) => {
        if (error instanceof StoreError && error.failure.code === 'bad_cursor')
          throw invalidField('cursor', 'is not the nextCursor of a page');
        throw error;
      });
      return { items: page.items.map(deadJson), nextCursor: page.nextCursor };
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
          ...problems(413, 415, 503),
        },
      },
      config: { access: { scope: 'operate', topics: 'handler' } },
    },
    async (request) => {
      const { all, ...filter } = request.body;
      requireTopicOf(request, filter.topic);
      if (all !== true && Object.keys(filter).length === 0)
        throw refuse([{ field: 'all', message: 'must be true when there is no filter' }]);
      return dead.requeue(readFilter(filter, false), limits.bulkMax);
    },
  );
}

/** A filter without a topic is about every topic. */
function requireTopicOf(request: FastifyRequest, topic: string | undefined): void {
  if (topic === undefined) requireEveryTopic(request, 'name a topic');
  else requireTopic(request, topic);
}

function readFilter(raw: RawFilter, fromQuery: boolean): DeadFilter {
  const errors: FieldError[] = [];
  const instant = (field: 'since' | 'until') => {
    if (raw[field] === undefined) return {};
    const parsed = parseInstant(raw[field], fromQuery);
    if (parsed.ok) return { [field]: parsed.value };
    errors.push({ field, message: parsed.message });
    return {};
  };
  const filter: DeadFilter = {
    ...(raw.topic === undefined ? {} : { topic: raw.topic }),
    ...instant('since'),
    ...instant('until'),
    ...(raw.ids === undefined ? {} : { ids: raw.ids }),
  };
  if (raw.topic !== undefined && !topicNamePattern.test(raw.topic))
    errors.push({ field: 'topic', message: 'is no name of a topic' });
  if (raw.ids !== undefined && raw.topic === undefined)
    errors.push({ field: 'topic', message: 'is needed where ids are given' });
  raw.ids?.forEach((id, index) => {
    const wrong = refusesId(id);
    if (wrong !== null) errors.push({ field: `ids[${index}]`, message: wrong });
  });
  if (errors.length > 0) throw refuse(errors);
  return filter;
}

function refuse(errors: readonly FieldError[]): DqError {
  const [first] = errors;
  return new DqError('invalid', `${first?.field}: ${first?.message}`, { errors });
}

function deadJson(job: JobSnapshot): object {
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
