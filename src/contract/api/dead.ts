// Dead letters: list, requeue, purge, and groups of them by cause.

import { Type } from 'typebox';
import { limits } from '../../core/limits.ts';
import { contractLimits } from './limits.ts';
import {
  CreatedAt,
  closed,
  count,
  countedAt,
  countOrNull,
  DeadReason,
  deadMarks,
  deadTimes,
  death,
  flag,
  instant,
  instantValue,
  type JsonOf,
  LastReason,
  Missing,
  pageOf,
  pagingParams,
  problems,
  type ReplyOf,
  reply,
  TopicName,
  text,
} from './schema.ts';

const tags = ['dead letters'];

const DeadLetter = Type.Object(
  {
    ...death,
    dueAt: instant('when the last attempt was due'),
    createdAt: CreatedAt,
  },
  { title: 'DeadLetter' },
);
export type DeadLetterJson = JsonOf<typeof DeadLetter>;

const MoreMatch = flag('more dead letters match; call again');

export const listDeadSchema = {
  operationId: 'listDead',
  tags,
  summary: 'Dead letters, newest first',
  description:
    'With deadReason, lastReason or status a page can be short or empty although nextCursor is set: each call ' +
    `examines at most ${contractLimits.deadRowsMax} dead letters.`,
  querystring: closed({
    ...deadTimes,
    ...deadMarks,
    ...pagingParams,
  }),
  response: { 200: reply('a page', pageOf(DeadLetter)), ...problems(404, 503) },
};

export const requeueDeadSchema = {
  operationId: 'requeueDead',
  tags,
  summary: `Requeue dead letters, at most ${limits.bulkMax} per call`,
  body: closed(
    {
      topic: deadTimes.topic,
      since: instantValue('died then or later'),
      until: instantValue('died before'),
      ids: Type.Optional(
        Type.Array(Type.String(), {
          minItems: 1,
          maxItems: limits.bulkMax,
          description: 'only these ids; requires topic',
          examples: [['4711', '4712']],
        }),
      ),
      all: Type.Optional(
        Type.Boolean({ default: false, description: 'required without any filter', examples: [true] }),
      ),
    },
    { title: 'DeadFilter' },
  ),
  response: {
    200: reply('done', closed({ requeued: count('jobs requeued', 2), more: MoreMatch })),
    ...problems(404, 413, 415, 503),
  },
};

export const purgeDeadSchema = {
  operationId: 'purgeDead',
  tags,
  summary: `Remove dead letters for good, at most ${limits.bulkMax} per call; dq still sends their alerts`,
  querystring: closed({
    ...deadTimes,
    ids: Type.Optional(text('only these ids: a JSON list; requires topic', '["4711","4712"]')),
    all: Type.Optional(Type.Enum(['true'], { description: 'required without any filter' })),
  }),
  response: {
    200: reply('done', closed({ purged: count('jobs removed', 2), more: MoreMatch })),
    ...problems(404, 413, 503),
  },
};

const DeadGroup = closed(
  {
    topic: TopicName,
    deadReason: DeadReason,
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
  tags,
  summary: 'Dead letters by topic, dead reason, last reason and status, largest group first',
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
