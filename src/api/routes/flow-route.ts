// GET /v1/topics/{topic}/jobs/{id}/flow: what happened to a job, also after its end and after its topic.

import { Type } from 'typebox';
import { formatInstant } from '../../core/duration.ts';
import type { JobRow } from '../../core/job-row.ts';
import { type FlowEntry, flowEvents, jobFlow } from '../../use-cases/job-flow.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { closed, instant, jobParams, nullable, problems, reply } from '../http/schemas.ts';
import { apiLimits } from '../limits.ts';
import { Attempt, attemptJson } from './job-json.ts';
import { absentJob, readKey } from './job-key.ts';

const Entry = closed(
  {
    at: instant('when it happened'),
    version: nullable('string', {
      description: 'version of the job; null: unknown',
      examples: ['1893456000000001'],
    }),
    event: Type.Enum([...flowEvents], {
      description:
        '`retried`: an attempt failed and another one follows · `restored`: put back after Redis had lost it',
    }),
    dueAt: nullable('string', {
      description: 'when the job was due after this; null: unknown',
      examples: ['2030-01-01T08:00:00.000Z'],
    }),
    process: nullable('string', {
      description: 'process that did it; null: unknown',
      examples: ['dq-server-0'],
    }),
    host: nullable('string', { description: 'machine of that process', examples: ['worker-1'] }),
    place: nullable('string', {
      description: 'shard and bucket; null: unknown',
      examples: ['0f1e2d3c4b5a6978:0'],
    }),
    attempt: Type.Union([Type.Null(), Attempt], {
      description: 'null: not an attempt, or none is kept',
      examples: [null],
    }),
  },
  { title: 'FlowEntry' },
);

const schema = {
  operationId: 'jobFlow',
  tags: ['jobs'],
  summary: 'What happened to a job, oldest first; with a journal also long after its end',
  params: closed(jobParams),
  response: {
    200: reply(
      'its flow',
      closed(
        {
          journal: Type.Boolean({
            description: 'true: every change of journal.retention; false: what the store still knows',
            examples: [true],
          }),
          entries: Type.Array(Entry, {
            description: `oldest first; the newest ${apiLimits.flowMax} changes of the journal`,
          }),
        },
        { title: 'Flow' },
      ),
    ),
    ...problems(404, 503),
  },
};

export function flowRoute(api: Api, { role }: ApiContext): void {
  const { store, topics, journal } = role;
  api.get(
    '/v1/topics/:topic/jobs/:id/flow',
    { schema, config: { access: { scope: 'read', topics: 'path' } } },
    async (request) => {
      const { topic, id } = readKey(request.params);
      const key = { topic, id };
      const [logged, rows, job, ended] = await Promise.all([
        journal?.db.flow(key, apiLimits.flowMax) ?? [],
        journal?.db.rows([key]) ?? ([] as readonly JobRow[]),
        store.jobs.get(key),
        store.history.get(key),
      ]);
      const entries = jobFlow(logged, job ?? ended, rows[0] ?? null);
      if (entries.length === 0) throw await absentJob(topics, topic);
      return { journal: journal !== undefined, entries: entries.map(entryJson) };
    },
  );
}

function entryJson({ at, version, dueAt, attempt, ...entry }: FlowEntry): object {
  return {
    ...entry,
    at: formatInstant(at),
    version: version === null ? null : String(version),
    dueAt: dueAt === null ? null : formatInstant(dueAt),
    attempt: attempt === null ? null : attemptJson(attempt, { dueAt: dueAt ?? at }),
  };
}
