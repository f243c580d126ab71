// /v1/schedules: recurring jobs. dq-upkeep makes one job for each instant. The scope that changes a topic
// changes its schedules.

import type { FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { difference } from '../../core/audit.ts';
import { formatDuration, formatInstant } from '../../core/duration.ts';
import { DqError } from '../../core/errors.ts';
import { limits } from '../../core/limits.ts';
import { nextTicks } from '../../core/schedule.ts';
import type { ScheduleRecord, StoredSchedule } from '../../core/schedule-record.ts';
import { acceptJob, pushRejection, pushTerms } from '../../use-cases/accept-job.ts';
import {
  changedSchedule,
  checkSchedule,
  getSchedule,
  newSchedule,
  nextOf,
  pausedSchedule,
  type ScheduleInput,
  scheduleNamePattern,
  scheduleNotFound,
} from '../../use-cases/change-schedule.ts';
import { topicOfPush } from '../../use-cases/find-topics.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { auditNote } from '../http/audit-note.ts';
import { pageOf, pagingParams, readLimit } from '../http/paging.ts';
import { mayTouch, requireTopic } from '../http/route-access.ts';
import {
  closed,
  FieldProblem,
  instant,
  nullable,
  problems,
  reply,
  TopicName,
  text,
  yes,
} from '../http/schemas.ts';

const tags = ['schedules'];
/** of the instants that a schedule shows */
const shownTicks = 10;
const Name = Type.String({
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
  contentType: Type.Optional(text('of the body; default: application/json', 'application/json')),
  missed: Type.Optional(
    Type.Enum(['skip', 'last'], {
      description: 'what to do with instants that dq missed by over a minute: nothing, or make the last one',
      default: 'skip',
    }),
  ),
};
const Input = closed({ name: Name, topic: TopicName, ...settings }, { title: 'ScheduleInput' });
const Patch = closed({ topic: Type.Optional(TopicName), ...settings }, { title: 'SchedulePatch' });
const nullableInstant = (description: string) =>
  nullable('string', { description, examples: ['2030-01-01T09:00:00.000Z'] });
const Schedule = Type.Object(
  {
    name: Name,
    topic: TopicName,
    cron: nullable('string', { description: 'null: every', examples: ['0 9 * * 1-5'] }),
    every: nullable('string', { description: 'null: cron', examples: [null] }),
    timezone: text('of cron', 'Asia/Shanghai'),
    body: text('body of each job', '{}'),
    contentType: nullable('string', { description: 'of the body', examples: ['application/json'] }),
    missed: Type.Enum(['skip', 'last'], { description: 'policy for missed instants' }),
    paused: Type.Boolean({ description: 'makes no jobs', examples: [false] }),
    nextAt: nullableInstant('the next instant; null: paused, or none follows'),
    lastAt: nullableInstant('the last instant whose job was made'),
    problem: nullable('string', { description: 'why the last job was not made', examples: [null] }),
    nextTimes: Type.Optional(Type.Array(instant('instant'), { description: `the next ${shownTicks}` })),
    revision: Type.Integer({ description: 'rises with each change', examples: [1] }),
    createdAt: instant('when it was created'),
    updatedAt: instant('when it was changed'),
  },
  { title: 'Schedule' },
);

const params = closed({ name: text('name of the schedule', 'daily-report') });
const one = { tags, params };
const url = '/v1/schedules/:name';
const found = { 200: reply('the schedule', Schedule) };

const listSchema = {
  operationId: 'listSchedules',
  tags,
  summary: 'Schedules by name',
  querystring: closed(pagingParams),
  response: { 200: reply('a page', pageOf(Schedule)), ...problems(503) },
};
const createSchema = {
  operationId: 'createSchedule',
  tags,
  summary: 'Create a schedule: one job for each of its instants',
  body: Input,
  response: { 201: reply('the schedule', Schedule), ...problems(404, 409, 413, 415, 503) },
};
const getSchema = {
  ...one,
  operationId: 'getSchedule',
  summary: `Read a schedule, with its next ${shownTicks} instants`,
  response: { ...found, ...problems(404, 503) },
};
const patchSchema = {
  ...one,
  operationId: 'changeSchedule',
  summary: 'Change the given fields of a schedule',
  body: Patch,
  response: { ...found, ...problems(404, 409, 413, 415, 503) },
};
const { cron, every, timezone } = settings;
const Draft = closed({ name: Type.Optional(Name), cron, every, timezone }, { title: 'ScheduleDraft' });
const Preview = closed(
  {
    errors: Type.Array(FieldProblem, { description: 'mistakes; empty: the times can be saved' }),
    times: Type.Array(instant('instant'), {
      description: `the next ${shownTicks}; empty: the draft has mistakes`,
    }),
  },
  { title: 'SchedulePreview' },
);
const previewSchema = {
  operationId: 'previewSchedule',
  tags,
  summary: `The next ${shownTicks} instants of a draft; changes nothing`,
  description: 'With the name of a schedule the draft is read as in PATCH, without one as in POST.',
  body: Draft,
  response: { 200: reply('the preview', Preview), ...problems(404, 413, 415, 503) },
};
const removeSchema = {
  ...one,
  operationId: 'removeSchedule',
  summary: 'Remove a schedule; jobs that exist stay',
  response: { 200: reply('removed', closed({ deleted: yes })), ...problems(404, 413, 503) },
};
const runSchema = {
  ...one,
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

export function scheduleRoutes(api: Api, context: ApiContext): void {
  const { registry, clock, config, topics } = context.role;
  const admin = { access: { scope: 'admin', topics: 'handler' } } as const;
  const read = { access: { scope: 'read', topics: 'handler' } } as const;

  /** Of a topic that the caller may touch; others do not exist for it. */
  const ofCaller = async (request: FastifyRequest, name: string): Promise<StoredSchedule> => {
    const schedule = await getSchedule(registry, name);
    if (!mayTouch(request, schedule.topic)) throw scheduleNotFound(name);
    return schedule;
  };
  const change = async (
    request: FastifyRequest,
    name: string,
    next: (old: StoredSchedule, now: number) => ScheduleRecord | null,
  ): Promise<object> => {
    const old = await ofCaller(request, name);
    const now = await clock.read();
    const record = next(old, now);
    if (record === null) {
      auditNote(request, { topic: old.topic, detail: { changes: [] } });
      return scheduleJson(old, now);
    }
    requireTopic(request, record.topic);
    // A schedule whose topic is gone can be paused.
    if (!record.isPaused)
      checkSchedule(record, await topicOfPush(topics, record.topic), pushTerms(context.role, now));
    auditNote(request, {
      topic: record.topic,
      detail: { changes: difference(auditedOf(old), auditedOf(record)) },
    });
    const outcome = await registry.updateSchedule(record, nextOf(record, now), now);
    if (outcome === 'full')
      throw new DqError(
        'schedule_changed',
        `schedule ${name} was changed ${limits.earlierTimesMax} times while an instant of it is due; try again when its job is made`,
      );
    if (outcome === 'changed')
      throw new DqError('schedule_changed', `schedule ${name} was changed meanwhile; read it again`);
    return scheduleJson(await getSchedule(registry, name), clock.now());
  };

  api.get('/v1/schedules', { schema: listSchema, config: read }, async (request) => {
    const limit = readLimit(request.query.limit);
    const page: StoredSchedule[] = [];
    let bytes = 0;
    let isMore = false;
    for (let after = request.query.cursor ?? ''; !isMore; ) {
      const some = await registry.schedules(after, limit + 1);
      const last = some.at(-1);
      if (last === undefined) break;
      after = last.name;
      // The cursor, too, names only schedules that exist for the caller.
      for (const schedule of some.filter(({ topic }) => mayTouch(request, topic))) {
        isMore = page.length === limit || bytes > limits.schedulesBytesMax;
        if (isMore) break;
        page.push(schedule);
        bytes += Buffer.byteLength(schedule.body);
      }
    }
    return {
      items: page.map((schedule) => scheduleJson(schedule, null)),
      nextCursor: isMore ? (page.at(-1)?.name ?? null) : null,
    };
  });

  api.post('/v1/schedules', { schema: createSchema, config: admin }, async (request, answer) => {
    const { name, ...input } = request.body as { readonly name: string } & ScheduleInput;
    requireTopic(request, input.topic ?? '');
    // Not now(): this process may not have asked the store yet, and the clock of this machine may be wrong.
    const now = await clock.read();
    const record = newSchedule(name, input, config.timezone, now);
    checkSchedule(record, await topicOfPush(topics, record.topic), pushTerms(context.role, now));
    auditNote(request, { topic: record.topic, detail: { changes: difference(null, auditedOf(record)) } });
    const outcome = await registry.createSchedule(record, nextOf(record, now));
    if (outcome === 'exists')
      throw new DqError('schedule_exists', `schedule ${name} exists; change or remove it`);
    if (outcome === 'full')
      throw new DqError('schedule_exists', `${limits.schedulesMax} schedules exist; remove one first`);
    return answer.code(201).send(scheduleJson(await getSchedule(registry, name), now));
  });

  api.post('/v1/schedules/preview', { schema: previewSchema, config: read }, async (request) => {
    const { name, ...input } = request.body;
    const old = name === undefined ? null : await ofCaller(request, name);
    const now = clock.now();
    try {
      const record =
        old === null
          ? newSchedule('draft', { ...input, topic: 'draft' }, config.timezone, now)
          : (changedSchedule(old, input, now) ?? old);
      return { errors: [], times: nextTicks(record, now, shownTicks).map(formatInstant) };
    } catch (error) {
      if (!(error instanceof DqError) || error.code !== 'invalid') throw error;
      return { errors: error.errors, times: [] };
    }
  });

  api.get(url, { schema: getSchema, config: read }, async (request) =>
    scheduleJson(await ofCaller(request, request.params.name), clock.now()),
  );

  api.patch(url, { schema: patchSchema, config: admin }, async (request) =>
    change(request, request.params.name, (old, now) =>
      changedSchedule(old, request.body as ScheduleInput, now),
    ),
  );

  for (const [verb, isPaused] of [
    ['pause', true],
    ['resume', false],
  ] as const) {
    const summary = isPaused
      ? 'Make no jobs until it is resumed'
      : 'Make jobs again, from the next instant on';
    const schema = {
      ...one,
      operationId: `${verb}Schedule`,
      summary,
      response: { ...found, ...problems(404, 409, 413, 503) },
    };
    const config = { access: { scope: 'operate', topics: 'handler' } } as const;
    api.post(`${url}/${verb}`, { schema, config }, async (request) =>
      change(request, request.params.name, (old, now) => pausedSchedule(old, isPaused, now)),
    );
  }

  api.post(
    `${url}/run`,
    { schema: runSchema, config: { access: { scope: 'operate', topics: 'handler' } } },
    async (request, answer) => {
      const {
        name,
        topic: topicName,
        body,
        isBase64,
        contentType,
      } = await ofCaller(request, request.params.name);
      const topic = await topicOfPush(topics, topicName);
      const now = clock.now();
      const id = `schedule:${name}:now-${now}`;
      const given = { id, delay: '0', at: undefined, mode: 'keep', inQuery: false, isLiteral: true };
      const job = acceptJob(
        { ...given, contentType, body: Buffer.from(body, isBase64 ? 'base64' : 'utf8') },
        topic,
        pushTerms(context.role, now),
      );
      auditNote(request, { topic: topicName, detail: { count: 1 } });
      const [outcome] = await context.role.store.jobs.push([job]);
      if (outcome === undefined) throw new DqError('unknown', 'the job may or may not be stored');
      if (outcome.kind !== 'stored' && outcome.kind !== 'kept') throw pushRejection(outcome, job);
      context.role.counters.add(topicName, 'pushed');
      return answer.code(201).send({ topic: topicName, id });
    },
  );

  api.delete(url, { schema: removeSchema, config: admin }, async (request) => {
    const { name, topic } = await ofCaller(request, request.params.name);
    auditNote(request, { topic, detail: { changes: [] } });
    await registry.removeSchedule(name);
    return { deleted: true };
  });
}

/** `now`: with the next instants; null: without. */
function scheduleJson(schedule: StoredSchedule, now: number | null): object {
  const { name, nextAt, madeAt, problem, revision, createdAt, updatedAt, isPaused } = schedule;
  const instantOrNull = (at: number | null) => (at === null ? null : formatInstant(at));
  return {
    ...{ name, ...settingsOf(schedule), paused: isPaused },
    ...{ nextAt: instantOrNull(isPaused ? null : nextAt), lastAt: instantOrNull(madeAt), problem },
    ...(now === null || isPaused
      ? {}
      : { nextTimes: nextTicks(schedule, now, shownTicks).map(formatInstant) }),
    ...{ revision, createdAt: formatInstant(createdAt), updatedAt: formatInstant(updatedAt) },
  };
}

function settingsOf({ topic, cron, everyMs, timezone, body, contentType, missed }: ScheduleRecord) {
  return {
    topic,
    cron,
    every: everyMs === null ? null : formatDuration(everyMs),
    timezone,
    body,
    contentType,
    missed,
  };
}

/** Without the body. */
function auditedOf(record: ScheduleRecord) {
  const { body, ...audited } = settingsOf(record);
  return { ...audited, bodyBytes: Buffer.byteLength(body), paused: record.isPaused };
}
