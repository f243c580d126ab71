// /v1/operations: starts, lists and stops bulk work that dq-upkeep does. The rights of the caller are stored
// with an operation and bound it; it goes on after the end of the caller's session or token.

import type { FastifyRequest } from 'fastify';
import {
  createOperationSchema,
  getOperationSchema,
  listOperationsSchema,
  type OperationInputJson,
  stopOperationSchema,
} from '../../contract/api/operation.ts';
import { shownFilter } from '../../core/audit.ts';
import { formatInstant, formatInstantOrNull, parseDuration } from '../../core/duration.ts';
import { DqError, invalidField } from '../../core/errors.ts';
import { isRestorable } from '../../core/job-change.ts';
import { limits } from '../../core/limits.ts';
import {
  type OperationFilter,
  type OperationRecord,
  type OperationWork,
  processedOf,
} from '../../core/operation.ts';
import { coversGlob, grants, type Rights, reaches, reachesEveryTopic } from '../../core/token.ts';
import type { RoleContext } from '../../process/role.ts';
import { readWhen } from '../../use-cases/accept-job.ts';
import { draftOperation, storeOperation } from '../../use-cases/request-operation.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { auditNote } from '../audit-trail.ts';
import { actorOf, needs, requireTopic, rightsOf } from '../http/route-access.ts';
import { readFilter, requireKnownTopic } from './dead-filter.ts';

const isDead = (kind: string): boolean => kind === 'requeue' || kind === 'purge';

export function operationRoutes(api: Api, { role }: ApiContext): void {
  const { registry, clock, store } = role;
  const read = needs('read', 'handler');
  const operate = needs('operate', 'handler');

  api.post('/v1/operations', { schema: createOperationSchema, config: operate }, async (request, answer) => {
    const input = request.body;
    const rights = rightsOf(request);
    const { ids, versions, ...filter } = readOperationFilter(input);
    if (filter.topic !== undefined) {
      requireTopic(request, filter.topic);
      await requireKnownTopic(role, filter.topic);
    }
    requireRights(rights, input.kind, filter.topic);
    if (input.kind === 'clear' && filter.topic === undefined)
      requireConfirmed(input, role.config['console.label']);
    if (input.kind === 'restore') await requireRestorable(role, filter.topic, ids);
    const now = await clock.read();
    const drafted = await draftOperation(
      store.admin,
      {
        kind: input.kind,
        filter,
        topics: rights.topics,
        ...readPace(input),
        at: readTime(input, now),
        ...readOverdue(input),
        dryRun: input.dryRun === true,
        actor: actorOf(request),
        ids: ids ?? null,
        ...(versions === undefined ? {} : { versions }),
      },
      now,
    );
    const { record } = drafted;
    const { id, kind, filter: shown, dryRun } = record;
    const detail = { filter: shownFilter({ operation: id, kind, ...shown, dryRun }) ?? {} };
    auditNote(request, { topic: filter.topic, detail });
    await storeOperation(registry, drafted);
    return answer
      .code(202)
      .header('location', `/v1/operations/${record.id}`)
      .send(operationJson(record, now));
  });

  api.get('/v1/operations', { schema: listOperationsSchema, config: read }, async (request) => {
    const items = await registry.operations();
    const now = clock.now();
    return {
      items: items
        .filter((one) => maySeeOperation(rightsOf(request), one))
        .map((one) => operationJson(one, now)),
    };
  });

  api.get('/v1/operations/:id', { schema: getOperationSchema, config: read }, async (request) =>
    operationJson(await find(request, request.params.id), clock.now()),
  );

  api.delete('/v1/operations/:id', { schema: stopOperationSchema, config: operate }, async (request) => {
    await find(request, request.params.id);
    const now = await clock.read();
    const stopped = await registry.stopOperation(request.params.id, now);
    if (stopped === null) throw notFound(request.params.id);
    return operationJson(stopped, now);
  });

  async function find(request: FastifyRequest, id: string): Promise<OperationRecord> {
    const found = await registry.operation(id);
    // An operation on other topics is not shown to exist.
    if (found === null || !maySeeOperation(rightsOf(request), found)) throw notFound(id);
    return found;
  }
}

/** Throws DqError forbidden: the rights beyond the scope operate that a kind needs. */
function requireRights(rights: Rights, kind: OperationRecord['kind'], topic: string | undefined): void {
  // The same right as DELETE of one job.
  if ((kind === 'cancel' || kind === 'clear') && !grants(rights, 'push'))
    throw new DqError('forbidden', `kind: ${kind} needs the scope push; use a token that has it`);
  const isWide = (kind === 'clear' || kind === 'restore') && topic === undefined;
  if (isWide && !(grants(rights, 'admin') && reachesEveryTopic(rights)))
    throw new DqError('forbidden', `kind: ${kind} without a topic needs the scope admin for every topic`);
}

/** Whether the rights cover every topic that the operation may change. */
export function maySeeOperation(rights: Rights, { filter, topics }: OperationRecord): boolean {
  if (filter.topic !== undefined) return reaches(rights, filter.topic);
  return topics.every((glob) => coversGlob(rights, glob));
}

function notFound(id: string): DqError {
  return new DqError(
    'operation_not_found',
    `there is no operation ${JSON.stringify(id)}; dq keeps the last ${limits.operationsKept}`,
  );
}

/** Throws DqError invalid. */
function readOperationFilter({
  kind,
  filter = {},
  all,
}: OperationInputJson): OperationFilter &
  Partial<Pick<OperationWork, 'versions'>> & { readonly ids?: readonly string[] } {
  const { topic, since, until, ids, versions, ...rest } = filter;
  if (all !== true && Object.keys(filter).length === 0)
    throw invalidField('all', 'must be true without a filter');
  const range = readFilter(
    Object.fromEntries(
      Object.entries({ topic, since, until, ids }).filter(([, value]) => value !== undefined),
    ),
    false,
  );
  for (const name of ['deadReason', 'lastReason', 'status'] as const)
    if (rest[name] !== undefined && !isDead(kind))
      throw invalidField(`filter.${name}`, 'is only for requeue and purge');
  if (rest.state !== undefined) {
    const allowed = kind === 'cancel' || (kind === 'reschedule' && /^(delayed|ready)$/.test(rest.state));
    if (!allowed) throw invalidField('filter.state', `cannot be ${rest.state} for ${kind}`);
  }
  return { ...range, ...rest, ...readVersions(kind, ids, versions) };
}

function readVersions(
  kind: string,
  ids: readonly string[] | undefined,
  versions: readonly string[] | undefined,
): Partial<Pick<OperationWork, 'versions'>> {
  if (versions === undefined) return {};
  // A row of the journal has the version of the job that is lost, not of one that a caller has read.
  if (kind === 'restore') throw invalidField('filter.versions', 'is not for restore');
  if (versions.length !== ids?.length) throw invalidField('filter.versions', 'must name one for each of ids');
  return { versions: Object.fromEntries(ids.map((id, n) => [id, Number(versions[n])])) };
}

function readPace({ kind, spread, rate }: OperationInputJson): Pick<OperationRecord, 'spreadMs' | 'rate'> {
  if (spread === undefined) return { spreadMs: null, rate: rate ?? null };
  if (kind !== 'requeue') throw invalidField('spread', 'is only for requeue');
  if (rate !== undefined) throw invalidField('rate', 'give spread or rate, not both');
  const parsed = parseDuration(spread);
  if (!parsed.ok) throw invalidField('spread', parsed.message);
  if (parsed.value > limits.operationSpreadMsMax) throw invalidField('spread', 'must be at most 7d');
  return { spreadMs: parsed.value === 0 ? null : parsed.value, rate: null };
}

function readOverdue({ kind, overdue }: OperationInputJson): Pick<OperationRecord, 'overdue'> {
  if (kind === 'restore') return { overdue: overdue ?? 'fire' };
  if (overdue !== undefined) throw invalidField('overdue', 'is only for restore');
  return {};
}

/** A typed word, because nothing brings the jobs back. */
function requireConfirmed({ confirm }: OperationInputJson, label: string): void {
  const wanted = label === '' ? 'all' : label;
  if (confirm !== wanted)
    throw invalidField('confirm', `must be ${JSON.stringify(wanted)} to clear every topic`);
}

/** Rejects with DqError no_journal, or of a single id job_ended or job_not_found. */
async function requireRestorable(
  { journal }: RoleContext,
  topic: string | undefined,
  ids: readonly string[] | undefined,
): Promise<void> {
  if (journal === undefined)
    throw new DqError(
      'no_journal',
      'kind: restore needs a journal: Redis, MySQL and journal.mode; the copy of dq backup is put in the place of the data directory',
    );
  const [id] = ids ?? [];
  if (topic === undefined || id === undefined || ids?.length !== 1) return;
  const [row] = await journal.db.rows([{ topic, id }]);
  if (row === undefined) throw new DqError('job_not_found', `the journal has no job ${JSON.stringify(id)}`);
  if (!isRestorable(row))
    throw new DqError('job_ended', `the job ${JSON.stringify(id)} has ended; the journal has no body of it`);
}

function readTime({ kind, delay, at }: OperationInputJson, now: number): number | null {
  const when = readWhen(
    {
      ...(delay === undefined ? {} : { delay }),
      ...(at === undefined ? {} : { at: at as string }),
      inQuery: false,
    },
    now,
  );
  if (kind !== 'reschedule') {
    if (when !== null) throw invalidField(delay === undefined ? 'at' : 'delay', 'is only for reschedule');
    return null;
  }
  if (when === null) throw invalidField('delay', 'is required; give delay or at');
  return 'at' in when ? when.at : now + when.delayMs;
}

function operationJson(record: OperationRecord, now: number) {
  const { filter, movingAt, startedAt, endedAt, at } = record;
  const { since, until, ...rest } = filter;
  const processed = processedOf(record);
  // An ended one has its updatedAt: its work ended then.
  const seconds = movingAt === null ? 0 : ((endedAt ?? now) - movingAt) / 1000;
  const perSecond = seconds > 0 ? Math.round((processed / seconds) * 10) / 10 : null;
  return {
    id: record.id,
    kind: record.kind,
    state: record.state,
    filter: {
      ...rest,
      ...(since === undefined ? {} : { since: formatInstant(since) }),
      ...(until === undefined ? {} : { until: formatInstant(until) }),
    },
    topics: record.topics,
    spread: record.spreadMs,
    rate: record.rate,
    at: formatInstantOrNull(at),
    overdue: record.overdue ?? null,
    dryRun: record.dryRun,
    actor: record.actor,
    matched: record.matched,
    done: record.done,
    skipped: record.skipped,
    failed: record.failed,
    failures: record.failures,
    problem: record.problem,
    perSecond,
    leftMs: leftOf(record, processed, perSecond, now),
    createdAt: formatInstant(record.createdAt),
    startedAt: formatInstantOrNull(startedAt),
    endedAt: formatInstantOrNull(endedAt),
  };
}

/** ms; null: unknown, or it does not run */
function leftOf(
  { state, spreadMs, matched, movingAt }: OperationRecord,
  processed: number,
  perSecond: number | null,
  now: number,
): number | null {
  if (state !== 'running' || matched === null || movingAt === null) return null;
  if (spreadMs !== null) return Math.max(0, movingAt + spreadMs - now);
  if (perSecond === null || perSecond === 0) return null;
  return Math.round((Math.max(0, matched - processed) / perSecond) * 1000);
}
