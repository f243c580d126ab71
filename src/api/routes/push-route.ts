// POST /v1/topics/{topic}/jobs: the hot path. The request's body is the job's body. From here to the store
// there is neither a promise nor a schema over the body. DirectPush takes most of these requests before
// Fastify does.
// Invariant: no success before the store reports the job as durable.

import type { IncomingHttpHeaders } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { invalidField } from '../../core/errors.ts';
import { backoffJson } from '../../core/topic/backoff.ts';
import type { PlainTopic } from '../../core/topic/topic.ts';
import type { PushJob } from '../../ports/job-store.ts';
import { acceptJob, pushTerms } from '../../use-cases/accept-job.ts';
import { topicOfPush } from '../../use-cases/topic-of-push.ts';
import type { Api, ApiContext } from '../api-context.ts';
import type { BodyBudget } from '../http/body-budget.ts';
import { rejectEncoding } from '../http/content-encoding.ts';
import { parseQuery } from '../http/query.ts';
import { type BodyLimit, bodyReader } from '../http/read-body.ts';
import type { RouteAccess } from '../http/route-access.ts';
import { closed, durationText, instantText, problems, reply, text, topicParam } from '../http/schemas.ts';
import { traceOf } from '../http/trace-headers.ts';
import { PendingPush } from './pending-push.ts';
import { PushResult } from './push-result.ts';

const query = closed({
  id: Type.Optional(text('job id, 1–256 bytes of UTF-8; dq makes one when it is not given', '4711')),
  delay: durationText('time until the first attempt; default: delay of the topic'),
  at: instantText('when the first attempt is due'),
  mode: Type.Optional(
    Type.String({
      enum: ['replace', 'keep', 'reject'],
      default: 'replace',
      description: 'effect when the id is live: replace it, keep the live job, or reject the push',
    }),
  ),
  lease: durationText('lease of this job, for a pull topic; default: that of the pull, or of the topic'),
  maxAttempts: Type.Optional(text('attempts of this job in all; default: that of the topic', '3')),
  backoff: Type.Optional(
    text('waits between attempts of this job, as `2n+1`, `15s,3m,1h`, or the JSON of a topic', '15s,3m,1h'),
  ),
  deadline: Type.Optional(
    text(
      'no attempt starts later; dq then buries the job as `expired`: a duration from now, or a time as of `at`',
      '2h',
    ),
  ),
  literal: Type.Optional(
    Type.Enum(['true'], {
      description: 'deliver the body as it is, even if it looks like an item of a batch',
    }),
  ),
});

const schema = {
  operationId: 'push',
  tags: ['jobs'],
  summary: 'Push a job; dq delivers the body byte for byte',
  params: closed(topicParam),
  querystring: query,
  response: {
    200: reply('replaced a live job, or kept it', PushResult),
    201: reply('a new job', PushResult),
    ...problems(404, 409, 413, 415, 503),
  },
};

/** JSON first: a client generator takes the first content type as its default. */
const bodyContent = {
  content: {
    'application/json': {
      schema: Type.Unknown({
        description: 'any JSON value; dq checks that it is JSON and never rewrites it',
        examples: [{ order: 4711 }],
      }),
    },
    'application/octet-stream': {
      schema: Type.String({ format: 'binary', description: 'any bytes, or none' }),
    },
    '*/*': { schema: Type.String({ format: 'binary', description: 'any bytes of any other content type' }) },
  },
};

interface PushQuery {
  readonly id?: string;
  readonly delay?: string;
  readonly at?: string;
  readonly mode?: string;
  readonly lease?: string;
  readonly maxAttempts?: string;
  readonly backoff?: string;
  readonly deadline?: string;
  readonly literal?: string;
}

const names: ReadonlySet<string> = new Set(Object.keys(query.properties));

/** The query of a push, without its `?`, read as the route reads it. null: the route rejects it before its
 *  handler. acceptJob() checks all other values. */
export function plainQuery(text: string): PushQuery | null {
  const read = parseQuery(text) as PushQuery;
  for (const name in read) if (!names.has(name)) return null;
  return read.literal === undefined || read.literal === 'true' ? read : null;
}

const empty = Buffer.alloc(0);

/** What a caller needs for a push, on either way. */
export const pushAccess: RouteAccess = { scope: 'push', topics: 'path' };

/** Needs a scope of its own, in which every content type is a Buffer. `budget`: for bodies that arrive in
 *  pieces. */
export function pushRoute(api: Api, context: ApiContext, budget: BodyBudget): void {
  api.removeAllContentTypeParsers();
  api.addContentTypeParser('*', bodyReader(budget, bodyLimitOf(context)));
  api.post(
    '/v1/topics/:topic/jobs',
    { schema, config: { access: pushAccess, requestLog: true, bodyContent } },
    (request, answer) => {
      const { topic: name } = request.params;
      const topic = context.role.topics.get(name);
      if (topic === undefined) return lookUp(context, name, request, answer);
      push(context, topic, request, answer);
      // PendingPush sends the answer after the store's outcome.
      return undefined;
    },
  );
}

async function lookUp(
  context: ApiContext,
  name: string,
  request: FastifyRequest,
  answer: FastifyReply,
): Promise<FastifyReply> {
  push(context, await topicOfPush(context.role.topics, name), request, answer);
  return answer;
}

function push(context: ApiContext, topic: PlainTopic, request: FastifyRequest, answer: FastifyReply): void {
  const body = (request.body as Buffer | undefined) ?? empty;
  const job = jobOfPush(context, topic, request.headers, body, request.query as PushQuery);
  answer.hijack();
  context.turns.add(request.raw.socket, new PendingPush(context, job, answer.raw));
}

/** The job of a push on either way. Throws DqError. */
export function jobOfPush(
  context: ApiContext,
  topic: PlainTopic,
  headers: IncomingHttpHeaders,
  body: Buffer,
  query: PushQuery,
): PushJob {
  rejectEncoding(headers, 'body');
  return acceptJob(
    {
      id: query.id,
      delay: query.delay,
      at: query.at,
      mode: query.mode,
      lease: query.lease,
      maxAttempts: query.maxAttempts,
      backoff: query.backoff === undefined ? undefined : backoffOf(query.backoff),
      deadline: query.deadline,
      ...traceOf(headers),
      inQuery: true,
      contentType: headers['content-type'] ?? null,
      body,
      isLiteral: query.literal !== undefined,
    },
    topic,
    pushTerms(context.role),
  );
}

/** Of the body of a push. */
export function bodyLimitOf({ role }: ApiContext): BodyLimit {
  return { bytes: role.config['limits.bodyBytes'], option: 'limits.bodyBytes' };
}

/** Of a query, or of gRPC. Throws DqError. */
export function backoffOf(text: string): unknown {
  try {
    return backoffJson(text);
  } catch {
    throw invalidField('backoff', 'must be 2n+1, waits such as 15s,3m,1h, or valid JSON');
  }
}
