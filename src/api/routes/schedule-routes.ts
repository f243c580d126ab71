// /v1/schedules: recurring jobs. dq-upkeep makes one job for each instant. The scope that changes a topic
// changes its schedules.

import { isDeepStrictEqual } from 'node:util';
import type { FastifyRequest } from 'fastify';
import {
  changeScheduleSchema,
  createScheduleSchema,
  foundSchedule,
  getScheduleSchema,
  listSchedulesSchema,
  oneSchedule,
  previewScheduleSchema,
  removeScheduleSchema,
  runScheduleSchema,
  shownTicks,
} from '../../contract/api/schedule.ts';
import { problems } from '../../contract/api/schema.ts';
import { difference } from '../../core/audit.ts';
import { formatInstant, formatInstantOrNull } from '../../core/duration.ts';
import { DqError } from '../../core/errors.ts';
import { limits } from '../../core/limits.ts';
import { nextTicks, type ScheduleRecord, type StoredSchedule } from '../../core/schedule.ts';
import { acceptJob, isAccepted, pushRejection, pushTerms } from '../../use-cases/accept-job.ts';
import {
  changedSchedule,
  checkSchedule,
  findSchedule,
  getSchedule,
  newSchedule,
  nextOf,
  type ScheduleInput,
  scheduleNotFound,
  scheduleSettings,
} from '../../use-cases/change-schedule.ts';
import { topicOfPush } from '../../use-cases/find-topics.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { auditNote } from '../audit-trail.ts';
import { readIfMatch, readLimit } from '../http/request-head.ts';
import { mayTouch, needs, requireTopic } from '../http/route-access.ts';
import { apiLimits } from '../limits.ts';

const url = '/v1/schedules/:name';
const admin = needs('admin', 'handler');

export function scheduleRoutes(api: Api, context: ApiContext): void {
  const { registry, clock, config, topics } = context.role;
  const read = needs('read', 'handler');

  api.get('/v1/schedules', { schema: listSchedulesSchema, config: read }, (request) =>
    pageOf(context, request, request.query),
  );

  api.post('/v1/schedules', { schema: createScheduleSchema, config: admin }, async (request, answer) => {
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

  api.post('/v1/schedules/preview', { schema: previewScheduleSchema, config: read }, async (request) => {
    const { name, ...input } = request.body;
    const old = name === undefined ? null : await ofCaller(context, request, name);
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

  api.get(url, { schema: getScheduleSchema, config: read }, async (request) =>
    scheduleJson(await ofCaller(context, request, request.params.name), clock.now()),
  );

  api.patch(url, { schema: changeScheduleSchema, config: admin }, async (request) =>
    change(context, request, request.params.name, (old, now) =>
      changedSchedule(old, request.body as ScheduleInput, now),
    ),
  );
  verbRoutes(api, context);
}

/** Pause, resume, run and remove. */
function verbRoutes(api: Api, context: ApiContext): void {
  const { registry, clock, topics } = context.role;
  for (const [verb, isPaused] of [
    ['pause', true],
    ['resume', false],
  ] as const) {
    const summary = isPaused
      ? 'Make no jobs until it is resumed'
      : 'Make jobs again, from the next instant on';
    const schema = {
      ...oneSchedule,
      operationId: `${verb}Schedule`,
      summary,
      response: { ...foundSchedule, ...problems(404, 409, 413, 503) },
    };
    const config = needs('operate', 'handler');
    api.post(`${url}/${verb}`, { schema, config }, async (request) =>
      change(context, request, request.params.name, (old, now) =>
        changedSchedule(old, { paused: isPaused }, now),
      ),
    );
  }

  api.post(
    `${url}/run`,
    { schema: runScheduleSchema, config: needs('operate', 'handler') },
    async (request, answer) => {
      const {
        name,
        topic: topicName,
        body,
        isBase64,
        contentType,
      } = await ofCaller(context, request, request.params.name);
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
      if (!isAccepted(outcome)) throw pushRejection(outcome, job);
      context.role.counters.add(topicName, 'pushed');
      return answer.code(201).send({ topic: topicName, id });
    },
  );

  api.delete(url, { schema: removeScheduleSchema, config: admin }, async (request) => {
    const { name, topic, revision } = await expectedOf(context, request, request.params.name);
    auditNote(request, { topic, detail: { changes: [] } });
    // A schedule that was changed since then may belong to a topic of another caller.
    if ((await registry.removeSchedule(name, revision)) === 'changed') throw scheduleChanged(name);
    return { deleted: true };
  });
}

/** Of a topic that the caller may touch; others do not exist for it. */
async function ofCaller(
  { role, suggestion }: ApiContext,
  request: FastifyRequest,
  name: string,
): Promise<StoredSchedule> {
  const schedule = await findSchedule(role.registry, name);
  if (schedule !== null && mayTouch(request, schedule.topic)) return schedule;
  throw await suggestion.addedOf(scheduleNotFound(name), name, async () => {
    const known = await role.registry.schedules('', apiLimits.suggestDistances);
    return known.filter(({ topic }) => mayTouch(request, topic)).map((one) => one.name);
  });
}

/** With the revision of the header If-Match, where the request has one. */
async function expectedOf(
  context: ApiContext,
  request: FastifyRequest,
  name: string,
): Promise<StoredSchedule> {
  const expected = readIfMatch(request, 'revision of the schedule');
  const schedule = await ofCaller(context, request, name);
  if (expected !== null && schedule.revision !== expected) throw scheduleChanged(name);
  return schedule;
}

async function change(
  context: ApiContext,
  request: FastifyRequest,
  name: string,
  next: (old: StoredSchedule, now: number) => ScheduleRecord | null,
) {
  const { registry, clock, topics } = context.role;
  const old = await expectedOf(context, request, name);
  const now = await clock.read();
  const record = next(old, now);
  if (record === null) {
    auditNote(request, { topic: old.topic, detail: { changes: [] } });
    return scheduleJson(old, now);
  }
  requireTopic(request, record.topic);
  // A schedule whose topic is gone can be paused, and not changed otherwise.
  const isPausedOnly = record.isPaused && isDeepStrictEqual(whenPaused(record), whenPaused(old));
  if (!isPausedOnly)
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
  if (outcome === 'changed') throw scheduleChanged(name);
  return scheduleJson(await getSchedule(registry, name), clock.now());
}

function scheduleChanged(name: string): DqError {
  return new DqError('schedule_changed', `schedule ${name} was changed meanwhile; read it again`);
}

async function pageOf(
  { role }: ApiContext,
  request: FastifyRequest,
  query: { readonly limit?: string; readonly cursor?: string },
) {
  const limit = readLimit(query.limit);
  const page: StoredSchedule[] = [];
  let bytes = 0;
  let isMore = false;
  for (let after = query.cursor ?? ''; !isMore; ) {
    const some = await role.registry.schedules(after, limit + 1);
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
}

/** `now`: with the next instants; null: without. */
function scheduleJson(schedule: StoredSchedule, now: number | null) {
  const { name, nextAt, madeAt, problem, revision, createdAt, updatedAt, isPaused } = schedule;
  return {
    name,
    ...scheduleSettings(schedule),
    nextAt: formatInstantOrNull(isPaused ? null : nextAt),
    lastAt: formatInstantOrNull(madeAt),
    problem,
    ...(now === null || isPaused
      ? {}
      : { nextTimes: nextTicks(schedule, now, shownTicks).map(formatInstant) }),
    revision,
    createdAt: formatInstant(createdAt),
    updatedAt: formatInstant(updatedAt),
  };
}

/** Without the body. */
const whenPaused = (record: ScheduleRecord) => ({ ...scheduleSettings(record), paused: true });

function auditedOf(record: ScheduleRecord) {
  const { body, ...audited } = scheduleSettings(record);
  return { ...audited, bodyBytes: Buffer.byteLength(body) };
}
