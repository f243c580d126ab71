// GET /v1/jobs searches live, dead and ended jobs, page by page.

import { Type } from 'typebox';
import { formatInstant } from '../../core/duration.ts';
import { invalidField } from '../../core/errors.ts';
import { endStates, type FoundJob, jobStates } from '../../core/job.ts';
import { refusesId } from '../../core/job-id.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { pageOf, pagingParams, readLimit, rejectBadCursor } from '../http/paging.ts';
import {
  CreatedAt,
  closed,
  DueAt,
  FinishedAttempts,
  instant,
  instantText,
  JobId,
  problems,
  reply,
  TopicName,
  text,
  Version,
} from '../http/schemas.ts';
import { readFilter, requireKnownTopicOf, requireTopicOf } from './dead-filter.ts';
import { jobHead } from './job-head.ts';

const states = [...jobStates, ...endStates];

const JobSummary = closed(
  {
    topic: TopicName,
    id: JobId,
    version: Version,
    state: Type.Enum(states, { description: 'state of the job' }),
    dueAt: DueAt,
    createdAt: CreatedAt,
    attempt: FinishedAttempts,
    deadAt: Type.Optional(instant('when the job died; only for dead jobs')),
    endedAt: Type.Optional(instant('when the job ended; only for ended jobs')),
  },
  { title: 'JobSummary' },
);

const schema = {
  operationId: 'searchJobs',
  tags: ['jobs'],
  summary: 'Jobs by due time, earliest first; ended jobs by end, latest first',
  description:
    'A page can be short or empty although nextCursor is set: each call examines a bounded number of jobs.',
  querystring: closed({
    topic: Type.Optional(text('only jobs of this topic', 'order.close')),
    state: Type.Optional(
      Type.Enum(states, { description: 'only jobs in this state; default: every state but the ended ones' }),
    ),
    id: Type.Optional(text('only jobs with this id', '4711')),
    since: instantText('due then or later'),
    until: instantText('due before'),
    ...pagingParams,
  }),
  response: { 200: reply('a page', pageOf(JobSummary)), ...problems(404, 503) },
};

export function searchRoute(api: Api, { role }: ApiContext): void {
  const { jobs } = role.store;
  api.get(
    '/v1/jobs',
    { schema, config: { access: { scope: 'read', topics: 'handler' } } },
    async (request) => {
      const { limit, cursor, state, id, ...query } = request.query;
      requireTopicOf(request, query.topic);
      const wrong = id === undefined ? null : refusesId(id);
      if (wrong !== null) throw invalidField('id', wrong);
      const filter = {
        ...readFilter(query, true),
        ...(state === undefined ? {} : { state }),
        ...(id === undefined ? {} : { id }),
      };
      const page = await jobs.search(filter, readLimit(limit), cursor ?? null).catch(rejectBadCursor);
      await requireKnownTopicOf(page, cursor, role.topics, query.topic);
      return { items: page.items.map(foundJson), nextCursor: page.nextCursor, missing: page.missing };
    },
  );
}

function foundJson(job: FoundJob): object {
  return {
    ...jobHead(job),
    ...(job.deadAt === null ? {} : { deadAt: formatInstant(job.deadAt) }),
    ...(job.endedAt === null ? {} : { endedAt: formatInstant(job.endedAt) }),
  };
}
