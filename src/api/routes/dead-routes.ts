// /v1/dead: list, requeue and purge dead letters.

import type { FastifyRequest } from 'fastify';
import {
  type DeadLetterJson,
  listDeadSchema,
  purgeDeadSchema,
  requeueDeadSchema,
} from '../../contract/api/dead.ts';
import { contractLimits } from '../../contract/api/limits.ts';
import { shownFilter } from '../../core/audit.ts';
import { formatInstant } from '../../core/duration.ts';
import { type DeadReason, lastAttemptOf } from '../../core/job.ts';
import { limits } from '../../core/limits.ts';
import { type DeadMarks, hasMarks } from '../../core/survey.ts';
import type { DeadFilter, DeadLetters, Page, DeadLetter as StoredDeadLetter } from '../../ports/job-store.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { auditNote } from '../audit-trail.ts';
import { readLimit, rejectBadCursor } from '../http/request-head.ts';
import { needs } from '../http/route-access.ts';
import {
  type RawDeadFilter,
  readFilter,
  readIds,
  requireFilter,
  requireKnownTopic,
  requireKnownTopicOf,
  requireTopicOf,
} from './dead-filter.ts';

export function deadRoutes(api: Api, { role }: ApiContext): void {
  const { dead } = role.store;
  const operate = needs('operate', 'handler');

  api.get('/v1/dead', { schema: listDeadSchema, config: needs('read', 'handler') }, async (request) => {
    const { limit, cursor, deadReason, lastReason, status, ...query } = request.query;
    requireTopicOf(request, query.topic);
    const filter = readFilter(query, true);
    const marks = { deadReason, lastReason, status };
    const hasAny = Object.values(marks).some((mark) => mark !== undefined);
    const paging = [readLimit(limit), cursor ?? null] as const;
    const found = hasAny ? findMarked(dead, marks, filter, ...paging) : dead.list(filter, ...paging);
    const page = await found.catch(rejectBadCursor);
    await requireKnownTopicOf(page, cursor, role, query.topic);
    return { items: page.items.map(deadJson), nextCursor: page.nextCursor, missing: page.missing };
  });

  api.post('/v1/dead/requeue', { schema: requeueDeadSchema, config: operate }, async (request) => {
    const { all, ...filter } = request.body;
    requireTopicOf(request, filter.topic);
    requireFilter(filter, all === true);
    const outcome = await dead.requeue(readFilter(filter, false), limits.bulkMax);
    noteFilter(request, filter, outcome.requeued);
    if (outcome.requeued === 0) await requireKnownTopic(role, filter.topic);
    return outcome;
  });

  api.delete('/v1/dead', { schema: purgeDeadSchema, config: operate }, async (request) => {
    const { all, ids, ...rest } = request.query;
    requireTopicOf(request, rest.topic);
    const filter = { ...rest, ...(ids === undefined ? {} : { ids: readIds(ids) }) };
    requireFilter(filter, all === 'true');
    const outcome = await dead.purge(readFilter(filter, true), limits.bulkMax);
    noteFilter(request, filter, outcome.purged);
    if (outcome.purged === 0) await requireKnownTopic(role, rest.topic);
    return outcome;
  });
}

/** Newest death first. No store has an index of the marks, so it examines the newest ones. A page ends when
 *  it is half full or deadRowsMax were examined: no page is longer than `limit`, and no call examines them
 *  one by one. */
async function findMarked(
  dead: DeadLetters,
  marks: DeadMarks,
  filter: DeadFilter,
  limit: number,
  cursor: string | null,
): Promise<Page<StoredDeadLetter>> {
  const items: StoredDeadLetter[] = [];
  const missing = new Set<string>();
  let [left, next] = [contractLimits.deadRowsMax, cursor];
  do {
    const page = await dead.list(filter, Math.min(limit - items.length, left), next);
    items.push(...page.items.filter((job) => hasMarks(marks, job)));
    for (const name of page.missing ?? []) missing.add(name);
    next = page.nextCursor;
    left -= Math.max(page.items.length, 1);
  } while (next !== null && left > 0 && items.length * 2 < limit);
  return { items, nextCursor: next, ...(missing.size === 0 ? {} : { missing: [...missing] }) };
}

function noteFilter(request: FastifyRequest, { topic, ...filter }: RawDeadFilter, count: number): void {
  auditNote(request, { topic, detail: { filter: shownFilter({ ...filter }) ?? {}, count } });
}

function deadJson(job: StoredDeadLetter): DeadLetterJson {
  const last = lastAttemptOf(job);
  return {
    topic: job.topic,
    id: job.id,
    version: String(job.version),
    deadAt: formatInstant(job.deadAt ?? job.dueAt),
    // A dead job has one.
    deadReason: job.deadReason as DeadReason,
    lastReason: last?.reason ?? null,
    status: last?.status ?? null,
    attempt: job.failures,
    replyExcerpt: last?.replyExcerpt ?? '',
    detail: last?.detail ?? '',
    dueAt: formatInstant(job.dueAt),
    createdAt: formatInstant(job.acceptedAt),
  };
}
