// Operations: bulk work on all jobs that match a filter.

import { Type } from 'typebox';
import { jobStates } from '../../core/job.ts';
import { limits } from '../../core/limits.ts';
import { operationKinds, operationStates, overdueChoices } from '../../core/operation.ts';
import {
  closed,
  count,
  countOrNull,
  deadMarks,
  flag,
  instant,
  instantOrNull,
  instantValue,
  JobId,
  type JsonOf,
  numberOrNull,
  problems,
  reply,
  TopicName,
  text,
  textOrNull,
  texts,
  Version,
} from './schema.ts';

const tags = ['operations'];

const filterMembers = {
  topic: Type.Optional(text('only jobs of this topic; default: of every topic of the caller', 'order.close')),
  idPrefix: Type.Optional(text('only ids that begin with this text', 'vip-2026')),
  state: Type.Optional(
    Type.Enum(jobStates, {
      description: 'cancel: any, default every live state; reschedule: delayed (default) or ready',
    }),
  ),
  ...deadMarks,
};

const OperationInput = closed(
  {
    kind: Type.Enum(operationKinds, {
      description:
        'requeue, purge: dead letters; run: delayed jobs; reschedule: delayed or ready jobs; cancel: live jobs; clear: jobs in any state; restore: jobs that the journal has and Redis lacks',
    }),
    filter: Type.Optional(
      closed(
        {
          ...filterMembers,
          ids: Type.Optional(
            Type.Array(Type.String(), {
              minItems: 1,
              maxItems: limits.operationIdsMax,
              description: 'only these ids; requires topic',
              examples: [['4711', '4712']],
            }),
          ),
          versions: Type.Optional(
            Type.Array(Version, {
              description:
                'of ids, one for each in their order: a job with another version by now does not match',
              examples: [['1893456000000001', '1893456000000002']],
            }),
          ),
          since: instantValue('requeue, purge: died then or later; else: due then or later'),
          until: instantValue('requeue, purge: died before; else: due before'),
        },
        { title: 'OperationFilter', description: 'each member that is present must match' },
      ),
    ),
    all: Type.Optional(flag('required without any filter', true)),
    confirm: Type.Optional(
      text('clear without a topic: the value of console.label, or `all` without one', 'shop production'),
    ),
    overdue: Type.Optional(
      Type.Enum(overdueChoices, {
        description: `restore, of jobs whose due time has passed: fire (default): due at once; spread: due within ${limits.restoreSpreadMs / 60_000} min, at random; skip: ended as purged`,
      }),
    ),
    spread: Type.Optional(text('requeue: move the jobs evenly over this time', '10m')),
    rate: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: limits.operationRateMax,
        description: 'jobs per second at most',
        examples: [50],
      }),
    ),
    delay: Type.Optional(text('reschedule: time from now until the next attempt', '10m')),
    at: instantValue('reschedule: when the next attempt is due'),
    dryRun: Type.Optional(flag('only count the jobs')),
  },
  { title: 'OperationInput' },
);
export type OperationInputJson = JsonOf<typeof OperationInput>;
export type OperationFilterInput = NonNullable<OperationInputJson['filter']>;

const Operation = closed(
  {
    id: text('id of the operation', '0a1b2c3d4e5f'),
    kind: Type.Enum(operationKinds, { description: 'what it does with the jobs' }),
    state: Type.Enum(operationStates, { description: 'stopped: by an operator; failed: see problem' }),
    filter: closed(
      {
        ...filterMembers,
        idCount: Type.Optional(count('number of ids that were named', 2)),
        since: Type.Optional(instant('earliest time of death, or due time')),
        until: Type.Optional(instant('end of that time, exclusive')),
      },
      { title: 'OperationFilterShown' },
    ),
    topics: texts('topic globs of the caller, which bound it', ['*']),
    spread: countOrNull('time to spread the jobs over, ms', 600_000),
    rate: countOrNull('jobs per second at most', 50),
    at: instantOrNull('reschedule: the new due time'),
    overdue: textOrNull('restore: as requested; else null', 'fire'),
    dryRun: flag('only counts'),
    actor: text('name of the token or session that began it', 'li.wei'),
    matched: countOrNull(
      'jobs that match; null: counted on the way. At the end: done + skipped + failed',
      1240,
    ),
    done: count('jobs that were moved', 812),
    skipped: count('jobs that matched and were then moved by others', 3),
    failed: count('jobs that were not moved', 1),
    failures: Type.Array(
      closed(
        { topic: TopicName, id: JobId, error: text('a code', 'job_in_flight') },
        { title: 'OperationFailure' },
      ),
      { description: `the first ${limits.operationFailuresKept}` },
    ),
    problem: textOrNull('why it waits, or why it failed', 'Redis does not answer'),
    perSecond: numberOrNull('jobs per second since its start', 90.5),
    leftMs: countOrNull('estimated time until its end', 5000),
    createdAt: instant('when it was requested: jobs that die, or are pushed or moved, later do not match'),
    startedAt: instantOrNull('when its work began'),
    endedAt: instantOrNull('when it ended'),
  },
  { title: 'Operation' },
);
export type OperationJson = JsonOf<typeof Operation>;

export const createOperationSchema = {
  operationId: 'createOperation',
  tags,
  summary: 'Requeue, purge, cancel, run, reschedule, clear or restore all jobs that match',
  description: `dq-upkeep does it in steps; it survives a restart and never moves a job twice. At most ${limits.operationsOpenMax} are open.`,
  body: OperationInput,
  response: { 202: reply('accepted', Operation), ...problems(404, 409, 413, 415, 503) },
};

export const listOperationsSchema = {
  operationId: 'listOperations',
  tags,
  summary: `The last ${limits.operationsKept} operations, newest first`,
  response: { 200: reply('operations', closed({ items: Type.Array(Operation) })), ...problems(503) },
};

const params = closed({ id: text('id of the operation', '0a1b2c3d4e5f') });

export const getOperationSchema = {
  operationId: 'getOperation',
  tags,
  summary: 'Read an operation',
  params,
  response: { 200: reply('the operation', Operation), ...problems(404, 503) },
};

export const stopOperationSchema = {
  operationId: 'stopOperation',
  tags,
  summary: 'Stop an operation; moved jobs stay moved. An ended one stays as it is',
  params,
  response: { 200: reply('the operation', Operation), ...problems(404, 413, 503) },
};
