// GET and DELETE /v1/topics/{topic}/jobs/{id}: read one job, cancel one job. Both also work for a job whose
// topic is no longer registered.

import { isUtf8 } from 'node:buffer';
import { Type } from 'typebox';
import { formatInstant } from '../../core/duration.ts';
import { type AttemptRecord, type EndedJob, endStates, type JobSnapshot, jobStates } from '../../core/job.ts';
import { limits } from '../../core/limits.ts';
import { cancelJob } from '../../use-cases/move-job.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { elapsedMs, logRequest } from '../http/request-log.ts';
import {
  CreatedAt,
  closed,
  DueAt,
  FinishedAttempts,
  instant,
  JobId,
  jobParams,
  nullable,
  problems,
  reply,
  TopicName,
  text,
  Version,
  yes,
} from '../http/schemas.ts';
import { jobHead } from './job-head.ts';
import { absentJob, readKey } from './job-key.ts';

const Attempt = Type.Object(
  {
    attempt: Type.Integer({ description: 'number of the attempt, from 1', examples: [1] }),
    startedAt: instant('when the attempt began'),
    durationMs: Type.Number({ description: 'from DNS to the last byte of the reply', examples: [41.5] }),
    outcome: Type.Enum(['delivered', 'failed'], { description: 'how the attempt ended' }),
    status: nullable('integer', { description: 'HTTP status; null without a reply', examples: [500] }),
    reason: nullable('string', { description: 'why it failed; null: delivered', examples: ['status'] }),
    replyExcerpt: text('start of the reply', 'internal error'),
    notifier: text('process that made the attempt', 'dq-notifier-0'),
    host: text('machine of that process', 'worker-1'),
  },
  { title: 'Attempt' },
);

const Job = Type.Object(
  {
    topic: TopicName,
    id: JobId,
    version: Version,
    state: Type.Enum([...jobStates, ...endStates], {
      description: `state of the job; for the time of the option history.retention also ${endStates.join(', ')}`,
    }),
    dueAt: DueAt,
    createdAt: CreatedAt,
    endedAt: Type.Optional(instant('when the job ended; absent while it is stored')),
    attempt: FinishedAttempts,
    maxAttempts: nullable('integer', {
      description: 'maxAttempts of the topic; null without the topic',
      examples: [10],
    }),
    contentType: Type.Optional(
      nullable('string', {
        description: 'content type of the body; null: the push had none',
        examples: ['application/json'],
      }),
    ),
    body: Type.Optional(text('the body, if it is UTF-8; absent after the end of the job', '{"order":4711}')),
    bodyBase64: Type.Optional(text('the body in base64, if it is not UTF-8', '/w==')),
    attempts: Type.Array(Attempt, {
      maxItems: limits.attemptsKept,
      description: `the last ${limits.attemptsKept} attempts`,
    }),
  },
  { title: 'Job' },
);

const getSchema = {
  operationId: 'getJob',
  tags: ['jobs'],
  summary: 'Read a job; after its end, without its body',
  params: closed(jobParams),
  response: { 200: reply('the job', Job), ...problems(404, 503) },
};

const cancelSchema = {
  operationId: 'cancel',
  tags: ['jobs'],
  summary: 'Cancel a job in any state',
  params: closed(jobParams),
  response: {
    200: reply(
      'the job is removed',
      Type.Object({
        cancelled: yes,
        inFlight: Type.Boolean({ description: 'an attempt of the job is running', examples: [false] }),
      }),
    ),
    ...problems(404, 413, 503),
  },
};

const url = '/v1/topics/:topic/jobs/:id';

export function jobRoutes(api: Api, context: ApiContext): void {
  const { store, topics, counters } = context.role;

  api.get(
    url,
    { schema: getSchema, config: { access: { scope: 'read', topics: 'path' } } },
    async (request) => {
      const { topic, id } = readKey(request.params);
      // In parallel: one after the other would miss a job that is pushed again in between.
      const [job, ended] = await Promise.all([
        store.jobs.get({ topic, id }),
        store.history.get({ topic, id }),
      ]);
      const maxAttempts = topics.get(topic)?.maxAttempts ?? null;
      if (job !== null) return jobJson(job, maxAttempts);
      if (ended !== null) return endedJson(ended, maxAttempts);
      throw await absentJob(topics, topic);
    },
  );

  api.delete(
    url,
    { schema: cancelSchema, config: { access: { scope: 'push', topics: 'path' }, requestLog: true } },
    async (request, answer) => {
      const since = performance.now();
      const { topic, id } = readKey(request.params);
      const cancelled = await cancelJob(store.jobs, { topic, id });
      if (cancelled === null) throw await absentJob(topics, topic);
      counters.add(topic, 'cancelled');
      const line = { code: null, version: null, dueAt: null, bytes: 0, ms: elapsedMs(since) };
      logRequest(context.role.log, { method: 'DELETE', topic, id, status: 200, ...line });
      return answer.send({ cancelled: true, inFlight: cancelled.inFlight });
    },
  );
}

function jobJson(job: JobSnapshot, maxAttempts: number | null): object {
  return {
    ...jobHead(job),
    maxAttempts,
    contentType: job.contentType,
    ...(isUtf8(job.body) ? { body: job.body.toString('utf8') } : { bodyBase64: job.body.toString('base64') }),
    attempts: job.attempts.map(attemptJson),
  };
}

function endedJson(job: EndedJob, maxAttempts: number | null): object {
  return {
    ...jobHead(job),
    endedAt: formatInstant(job.endedAt),
    maxAttempts,
    attempts: job.attempts.map(attemptJson),
  };
}

function attemptJson({ startedAt, ...attempt }: AttemptRecord): object {
  return {
    attempt: attempt.attempt,
    startedAt: formatInstant(startedAt),
    durationMs: attempt.durationMs,
    outcome: attempt.outcome,
    status: attempt.status,
    reason: attempt.reason,
    replyExcerpt: attempt.replyExcerpt,
    notifier: attempt.notifier,
    host: attempt.host,
  };
}
