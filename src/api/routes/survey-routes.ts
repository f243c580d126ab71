// GET /v1/horizon counts waiting jobs by due time; GET /v1/dead/groups groups dead letters by cause. Both
// cover the topics that the caller may see, and keep their answers for a while, because they examine many
// jobs.

import { groupDeadSchema, horizonSchema } from '../../contract/api/survey.ts';
import { formatInstant } from '../../core/duration.ts';
import { horizonClasses } from '../../core/horizon.ts';
import type { DeadGroup, DeadGroups, Horizon } from '../../ports/job-store.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { KeptAnswers } from '../http/kept-answers.ts';
import { apiLimits } from '../limits.ts';
import { readFilter, requireKnownTopic } from './dead-filter.ts';
import { rejectSurvey, visibleTopics } from './survey-topics.ts';

export function surveyRoutes(api: Api, { role }: ApiContext): void {
  const { surveys } = role.store;
  const access = { scope: 'read', topics: 'handler' } as const;
  const now = () => role.clock.now();
  const horizons = new KeptAnswers<ReturnType<typeof horizonJson>>(({ total, missing }) => {
    if (missing !== undefined) return apiLimits.deadGroupsMs;
    return total > apiLimits.horizonJobsMany ? apiLimits.horizonManyMs : apiLimits.horizonMs;
  });
  const groups = new KeptAnswers<ReturnType<typeof groupsJson>>(() => apiLimits.deadGroupsMs);

  api.get('/v1/horizon', { schema: horizonSchema, config: { access } }, async (request) => {
    const { topic } = readFilter(request.query, true);
    const topics = await visibleTopics(request, role, topic);
    const answer = await horizons
      .of(JSON.stringify(topics), async () => horizonJson(await surveys.horizon(topics), now()))
      .catch(rejectSurvey);
    if (answer.total === 0) await requireKnownTopic(role.topics, topic);
    return answer;
  });

  api.get('/v1/dead/groups', { schema: groupDeadSchema, config: { access } }, async (request) => {
    const { topic } = readFilter(request.query, true);
    const topics = await visibleTopics(request, role, topic);
    const answer = await groups
      .of(JSON.stringify(topics), async () => groupsJson(await surveys.deadGroups(topics), now()))
      .catch(rejectSurvey);
    if (answer.examined === 0) await requireKnownTopic(role.topics, topic);
    return answer;
  });
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
