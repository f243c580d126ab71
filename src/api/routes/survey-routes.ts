// GET /v1/horizon counts waiting jobs by due time; GET /v1/dead/groups groups dead letters by cause. Both
// cover the topics that the caller may see, and keep their answers for a while, because they examine many
// jobs.

import { Type } from 'typebox';
import { formatInstant } from '../../core/duration.ts';
import { horizonClasses } from '../../core/horizon.ts';
import type { DeadGroup, DeadGroups, Horizon } from '../../ports/job-store.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { KeptAnswers } from '../http/kept-answers.ts';
import { Missing } from '../http/paging.ts';
import { closed, count, instant, nullable, problems, reply, TopicName, text } from '../http/schemas.ts';
import { apiLimits } from '../limits.ts';
import { readFilter, requireKnownTopic } from './dead-filter.ts';
import { rejectSurvey, visibleTopics } from './survey-topics.ts';

const ofTopic = closed({ topic: Type.Optional(text('only jobs of this topic', 'order.close')) });
const at = instant('when the jobs were counted; the answer is kept for a while');

const horizonSchema = {
  operationId: 'horizon',
  tags: ['jobs'],
  summary: 'Waiting jobs by due time',
  description:
    'Counts delayed and ready jobs. A class holds the jobs that are due within its time and not within the ' +
    'time of the class before. Covers the topics that the caller may see.',
  querystring: ofTopic,
  response: {
    200: reply(
      'the classes',
      closed(
        {
          classes: Type.Array(
            closed({
              upTo: Type.Enum([...horizonClasses], { description: 'due within this time' }),
              count: count('waiting jobs', 1200),
            }),
            { description: 'all classes, the earliest first' },
          ),
          total: count('waiting jobs in all classes', 88_310),
          at,
          missing: Missing,
        },
        { title: 'Horizon' },
      ),
    ),
    ...problems(404, 503),
  },
};

const Group = closed(
  {
    topic: TopicName,
    lastReason: nullable('string', { description: 'why the last attempt failed', examples: ['status'] }),
    status: nullable('integer', { description: 'HTTP status of the last attempt', examples: [500] }),
    count: count('dead letters', 1240),
    firstAt: instant('when the oldest of them died'),
    lastAt: instant('when the newest of them died'),
    hours: Type.Array(Type.Integer({ minimum: 0 }), {
      description: 'deaths in each of the last 12 hours, the oldest hour first',
      examples: [[0, 0, 0, 0, 0, 0, 0, 0, 3, 40, 800, 397]],
    }),
  },
  { title: 'DeadGroup' },
);

const groupsSchema = {
  operationId: 'groupDead',
  tags: ['dead letters'],
  summary: 'Dead letters by topic, last reason and status, largest group first',
  description: 'Examines the newest 10,000 of each shard. Covers the topics that the caller may see.',
  querystring: ofTopic,
  response: {
    200: reply(
      'the groups',
      closed({
        groups: Type.Array(Group, { description: 'at most 200 groups' }),
        examined: count('dead letters in the groups', 1337),
        complete: Type.Boolean({
          description: 'false: older dead letters, or small groups, are not included',
          examples: [true],
        }),
        at,
        missing: Missing,
      }),
    ),
    ...problems(404, 503),
  },
};

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

  api.get('/v1/dead/groups', { schema: groupsSchema, config: { access } }, async (request) => {
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
