// Surveys of many jobs: waiting jobs by due time, dead letters by cause.

import { Type } from 'typebox';
import { horizonClasses } from '../../core/survey.ts';
import {
  closed,
  count,
  countOrNull,
  DeadReason,
  deadMarks,
  deadTimes,
  flag,
  instant,
  type JsonOf,
  LastReason,
  Missing,
  problems,
  type ReplyOf,
  reply,
  TopicName,
} from './schema.ts';

const countedAt = instant('when the jobs were counted; the answer is kept for a while');

export const horizonSchema = {
  operationId: 'horizon',
  tags: ['jobs'],
  summary: 'Waiting jobs by due time',
  description:
    'Counts delayed and ready jobs. A class holds the jobs that are due within its time and not within the ' +
    'time of the class before. Covers the topics that the caller may see.',
  querystring: closed({ topic: deadTimes.topic }),
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
          at: countedAt,
          missing: Missing,
        },
        { title: 'Horizon' },
      ),
    ),
    ...problems(404, 503),
  },
};
export type HorizonJson = ReplyOf<typeof horizonSchema>;

const DeadGroup = closed(
  {
    topic: TopicName,
    reason: DeadReason,
    lastReason: LastReason,
    status: countOrNull('HTTP status of the last attempt', 500),
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
export type DeadGroupJson = JsonOf<typeof DeadGroup>;

export const groupDeadSchema = {
  operationId: 'groupDead',
  tags: ['dead letters'],
  summary: 'Dead letters by topic, reason, last reason and status, largest group first',
  description:
    'Examines the newest 10,000 of each shard that died before `until`. Covers the topics that the caller may see.',
  querystring: closed({ ...deadTimes, ...deadMarks }),
  response: {
    200: reply(
      'the groups',
      closed({
        groups: Type.Array(DeadGroup, { description: 'at most 200 groups' }),
        examined: count('dead letters in the groups', 1337),
        complete: flag('false: older dead letters, or small groups, are not included', true),
        at: countedAt,
        missing: Missing,
      }),
    ),
    ...problems(404, 503),
  },
};
export type DeadGroupsJson = ReplyOf<typeof groupDeadSchema>;
