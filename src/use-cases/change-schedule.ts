// Reads a schedule as a request wrote it, and changes stored ones. A change of the times computes the next
// instant again; one without effect changes nothing.

import { isDeepStrictEqual } from 'node:util';
import { readZone } from '../core/calendar.ts';
import { formatDuration, parseDuration } from '../core/duration.ts';
import { DqError, FieldErrors, invalidField } from '../core/errors.ts';
import { isJsonType } from '../core/json-text.ts';
import { limits } from '../core/limits.ts';
import {
  type MissedTicks,
  nextTick,
  readCron,
  readEvery,
  type ScheduleRecord,
  type StoredSchedule,
  scheduleNamePattern,
} from '../core/schedule.ts';
import type { PlainTopic } from '../core/topic/topic.ts';
import type { Registry } from '../ports/registry.ts';
import { type ContentTerms, checkContent } from './accept-job.ts';

/** As the API names the members; absent ones keep their value, or take their default. */
export interface ScheduleInput {
  readonly topic?: string;
  readonly cron?: string;
  readonly every?: string;
  readonly timezone?: string;
  readonly body?: unknown;
  readonly contentType?: string;
  readonly missed?: MissedTicks;
  readonly paused?: boolean;
}

/** Throws DqError. `timezone`: of a schedule that names none. */
export function newSchedule(
  name: string,
  input: ScheduleInput,
  timezone: string,
  now: number,
): ScheduleRecord {
  const times = { createdAt: now, updatedAt: now, revision: 1 };
  const defaults = { cron: null, everyMs: null, timezone, missed: 'skip', isPaused: false } as const;
  const body = { body: '', isBase64: false, contentType: null };
  const record = applied({ name, topic: '', ...defaults, ...body, ...times }, input, now);
  if (record.topic === '') throw invalidField('topic', 'is required');
  if (record.cron === null && record.everyMs === null) throw invalidField('cron', 'give cron or every');
  return record;
}

/** null: nothing would differ. Throws DqError. */
export function changedSchedule(
  old: StoredSchedule,
  input: ScheduleInput,
  now: number,
): ScheduleRecord | null {
  const [before, after] = [recordOf(old), applied(recordOf(old), input, now)];
  return isDeepStrictEqual(before, after) ? null : { ...after, revision: old.revision + 1, updatedAt: now };
}

function recordOf({
  earlier: _earlier,
  nextAt: _next,
  madeAt: _made,
  problem: _problem,
  ...record
}: StoredSchedule): ScheduleRecord {
  return record;
}

function applied(old: ScheduleRecord, input: ScheduleInput, now: number): ScheduleRecord {
  const errors = new FieldErrors();
  const { cron, every, timezone, topic = old.topic, missed = old.missed, paused = old.isPaused } = input;
  if (cron !== undefined && every !== undefined) errors.reject('every', 'give cron or every, not both');
  const expression = cron === undefined ? null : readCron(cron, now);
  if (expression?.ok === false) errors.reject('cron', expression.message);
  const duration = every === undefined ? null : parseDuration(every);
  const everyMs = duration?.ok === true ? readEvery(duration.value) : duration;
  if (everyMs?.ok === false) errors.reject('every', everyMs.message);
  const zone = timezone === undefined ? null : readZone(timezone);
  if (zone?.ok === false) errors.reject('timezone', zone.message);
  const content = contentOf(old, input, errors);
  errors.throwIfAny();
  return {
    ...old,
    topic,
    missed,
    isPaused: paused,
    ...content,
    ...(expression?.ok === true ? { cron: expression.value, everyMs: null } : {}),
    ...(everyMs?.ok === true ? { cron: null, everyMs: everyMs.value } : {}),
    ...(zone?.ok === true ? { timezone: zone.value } : {}),
  };
}

/** JSON unless the content type is another one; then the body is a text. */
function contentOf(
  old: ScheduleRecord,
  { body, contentType }: ScheduleInput,
  errors: FieldErrors,
): Pick<ScheduleRecord, 'body' | 'isBase64' | 'contentType'> {
  const type = contentType ?? old.contentType ?? 'application/json';
  if (body === undefined)
    return { body: old.body, isBase64: old.isBase64, contentType: contentType ?? old.contentType };
  const isJson = isJsonType(type);
  if (!isJson && typeof body !== 'string')
    errors.reject('body', 'must be a string, because contentType is not application/json');
  const text = isJson ? JSON.stringify(body) : String(body);
  if (Buffer.byteLength(text) > limits.scheduleBodyBytesMax)
    errors.reject('body', `must be at most ${limits.scheduleBodyBytesMax} bytes in a schedule`);
  return { body: text, isBase64: false, contentType: type };
}

/** As the API names them. */
export function scheduleSettings(record: ScheduleRecord) {
  const { topic, cron, everyMs, timezone, body, contentType, missed, isPaused: paused } = record;
  const every = everyMs === null ? null : formatDuration(everyMs);
  return { topic, cron, every, timezone, body, contentType, missed, paused };
}

/** The next instant after `now`; null while it is paused. */
export function nextOf(record: ScheduleRecord, now: number): number | null {
  return record.isPaused ? null : nextTick(record, now);
}

/** Throws DqError: the topic would reject the jobs. */
export function checkSchedule(
  { body, isBase64, contentType }: ScheduleRecord,
  topic: Pick<PlainTopic, 'topic' | 'format'>,
  terms: ContentTerms,
): void {
  const bytes = Buffer.from(body, isBase64 ? 'base64' : 'utf8');
  checkContent({ contentType, body: bytes, isLiteral: true }, topic, terms);
}

/** Throws DqError schedule_not_found. */
export async function getSchedule(registry: Registry, name: string): Promise<StoredSchedule> {
  const found = await findSchedule(registry, name);
  if (found === null) throw scheduleNotFound(name);
  return found;
}

export async function findSchedule(registry: Registry, name: string): Promise<StoredSchedule | null> {
  return scheduleNamePattern.test(name) ? registry.schedule(name) : null;
}

export function scheduleNotFound(name: string): DqError {
  return new DqError('schedule_not_found', `there is no schedule ${JSON.stringify(name.slice(0, 80))}`);
}
