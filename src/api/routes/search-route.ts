// GET /v1/jobs searches live, dead and ended jobs, page by page. With idPrefix or body it is a scan, which
// examines jobs for at most apiLimits.scanMs per call.

import { Type } from 'typebox';
import { formatInstant } from '../../core/duration.ts';
import { invalidField } from '../../core/errors.ts';
import { endStates, type FoundJob, type JobState, jobStates } from '../../core/job.ts';
import { refusesId } from '../../core/job-id.ts';
import { limits } from '../../core/limits.ts';
import type { ScanFilter } from '../../ports/job-store.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { pageOf, pagingParams, readLimit, rejectBadCursor } from '../http/paging.ts';
import {
  CreatedAt,
  closed,
  count,
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
import { apiLimits } from '../limits.ts';
import { readFilter, requireKnownTopicOf, requireTopicOf } from './dead-filter.ts';
import { jobHead } from './job-head.ts';
import { rejectSurvey, visibleTopics } from './survey-topics.ts';

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

const Scanned = closed(
  {
    jobs: count('jobs that this call examined', 31_000),
    of: count('about how many the whole search examines', 1_000_000),
  },
  { description: 'only with idPrefix or body' },
);

const schema = {
  operationId: 'searchJobs',
  tags: ['jobs'],
  summary: 'Jobs by due time, earliest first; ended jobs by end, latest first',
  description:
    'A page can be short or empty although nextCursor is set: each call examines a bounded number of jobs. ' +
    'A search by idPrefix or body covers the topics that the caller may see, and has no order; on Redis a page ' +
    'can be longer than limit.',
  querystring: closed({
    topic: Type.Optional(text('only jobs of this topic', 'order.close')),
    state: Type.Optional(
      Type.Enum(states, { description: 'only jobs in this state; default: every state but the ended ones' }),
    ),
    id: Type.Optional(text('only jobs with this id', '4711')),
    idPrefix: Type.Optional(text('only jobs whose id begins with this; no ended jobs', 'vip-2026')),
    body: Type.Optional(
      text(
        `only jobs with this part in their body: ${limits.bodyPartBytesMin}–${limits.bodyPartBytesMax} bytes of UTF-8; no ended jobs`,
        '"order":88120',
      ),
    ),
    since: instantText('due then or later'),
    until: instantText('due before'),
    ...pagingParams,
  }),
  response: {
    200: reply('a page', pageOf(JobSummary, { scanned: Type.Optional(Scanned) })),
    ...problems(404, 503),
  },
};

export function searchRoute(api: Api, { role }: ApiContext): void {
  const { jobs, surveys } = role.store;
  api.get(
    '/v1/jobs',
    { schema, config: { access: { scope: 'read', topics: 'handler' } } },
    async (request) => {
      const { limit, cursor, state, id, idPrefix, body, ...query } = request.query;
      if (idPrefix !== undefined || body !== undefined) {
        const filter = { ...readScan(request.query), ...readFilter(query, true) };
        const topics = await visibleTopics(request, role, query.topic);
        const page = await surveys
          .scan(scanOf(filter, topics), readLimit(limit), cursor ?? null, apiLimits.scanMs)
          .catch(rejectBadCursor)
          .catch(rejectSurvey);
        await requireKnownTopicOf(page, cursor, role.topics, query.topic);
        const { nextCursor, missing, scanned } = page;
        return { items: page.items.map(foundJson), nextCursor, missing, scanned };
      }
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

type RawScan = {
  readonly [K in 'state' | 'id' | 'idPrefix' | 'body']?: string;
};

/** Throws DqError invalid. */
function readScan({ state, id, idPrefix, body }: RawScan): Omit<ScanFilter, 'topics'> {
  if (id !== undefined) throw invalidField('id', 'must not be given with idPrefix or body');
  if (state !== undefined && !isJobState(state))
    throw invalidField('state', `must be one of ${jobStates.join(', ')} with idPrefix or body`);
  // Each prefix of an id is an id, apart from the dots.
  const wrong = idPrefix === undefined || /^\.\.?$/.test(idPrefix) ? null : refusesId(idPrefix);
  if (wrong !== null) throw invalidField('idPrefix', wrong);
  const { bodyPartBytesMin: least, bodyPartBytesMax: most } = limits;
  const bytes = Buffer.from(body ?? '');
  if (body !== undefined && (bytes.length < least || bytes.length > most))
    throw invalidField('body', `must be ${least} to ${most} bytes of UTF-8`);
  return {
    ...(state === undefined ? {} : { state }),
    ...(idPrefix === undefined ? {} : { idPrefix }),
    ...(body === undefined ? {} : { body: bytes.toString('base64') }),
  };
}

const isJobState = (state: string): state is JobState => (jobStates as readonly string[]).includes(state);

function scanOf(
  { topic: _, ...filter }: Omit<ScanFilter, 'topics'> & { readonly topic?: string },
  topics: readonly string[] | null,
): ScanFilter {
  return topics === null ? filter : { ...filter, topics };
}

function foundJson(job: FoundJob): object {
  return {
    ...jobHead(job),
    ...(job.deadAt === null ? {} : { deadAt: formatInstant(job.deadAt) }),
    ...(job.endedAt === null ? {} : { endedAt: formatInstant(job.endedAt) }),
  };
}
