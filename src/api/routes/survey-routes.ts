// GET /v1/horizon counts waiting jobs by due time; GET /v1/dead/groups groups dead letters by cause. Both
// cover the topics that the caller may see, and keep their answers for a while, because they examine many
// jobs. Has what every route of a survey needs.

import type { FastifyRequest } from 'fastify';
import { groupDeadSchema, horizonSchema } from '../../contract/api/survey.ts';
import { formatInstant } from '../../core/duration.ts';
import { DqError, invalidField } from '../../core/errors.ts';
import { horizonClasses } from '../../core/survey.ts';
import { reachesEveryTopic } from '../../core/token.ts';
import type { DeadGroup, DeadGroups, Horizon } from '../../ports/job-store.ts';
import { StoreError } from '../../ports/store-error.ts';
import type { RoleContext } from '../../process/role.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { KeptAnswers } from '../http/kept-answers.ts';
import { mayTouch, needs, requireTopic, rightsOf } from '../http/route-access.ts';
import { apiLimits } from '../limits.ts';
import { readFilter, requireKnownTopic } from './dead-filter.ts';

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
    if (answer.total === 0) await requireKnownTopic(role.topics, topic);
    return answer;
  });

  api.get('/v1/dead/groups', { schema: groupDeadSchema, config }, async (request) => {
    const { reason, lastReason, status, ...query } = request.query;
    const { topic, ...times } = readFilter(query, true);
    const topics = await visibleTopics(request, role, topic);
    const selection = { ...times, reason, lastReason, status };
    const answer = await groups
      .of(JSON.stringify([topics, selection]), async () =>
        groupsJson(await surveys.deadGroups(topics, selection), now()),
      )
      .catch(rejectSurvey);
    if (answer.examined === 0) await requireKnownTopic(role.topics, topic);
    return answer;
  });
}

/** The given topic, or those with jobs that the caller may see; null: all topics. Throws DqError. */
export async function visibleTopics(
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
export function rejectSurvey(error: unknown): never {
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

function groupJson({ buryReason, firstAt, lastAt, ...group }: DeadGroup) {
  return { ...group, reason: buryReason, firstAt: formatInstant(firstAt), lastAt: formatInstant(lastAt) };
}
