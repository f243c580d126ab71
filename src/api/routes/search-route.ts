// GET /v1/jobs searches live, dead and ended jobs, page by page. With idPrefix or body it is a scan, which
// examines jobs for at most apiLimits.scanMs per call.

import { searchJobsSchema } from '../../contract/api/job.ts';
import { formatInstant } from '../../core/duration.ts';
import { invalidField } from '../../core/errors.ts';
import { type FoundJob, type JobState, jobStates } from '../../core/job.ts';
import { refusesId } from '../../core/job-id.ts';
import { type HeldCode, heldBy } from '../../core/job-why.ts';
import { limits } from '../../core/limits.ts';
import type { ScanFilter } from '../../ports/job-store.ts';
import { jobHead } from '../../use-cases/find-job.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { readLimit, rejectBadCursor } from '../http/paging.ts';
import { needs } from '../http/route-access.ts';
import { apiLimits } from '../limits.ts';
import { readFilter, requireKnownTopicOf, requireTopicOf } from './dead-filter.ts';
import { judgedTopic } from './job-facts.ts';
import { rejectSurvey, visibleTopics } from './survey-routes.ts';

export function searchRoute(api: Api, { role }: ApiContext): void {
  const { jobs, surveys } = role.store;
  const shown = (job: FoundJob) => foundJson(job, heldBy(judgedTopic(role.topics, job.topic)));
  api.get('/v1/jobs', { schema: searchJobsSchema, config: needs('read', 'handler') }, async (request) => {
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
      return { items: page.items.map(shown), nextCursor, missing, scanned };
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
    return { items: page.items.map(shown), nextCursor: page.nextCursor, missing: page.missing };
  });
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

function foundJson(job: FoundJob, held: HeldCode | null) {
  const waits = job.state === 'ready' || job.state === 'delayed';
  return {
    ...jobHead(job),
    ...(waits && held !== null ? { held } : {}),
    ...(job.deadAt === null ? {} : { deadAt: formatInstant(job.deadAt) }),
    ...(job.endedAt === null ? {} : { endedAt: formatInstant(job.endedAt) }),
  };
}
