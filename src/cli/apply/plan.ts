// Compares a file of topics and schedules with those of the daemon: the changes that make them equal, each
// with its API calls, in the order in which they must be made. Changes nothing.

import type { ConfigProblem } from '../../config/parse.ts';
import type { ScheduleJson } from '../../contract/api/schedule.ts';
import type { TopicPreviewJson } from '../../contract/api/topic.ts';
import { type AuditChange, difference } from '../../core/audit.ts';
import { DqError } from '../../core/errors.ts';
import { limits } from '../../core/limits.ts';
import { type OutcomeTopics, outcomeFields, outcomeProblem } from '../../core/topic/outcome-topics.ts';
import { secretDigest } from '../../core/topic/secrets.ts';
import {
  completeSettings,
  maskedValue,
  settingsJson,
  type TopicJson,
  unmaskHeaders,
} from '../../core/topic/settings.ts';
import type { TopicSettings } from '../../core/topic/topic.ts';
import { checkSchedule, scheduleSettings } from '../../use-cases/change-schedule.ts';
import type { ApiCall, ApiClient } from '../daemon/api-client.ts';
import { readAllPages } from '../daemon/read-pages.ts';
import { Exit } from '../exit.ts';
import { isInScope, type ScheduleEntry, type TopicEntry, type TopicsFile } from './topics-file.ts';

type Json = Readonly<Record<string, unknown>>;

/** One topic or schedule that differs. */
export interface Change {
  readonly kind: 'topic' | 'schedule';
  readonly verb: 'add' | 'change' | 'remove';
  readonly name: string;
  /** members that differ; empty where it is added or removed */
  readonly fields: readonly AuditChange[];
  /** one after the other */
  readonly calls: readonly ApiCall[];
  /** that was compared; null where it is added */
  readonly revision: number | null;
  /** of a schedule that is removed because its topic is */
  readonly removedWith?: string;
}

/** `order.close`, `schedule daily` */
export const nameOf = ({ kind, name }: Change): string => (kind === 'topic' ? name : `schedule ${name}`);

/** What the daemon has. */
export interface Stored {
  readonly topics: ReadonlyMap<string, TopicJson>;
  readonly schedules: ReadonlyMap<string, ScheduleJson>;
}

export async function readStored(client: ApiClient): Promise<Stored> {
  const topics = await readAllPages<TopicJson>(client, { path: ['v1', 'topics'] });
  const schedules = await readAllPages<ScheduleJson>(client, { path: ['v1', 'schedules'] });
  return {
    topics: new Map(topics.map((one) => [one.topic, one])),
    schedules: new Map(schedules.map((one) => [one.name, one])),
  };
}

/** The globs inside which --prune removes what the file lacks. Throws Exit usage for a file that lacks a
 *  part: without topics it would remove all of them. */
export function pruneScope({ scope, lacks }: TopicsFile): readonly string[] {
  const [absent] = lacks;
  if (absent === undefined && scope !== null) return scope;
  const isList = absent === 'topics' || absent === 'schedules';
  throw new Exit(
    'usage',
    `--prune: the file has no ${absent}${isList ? `; for none write ${absent}: {}` : ''}`,
  );
}

/** The mistakes that only the daemon can find, and the changes. `prune`: globs inside which topics and
 *  schedules that the file lacks are removed; null: none are. */
export async function makePlan(
  client: ApiClient,
  file: TopicsFile,
  stored: Stored,
  prune: readonly string[] | null,
): Promise<{ readonly changes: readonly Change[]; readonly problems: readonly ConfigProblem[] }> {
  if ([...stored.topics.values()].some(({ secretDigest: digest }) => digest === null))
    throw new Exit('failed', 'token: lacks the scope admin; use one that has it');
  const removed = prune === null ? { topics: [], schedules: [] } : removals(prune, file, stored);
  const problems: ConfigProblem[] = [];
  const topics: Change[] = [];
  const gone = new Set(removed.topics.map(({ name }) => name));
  const outcomes = plannedOutcomes(file, stored, gone);
  problems.push(...stillNamed(file, outcomes, gone));
  for (const entry of targetsFirst(
    file.topics,
    ({ name }) => name,
    ({ input }) => input.settings,
  )) {
    const change = topicChange(entry, stored.topics.get(entry.name), problems);
    if (change === null) continue;
    problems.push(...(await refusedByDaemon(client, entry, change)));
    const problem = outcomeProblemOf(entry, outcomes, stored);
    if (problem !== null) problems.push(problem);
    topics.push(change);
  }
  const formats = new Map([...stored.topics.values()].map(({ topic, format }) => [topic, format]));
  for (const { name } of removed.topics) formats.delete(name);
  for (const { name, input } of file.topics) formats.set(name, completeSettings(input).format);
  const schedules = file.schedules.flatMap((entry) => {
    const change = scheduleChange(entry, stored.schedules.get(entry.name), problems);
    problems.push(...refusedByTopic(entry, formats.get(entry.record.topic)));
    return change ?? [];
  });
  // A schedule needs its topic, and stays with one that has jobs.
  const changes = [...topics, ...schedules, ...removed.topics, ...removed.schedules];
  return { changes, problems };
}

function removals(scope: readonly string[], file: TopicsFile, { topics, schedules }: Stored) {
  const removal = (kind: Change['kind'], name: string, revision: number) => {
    const call = { method: 'DELETE', path: ['v1', `${kind}s`, name] } as const;
    return { kind, verb: 'remove', name, fields: [], calls: [call], revision } as const;
  };
  const [inFile, scheduled] = [file.topics, file.schedules].map(
    (list) => new Set(list.map(({ name }) => name)),
  );
  const isRemoved = (topic: string) => topics.has(topic) && isInScope(scope, topic) && !inFile?.has(topic);
  return {
    // The reverse of the reverse keeps the order where no topic names another one.
    topics: targetsFirst(
      [...topics.values()].toReversed(),
      ({ topic }) => topic,
      (json) => json,
    )
      .toReversed()
      .filter(({ topic }) => isRemoved(topic))
      .map(({ topic, revision }) => removal('topic', topic, revision)),
    schedules: [...schedules.values()]
      .filter(({ name, topic }) => isInScope(scope, topic) && !scheduled?.has(name))
      .map(({ name, topic, revision }) => ({
        ...removal('schedule', name, revision),
        ...(isRemoved(topic) ? { removedWith: topic } : {}),
      })),
  };
}

/** What each topic names when the changes are made. */
function plannedOutcomes(
  file: TopicsFile,
  stored: Stored,
  gone: ReadonlySet<string>,
): ReadonlyMap<string, OutcomeTopics> {
  const planned = new Map<string, OutcomeTopics>(stored.topics);
  for (const name of gone) planned.delete(name);
  for (const { name, input } of file.topics) planned.set(name, completeSettings(input));
  return planned;
}

/** The daemon keeps a topic that another one names. */
function* stillNamed(
  file: TopicsFile,
  planned: ReadonlyMap<string, OutcomeTopics>,
  gone: ReadonlySet<string>,
): Generator<ConfigProblem> {
  const entries = new Map(file.topics.map((entry) => [entry.name, entry]));
  for (const [name, named] of planned)
    for (const field of outcomeFields) {
      const target = named[field];
      if (!gone.has(target)) continue;
      const message = `--prune would remove ${target}; name another topic, or keep it`;
      const entry = entries.get(name);
      yield entry?.problem({ field, message }) ?? {
        where: 'default',
        message: `${name}: ${field}: ${message}`,
      };
    }
}

/** As the daemon would find it at the end: which topics the plan adds and removes is known here alone. */
function outcomeProblemOf(
  { name, problem }: TopicEntry,
  planned: ReadonlyMap<string, OutcomeTopics>,
  { topics }: Stored,
): ConfigProblem | null {
  const given = planned.get(name) as OutcomeTopics;
  const unknown = outcomeFields
    // The token may not cover a topic that is named already.
    .filter((field) => given[field] !== topics.get(name)?.[field])
    .map((field) => given[field])
    .filter((target) => !planned.has(target) && !topics.has(target));
  const found = outcomeProblem(name, given, planned, new Set(unknown));
  return found === null ? null : problem(found);
}

/** Each topic after those that it names in onDone and onDead: they have to be registered while it names
 *  them. */
function targetsFirst<T>(
  topics: readonly T[],
  nameOf: (topic: T) => string,
  outcomesOf: (topic: T) => Partial<OutcomeTopics>,
): readonly T[] {
  const left = new Map(topics.map((topic) => [nameOf(topic), topic]));
  const sorted: T[] = [];
  const take = (name: string): void => {
    const topic = left.get(name);
    if (topic === undefined) return;
    left.delete(name);
    for (const field of outcomeFields) take(outcomesOf(topic)[field] ?? '');
    sorted.push(topic);
  };
  for (const topic of topics) take(nameOf(topic));
  return sorted;
}

/** null: it is equal, or has a mistake. */
function topicChange(
  entry: TopicEntry,
  known: TopicJson | undefined,
  problems: ConfigProblem[],
): Change | null {
  const { name, input, json } = entry;
  const headers = input.settings.headers ?? {};
  const lost = Object.keys(headers).filter(
    (one) => headers[one] === maskedValue && !Object.hasOwn(known?.headers ?? {}, one),
  );
  for (const one of lost) {
    const message = `${maskedValue} has no stored value here; write \${NAME}`;
    problems.push(entry.problem({ field: `headers.${one}`, message }));
  }
  if (lost.length > 0) return null;
  const path = ['v1', 'topics'];
  if (known === undefined) {
    const call = { method: 'POST', path, json: { topic: name, ...json } } as const;
    return { kind: 'topic', verb: 'add', name, fields: [], calls: [call], revision: null };
  }
  const wanted = settingsJson(completeSettings(input));
  const unmasked = settingsJson(completeSettings(unmaskHeaders(input, known)));
  const state = input.state === undefined ? {} : { state: input.state };
  const fields = differing(known, { ...unmasked, ...state }).map((one) =>
    entry.hidden.has(one.field) ? { ...one, before: maskedValue, after: maskedValue } : one,
  );
  const calls: ApiCall[] = [];
  // dq sets the settings that another delivery does not use to their defaults, except those of the request.
  const given =
    wanted.delivery === known.delivery ? members(fields, { ...wanted, ...state }) : { ...wanted, ...state };
  if (fields.length > 0) calls.push({ method: 'PATCH', path: [...path, name], json: given });
  const change = { kind: 'topic', verb: 'change', name, revision: known.revision } as const;
  const { secret } = input;
  if (secret === undefined || secretDigest(name, secret) === known.secretDigest)
    return calls.length === 0 ? null : { ...change, fields, calls };
  calls.push({ method: 'POST', path: [...path, name, 'secret'], json: { secret } });
  const rotation = { field: 'secret', before: maskedValue, after: maskedValue };
  return { ...change, fields: [...fields, rotation], calls };
}

/** Forbidden addresses, brokers and hooks are known to the daemon alone. */
async function refusedByDaemon(
  client: ApiClient,
  { name, problem }: TopicEntry,
  { calls }: Change,
): Promise<readonly ConfigProblem[]> {
  const [first] = calls;
  if (first?.path.at(-1) === 'secret') return [];
  const preview = { method: 'POST', path: ['v1', 'topics', 'preview'], needs: ['errors'] } as const;
  const draft = { ...(first?.json as Json), topic: name, onDone: undefined, onDead: undefined };
  const { json } = await client.call<TopicPreviewJson>({ ...preview, json: draft });
  return json.errors.map(problem);
}

/** `format`: of its topic, as it will be; undefined: there is none. */
function refusedByTopic(
  { record, problem }: ScheduleEntry,
  format: TopicSettings['format'] | undefined,
): readonly ConfigProblem[] {
  const { topic } = record;
  if (format === undefined) return [problem({ field: 'topic', message: `there is no topic ${topic}` })];
  try {
    // A limits.bodyBytes below the limit of schedules is known to the daemon alone.
    checkSchedule(
      record,
      { topic, format },
      { nowMs: record.createdAt, bodyBytesMax: limits.scheduleBodyBytesMax },
    );
    return [];
  } catch (error) {
    if (!(error instanceof DqError)) throw error;
    return error.errors.map(problem);
  }
}

/** null: it is equal, or has a mistake. */
function scheduleChange(
  { name, input, json, record, problem }: ScheduleEntry,
  known: ScheduleJson | undefined,
  problems: ConfigProblem[],
): Change | null {
  const path = ['v1', 'schedules'];
  if (known === undefined) {
    const call = { method: 'POST', path, json: { name, ...json } } as const;
    return { kind: 'schedule', verb: 'add', name, fields: [], calls: [call], revision: null };
  }
  if (input.body === undefined && known.body !== '') {
    const message = 'is stored and absent here; write it, or remove the schedule first';
    problems.push(problem({ field: 'body', message }));
    return null;
  }
  const wanted = scheduleSettings(record);
  const kept = {
    // Its default is an option of the daemon.
    timezone: input.timezone ?? known.timezone,
    paused: input.paused ?? known.paused,
    contentType: wanted.contentType ?? known.contentType,
  };
  const fields = differing(known, { ...wanted, ...kept });
  if (fields.length === 0) return null;
  // The API takes cron or every, and reads the body by its type.
  const given = { ...members(fields, { ...wanted, ...kept }), body: input.body };
  const call = { method: 'PATCH', path: [...path, name], json: withoutNulls(given) } as const;
  return { kind: 'schedule', verb: 'change', name, fields, calls: [call], revision: known.revision };
}

const differing = (known: Json, wanted: Json): readonly AuditChange[] =>
  difference(Object.fromEntries(Object.keys(wanted).map((name) => [name, known[name]])), wanted);

/** Of `wanted`, the members that differ: `headers` for `headers.x-a`. */
function members(fields: readonly AuditChange[], wanted: Json): Json {
  const names = new Set(fields.map(({ field }) => field.replace(/\..*/s, '')));
  return Object.fromEntries(Object.entries(wanted).filter(([name]) => names.has(name)));
}

const withoutNulls = (json: Json): Json =>
  Object.fromEntries(Object.entries(json).filter(([name, value]) => name === 'body' || value !== null));
