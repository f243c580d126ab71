// dead-filter.ts reads the filter of a call about dead letters or jobs, from a query or a JSON body, and
// names every wrong field. It also authorizes the caller: a filter without a topic concerns every topic.

import type { FastifyRequest } from 'fastify';
import { parseInstant } from '../../core/duration.ts';
import { DqError, type FieldError, invalidField } from '../../core/errors.ts';
import { refusesId } from '../../core/job-id.ts';
import { limits } from '../../core/limits.ts';
import { topicNamePattern } from '../../core/topic/fields.ts';
import type { DeadFilter, Page } from '../../ports/job-store.ts';
import type { RoleContext } from '../../process/role.ts';
import { topicNotFound } from '../../use-cases/change-topic.ts';
import { requireEveryTopic, requireTopic } from '../http/route-access.ts';

export interface RawDeadFilter {
  readonly topic?: string;
  readonly since?: string | number;
  readonly until?: string | number;
  readonly ids?: readonly string[];
}

/** Throws DqError forbidden. */
export function requireTopicOf(request: FastifyRequest, topic: string | undefined): void {
  if (topic === undefined) requireEveryTopic(request, 'topic: is required');
  else requireTopic(request, topic);
}

/** Tells an unknown topic from one without matching jobs. Jobs outlive their topic: with any job it is known.
 *  Rejects with topic_not_found. */
export async function requireKnownTopic(
  { topics, store }: TopicsAndJobs,
  topic: string | undefined,
): Promise<void> {
  if (topic === undefined || topics.get(topic) !== undefined) return;
  // With the registry or the store unavailable the topic may exist; the empty result stands.
  if ((await topics.lookUp(topic).catch(() => null)) !== undefined) return;
  const counts = await store.admin.countsOf([topic]).catch(() => null);
  if (counts === null || counts.missing !== undefined || Object.hasOwn(counts.topics, topic)) return;
  throw topicNotFound(topic);
}

type TopicsAndJobs = Pick<RoleContext, 'topics' | 'store'>;

/** The same for a list: only a complete, empty first page without a next page shows that a topic has no
 *  jobs. */
export async function requireKnownTopicOf(
  page: Pick<Page<unknown>, 'items' | 'nextCursor' | 'missing'>,
  cursor: string | undefined,
  role: TopicsAndJobs,
  topic: string | undefined,
): Promise<void> {
  const isFirst = cursor === undefined && page.nextCursor === null;
  if (isFirst && page.items.length === 0 && page.missing === undefined) await requireKnownTopic(role, topic);
}

/** A forgotten filter must not change every job. */
export function requireFilter(filter: RawDeadFilter, all: boolean): void {
  if (!all && Object.keys(filter).length === 0) throw invalidField('all', 'must be true without a filter');
}

/** `ids` of a query: a JSON list, because an id can contain any separator. */
export function readIds(text: string): readonly string[] {
  const ids = listOf(text);
  const good = ids !== null && ids.length > 0 && ids.length <= limits.bulkMax;
  if (good && ids.every((id) => typeof id === 'string')) return ids;
  throw invalidField('ids', `must be a JSON list of 1 to ${limits.bulkMax} ids, such as ["a","b"]`);
}

function listOf(text: string): readonly unknown[] | null {
  try {
    const value: unknown = JSON.parse(text);
    return Array.isArray(value) ? value : null;
  } catch {
    return null; // same message as for another value
  }
}

/** Throws a DqError that names every bad field. */
export function readFilter(raw: RawDeadFilter, fromQuery: boolean): DeadFilter {
  const errors: FieldError[] = [];
  const instant = (field: 'since' | 'until') => {
    if (raw[field] === undefined) return {};
    const parsed = parseInstant(raw[field], fromQuery);
    if (parsed.ok) return { [field]: parsed.value };
    errors.push({ field, message: parsed.message });
    return {};
  };
  const filter: DeadFilter = {
    ...(raw.topic === undefined ? {} : { topic: raw.topic }),
    ...instant('since'),
    ...instant('until'),
    ...(raw.ids === undefined ? {} : { ids: raw.ids }),
  };
  if (raw.topic !== undefined && !topicNamePattern.test(raw.topic))
    errors.push({ field: 'topic', message: 'must be a topic name' });
  if (raw.ids !== undefined && raw.topic === undefined)
    errors.push({ field: 'topic', message: 'is required with ids' });
  raw.ids?.forEach((id, index) => {
    const wrong = refusesId(id);
    if (wrong !== null) errors.push({ field: `ids[${index}]`, message: wrong });
  });
  const [first] = errors;
  if (first !== undefined) throw new DqError('invalid', `${first.field}: ${first.message}`, { errors });
  return filter;
}
