// Calls that look at many jobs. GET /v1/jobs searches live, dead and ended jobs, page by page; with idPrefix
// or body it is a scan, which examines jobs for at most apiLimits.scanMs per call. GET /v1/horizon counts
// waiting jobs by due time; GET /v1/dead/groups groups dead letters by cause. They cover the topics that the
// caller may see; counts keep their answers for a while.

import type { FastifyRequest } from 'fastify';
import { groupDeadSchema } from '../../contract/api/dead.ts';
import { searchJobsSchema } from '../../contract/api/job.ts';
import { horizonSchema } from '../../contract/api/stats.ts';
import { formatInstant } from '../../core/duration.ts';
import { DqError, invalidField } from '../../core/errors.ts';
import { type FoundJob, type JobState, jobStates } from '../../core/job.ts';
import { refusesId } from '../../core/job-id.ts';
import { type HeldCode, heldBy } from '../../core/job-why.ts';
import { limits } from '../../core/limits.ts';
import { horizonClasses } from '../../core/survey.ts';
import { reachesEveryTopic } from '../../core/token.ts';
import type { DeadGroup, DeadGroups, Horizon, ScanFilter } from '../../ports/job-store.ts';
import { StoreError } from '../../ports/store-error.ts';
import type { RoleContext } from '../../process/role.ts';
import { jobHead } from '../../use-cases/find-job.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { KeptAnswers } from '../http/kept-answers.ts';
import { readLimit, rejectBadCursor } from '../http/request-head.ts';
import { mayTouch, needs, requireTopic, rightsOf } from '../http/route-access.ts';
import { apiLimits } from '../limits.ts';
import { readFilter, requireKnownTopic, requireKnownTopicOf, requireTopicOf } from './dead-filter.ts';
import { judgedTopic } from './job-facts.ts';

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
      await requireKnownTopicOf(page, cursor, role, query.topic);
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
    await requireKnownTopicOf(page, cursor, role, query.topic);
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

export function surveyRoutes(api: Api, { role }: ApiContext): void {
  const { surveys } = role.store;
  const config = needs('read', 'handler');
  const now = () => role.clock.now();
  const horizons = new KeptAnswers<ReturnType<typeof horizonJson>>(({ total, missing }) => {
    if (missing !== undefined) return apiLimits.deadGroupsMs;
    return total > apiLimits.horizonJobsMany ? apiLimits.horizonManyMs : apiLimits.horizonMs;
  });
  const groups = new KeptAnswers<ReturnType<typeof groupsJson>>(() => apiLimits.deadGroupsMs);

  api.get('/v1/horizon', { schema: horizonSchema, config }, async (request) => {
    const { topic } = readFilter(request.query, true);
    const topics = await visibleTopics(request, role, topic);
    const answer = await horizons
      .of(JSON.stringify(topics), async () => horizonJson(await surveys.horizon(topics), now()))
      .catch(rejectSurvey);
    if (answer.total === 0) await requireKnownTopic(role, topic);
    return answer;
  });

  api.get('/v1/dead/groups', { schema: groupDeadSchema, config }, async (request) => {
    const { deadReason, lastReason, status, ...query } = request.query;
    const { topic, ...times } = readFilter(query, true);
    const topics = await visibleTopics(request, role, topic);
    const selection = { ...times, deadReason, lastReason, status };
    const answer = await groups
      .of(JSON.stringify([topics, selection]), async () =>
        groupsJson(await surveys.deadGroups(topics, selection), now()),
      )
      .catch(rejectSurvey);
    if (answer.examined === 0) await requireKnownTopic(role, topic);
    return answer;
  });
}

/** The given topic, or those with jobs that the caller may see; null: all topics. Throws DqError. */
async function visibleTopics(
  request: FastifyRequest,
  { store }: RoleContext,
  topic: string | undefined,
): Promise<readonly string[] | null> {
  if (topic !== undefined) {
    requireTopic(request, topic);
    return [topic];
  }
  if (reachesEveryTopic(rightsOf(request))) return null;
  const { topics } = await store.admin.counts();
  const visible = Object.keys(topics).filter((name) => mayTouch(request, name));
  if (visible.length > apiLimits.surveyTopicsMax)
    throw invalidField(
      'topic',
      `is required: this token covers more than ${apiLimits.surveyTopicsMax} topics`,
    );
  return visible.sort();
}

/** Rejection handler of a survey. */
function rejectSurvey(error: unknown): never {
  const code = error instanceof StoreError ? error.failure.code : null;
  if (code === 'survey_busy')
    throw new DqError('survey_busy', 'too many searches at once; try again in a second', { cause: error });
  if (code === 'survey_too_long')
    throw new DqError('unavailable', 'the store has too many jobs for this survey; name a topic', {
      cause: error,
    });
  throw error;
}

function horizonJson({ counts, missing }: Horizon, now: number) {
  const classes = horizonClasses.map((upTo, i) => ({ upTo, count: counts[i] ?? 0 }));
  const total = counts.reduce((sum, number) => sum + number, 0);
  return { classes, total, at: formatInstant(now), missing };
}

function groupsJson({ groups, ...rest }: DeadGroups, now: number) {
  return { groups: groups.map(groupJson), ...rest, at: formatInstant(now) };
}

function groupJson({ firstAt, lastAt, ...group }: DeadGroup) {
  return { ...group, firstAt: formatInstant(firstAt), lastAt: formatInstant(lastAt) };
}
