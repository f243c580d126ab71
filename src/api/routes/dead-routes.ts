// /v1/dead: list, requeue and purge dead letters.

import type { FastifyRequest } from 'fastify';
import type { DeadLetterJson } from '../../contract/api/dead.ts';
import { listDeadSchema, purgeDeadSchema, requeueDeadSchema } from '../../contract/api/dead.ts';
import { contractLimits } from '../../contract/api/limits.ts';
import { shownFilter } from '../../core/audit.ts';
import { formatInstant } from '../../core/duration.ts';
import { lastAttemptOf } from '../../core/earlier-attempts.ts';
import type { BuryReason } from '../../core/job.ts';
import { limits } from '../../core/limits.ts';
import type { DeadLetter as StoredDeadLetter } from '../../ports/job-store.ts';
import { deadMatcher, findDead } from '../../use-cases/find-dead.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { auditNote } from '../http/audit-note.ts';
import { readLimit, rejectBadCursor } from '../http/paging.ts';
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
  const operate = { access: { scope: 'operate', topics: 'handler' } } as const;

  api.get(
    '/v1/dead',
    { schema: listDeadSchema, config: { access: { scope: 'read', topics: 'handler' } } },
    async (request) => {
      const { limit, cursor, reason, lastReason, status, ...query } = request.query;
      requireTopicOf(request, query.topic);
      const filter = readFilter(query, true);
      const isWanted = deadMatcher({ reason, lastReason, status });
      const page = await findDead(dead, filter, isWanted, {
        limit: readLimit(limit),
        cursor: cursor ?? null,
        rowsMax: contractLimits.deadRowsMax,
      }).catch(rejectBadCursor);
      await requireKnownTopicOf(page, cursor, role.topics, query.topic);
      return { items: page.items.map(deadJson), nextCursor: page.nextCursor, missing: page.missing };
    },
  );

  api.post('/v1/dead/requeue', { schema: requeueDeadSchema, config: operate }, async (request) => {
    const { all, ...filter } = request.body;
    requireTopicOf(request, filter.topic);
    requireFilter(filter, all === true);
    const outcome = await dead.requeue(readFilter(filter, false), limits.bulkMax);
    noteFilter(request, filter, outcome.requeued);
    if (outcome.requeued === 0) await requireKnownTopic(role.topics, filter.topic);
    return outcome;
  });

  api.delete('/v1/dead', { schema: purgeDeadSchema, config: operate }, async (request) => {
    const { all, ids, ...rest } = request.query;
    requireTopicOf(request, rest.topic);
    const filter = { ...rest, ...(ids === undefined ? {} : { ids: readIds(ids) }) };
    requireFilter(filter, all === 'true');
    const outcome = await dead.purge(readFilter(filter, true), limits.bulkMax);
    noteFilter(request, filter, outcome.purged);
    if (outcome.purged === 0) await requireKnownTopic(role.topics, rest.topic);
    return outcome;
  });
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
    reason: job.buryReason as BuryReason,
    lastReason: last?.reason ?? null,
    status: last?.status ?? null,
    attempt: job.failures,
    replyExcerpt: last?.replyExcerpt ?? '',
    detail: last?.detail ?? '',
    dueAt: formatInstant(job.dueAt),
    createdAt: formatInstant(job.acceptedAt),
  };
}
