// GET /v1/jobs: look for jobs, live, dead and ended, page by page.

import { Type } from 'typebox';
import { formatInstant } from '../../core/duration.ts';
import { invalidField } from '../../core/errors.ts';
import { endStates, type FoundJob, jobStates } from '../../core/job.ts';
import { refusesId } from '../../core/job-id.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { pageOf, pagingParams, readLimit, refuseCursor } from '../http/paging.ts';
import { closed, Instant, instantText, problems, reply, VersionText } from '../http/schemas.ts';
import { readFilter, requireKnownTopicOf, requireTopicOf } from './dead-filter.ts';
import { jobHead } from './job-head.ts';

const states = [...jobStates, ...endStates];

const Found = closed({
  topic: Type.String(),
  id: Type.String(),
  version: VersionText,
  state: Type.Enum(states),
  dueAt: Instant,
  createdAt: Instant,
  attempt: Type.Integer({ description: 'attempts finished' }),
  deadAt: Type.Optional(Instant),
  endedAt: Type.Optional(Instant),
});

export function searchRoute(api: Api, { role }: ApiContext): void {
  const { jobs } = role.store;
  api.get(
    '/v1/jobs',
    {
      schema: {
        operationId: 'searchJobs',
        tags: ['jobs'],
        summary: 'Jobs by due time, the earliest first; ended ones from the latest end back',
        description:
          'A page may be short, or empty, and have a next one: each call looks at a bounded number of jobs.',
        querystring: closed({
          topic: Type.Optional(Type.String()),
          state: Type.Optional(Type.Enum(states, { description: 'all but the ended ones when not given' })),
          id: Type.Optional(Type.String()),
          since: instantText('due then or later'),
          until: instantText('due before'),
          ...pagingParams,
        }),
        response: { 200: reply('a page', pageOf(Found)), ...problems(404, 503) },
      },
      config: { access: { scope: 'read', topics: 'handler' } },
    },
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
      const page = await jobs.search(filter, readLimit(limit), cursor ?? null).catch(refuseCursor);
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
