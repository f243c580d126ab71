// GET and DELETE /v1/topics/{topic}/jobs/{id}: look at one job, cancel one job. A job whose topic is no longer registered can
// still be seen and cancelled.

import { isUtf8 } from 'node:buffer';
import { Type } from 'typebox';
import { formatInstant } from '../../core/duration.ts';
import { type AttemptRecord, type EndedJob, endStates, type JobSnapshot, jobStates } from '../../core/job.ts';
import { limits } from '../../core/limits.ts';
import { cancelJob } from '../../use-cases/cancel-job.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { elapsedMs, logRequest } from '../http/request-log.ts';
import { closed, Instant, jobParams, nullable, problems, reply, VersionText } from '../http/schemas.ts';
import { jobHead } from './job-head.ts';
import { absentJob, readKey } from './job-key.ts';

const Attempt = Type.Object({
  attempt: Type.Integer(),
  startedAt: Instant,
  durationMs: Type.Number(),
  outcome: Type.Enum(['delivered', 'failed']),
  status: nullable('integer'),
  reason: nullable('string'),
  replyExcerpt: Type.String(),
  notifier: Type.String(),
  host: Type.String(),
});

const JobReply = Type.Object({
  topic: Type.String(),
  id: Type.String(),
  version: VersionText,
  state: Type.Enum([...jobStates, ...endStates], {
    description: `what has ended stays visible for history.retention: ${endStates.join(', ')}`,
  }),
  dueAt: Instant,
  createdAt: Instant,
  endedAt: Type.Optional(Instant),
  attempt: Type.Integer({ description: 'attempts finished' }),
  maxAttempts: nullable('integer'),
  contentType: Type.Optional(nullable('string')),
  body: Type.Optional(Type.String({ description: 'the body, when it is UTF-8; gone with the end' })),
  bodyBase64: Type.Optional(Type.String({ description: 'the body, when it is not UTF-8' })),
  attempts: Type.Array(Attempt, { maxItems: limits.attemptsKept }),
});

export function jobRoutes(api: Api, context: ApiContext): void {
  const { store, topics, counters } = context.role;
  const url = '/v1/topics/:topic/jobs/:id';

  api.get(
    url,
    {
      schema: {
        operationId: 'getJob',
        tags: ['jobs'],
        summary: 'Look at a job; one that has ended, without its body',
        params: closed(jobParams),
        response: { 200: reply('the job', JobReply), ...problems(404, 503) },
      },
      config: { access: { scope: 'read', topics: 'path' } },
    },
    async (request) => {
      const { topic, id } = readKey(request.params);
      // Both at once: one after the other, a job that is pushed again in between would be in neither.
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
    {
      schema: {
        operationId: 'cancel',
        tags: ['jobs'],
        summary: 'Cancel a job, in whatever state it is',
        params: closed(jobParams),
        response: {
          200: reply('it is gone', Type.Object({ cancelled: Type.Literal(true), inFlight: Type.Boolean() })),
          ...problems(404, 413, 503),
        },
      },
      config: { access: { scope: 'push', topics: 'path' }, requestLog: true },
    },
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
