// Schedules: recurring jobs.

import { Type } from 'typebox';
import { scheduleNamePattern } from '../../core/schedule.ts';
import {
  closed,
  FieldProblem,
  flag,
  instant,
  instantOrNull,
  type JsonOf,
  pageOf,
  pagingParams,
  problems,
  reply,
  TopicName,
  text,
  textOrNull,
  yes,
} from './schema.ts';

const tags = ['schedules'];

/** of the instants that a schedule shows */
export const shownTicks = 10;

const ScheduleName = Type.String({
  pattern: scheduleNamePattern.source,
  description: '1 to 64 of A-Z a-z 0-9 . _ - beginning with a letter or digit',
  examples: ['daily-report'],
});

const settings = {
  cron: Type.Optional(
    text(
      '5 fields: minute hour day month weekday, or @hourly @daily @weekly @monthly @yearly',
      '0 9 * * 1-5',
    ),
  ),
  every: Type.Optional(text('in place of cron: a duration from 1s, counted from the creation', '10m')),
  timezone: Type.Optional(text('IANA name, for cron; default: the option timezone', 'Asia/Shanghai')),
  body: Type.Optional(
    Type.Unknown({
      description: 'body of each job; any JSON, or a text with another contentType',
      examples: [{}],
    }),
  ),
  contentType: Type.Optional(
    Type.String({
      description: 'of the body',
      default: 'application/json',
      examples: ['application/json'],
    }),
  ),
  missed: Type.Optional(
    Type.Enum(['skip', 'last'], {
      description: 'what to do with instants that dq missed by over a minute: nothing, or make the last one',
      default: 'skip',
    }),
  ),
  paused: Type.Optional(
    Type.Boolean({ description: 'make no jobs, as after pause', default: false, examples: [false] }),
  ),
};

export const ScheduleInput = closed(
  { name: ScheduleName, topic: TopicName, ...settings },
  { title: 'ScheduleInput' },
);

const SchedulePatch = closed({ topic: Type.Optional(TopicName), ...settings }, { title: 'SchedulePatch' });

const Schedule = Type.Object(
  {
    name: ScheduleName,
    topic: TopicName,
    cron: textOrNull('null: every', '0 9 * * 1-5'),
    every: textOrNull('null: cron'),
    timezone: text('of cron', 'Asia/Shanghai'),
    body: text('body of each job', '{}'),
    contentType: textOrNull('of the body', 'application/json'),
    missed: Type.Enum(['skip', 'last'], { description: 'policy for missed instants' }),
    paused: flag('makes no jobs'),
    nextAt: instantOrNull('the next instant; null: paused, or none follows'),
    lastAt: instantOrNull('the last instant whose job was made'),
    problem: textOrNull('why the last job was not made'),
    nextTimes: Type.Optional(Type.Array(instant('instant'), { description: `the next ${shownTicks}` })),
    revision: Type.Integer({
      description: 'rises with each change; give it as If-Match to change no later one',
      examples: [1],
    }),
    createdAt: instant('when it was created'),
    updatedAt: instant('when it was changed'),
  },
  { title: 'Schedule' },
);
export type ScheduleJson = JsonOf<typeof Schedule>;

const params = closed({ name: text('name of the schedule', 'daily-report') });
export const oneSchedule = { tags, params };
export const foundSchedule = { 200: reply('the schedule', Schedule) };

export const listSchedulesSchema = {
  operationId: 'listSchedules',
  tags,
  summary: 'Schedules by name',
  querystring: closed(pagingParams),
  response: { 200: reply('a page', pageOf(Schedule)), ...problems(503) },
};

export const createScheduleSchema = {
  operationId: 'createSchedule',
  tags,
  summary: 'Create a schedule: one job for each of its instants',
  body: ScheduleInput,
  response: { 201: reply('the schedule', Schedule), ...problems(404, 409, 413, 415, 503) },
};

export const getScheduleSchema = {
  ...oneSchedule,
  operationId: 'getSchedule',
  summary: `Read a schedule, with its next ${shownTicks} instants`,
  response: { ...foundSchedule, ...problems(404, 503) },
};

const expectsRevision =
  'With the header If-Match (the revision of the schedule as it was read) a schedule that was changed since then stays as it is: 409.';

export const changeScheduleSchema = {
  ...oneSchedule,
  operationId: 'changeSchedule',
  summary: 'Change the given fields of a schedule',
  description: expectsRevision,
  body: SchedulePatch,
  response: { ...foundSchedule, ...problems(404, 409, 413, 415, 503) },
};

const { cron, every, timezone } = settings;

const ScheduleDraft = closed(
  { name: Type.Optional(ScheduleName), cron, every, timezone },
  { title: 'ScheduleDraft' },
);

const SchedulePreview = closed(
  {
    errors: Type.Array(FieldProblem, { description: 'mistakes; empty: the times can be saved' }),
    times: Type.Array(instant('instant'), {
      description: `the next ${shownTicks}; empty: the draft has mistakes`,
    }),
  },
  { title: 'SchedulePreview' },
);
export type SchedulePreviewJson = JsonOf<typeof SchedulePreview>;

export const previewScheduleSchema = {
  operationId: 'previewSchedule',
  tags,
  summary: `The next ${shownTicks} instants of a draft; changes nothing`,
  description: 'With the name of a schedule the draft is read as in PATCH, without one as in POST.',
  body: ScheduleDraft,
  response: { 200: reply('the preview', SchedulePreview), ...problems(404, 413, 415, 503) },
};

export const removeScheduleSchema = {
  ...oneSchedule,
  operationId: 'removeSchedule',
  summary: 'Remove a schedule; jobs that exist stay',
  description: expectsRevision,
  response: { 200: reply('removed', closed({ deleted: yes })), ...problems(404, 409, 413, 503) },
};

export const runScheduleSchema = {
  ...oneSchedule,
  operationId: 'runSchedule',
  summary: 'Push one job of the schedule now; its instants do not change',
  response: {
    201: reply(
      'the job',
      closed({ topic: TopicName, id: text('id of the job', 'schedule:daily-report:now-1') }),
    ),
    ...problems(404, 409, 413, 503),
  },
};
