// POST /v1/topics/{topic}/jobs: the hot path. The request's body is the job's body. From here to the store no promise is made
// and no schema is run over the body.
// Never answers a success before the store said that the job is durable.

import type { ServerResponse } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { DqError } from '../../core/errors.ts';
import { topicNamePattern } from '../../core/topic/fields.ts';
import type { PlainTopic } from '../../core/topic/topic.ts';
import type { PushJob, PushOutcome } from '../../ports/job-store.ts';
import { acceptJob } from '../../use-cases/accept-job.ts';
import { isUnreadable, topicNotFound, topicUnreadable } from '../../use-cases/change-topic.ts';
import type { PushTicket } from '../../use-cases/push-queue.ts';
import type { Api, ApiContext } from '../api-context.ts';
import type { BodyBudget } from '../http/body-budget.ts';
import { problemOf } from '../http/problem.ts';
import { bodyReader } from '../http/read-body.ts';
import { closed, durationText, instantText, problems, reply, topicParam } from '../http/schemas.ts';
import { concludePush, PushReply } from './conclude-push.ts';

const schema = {
  operationId: 'push',
  tags: ['jobs'],
  summary: 'Push a job; the body is delivered byte for byte',
  params: closed(topicParam),
  querystring: closed({
    id: Type.Optional(Type.String({ description: '1–256 bytes of UTF-8; made when not given' })),
    delay: durationText('until it is due'),
    at: instantText('when it is due'),
    mode: Type.Optional(
      Type.String({ enum: ['replace', 'keep', 'reject'], description: 'when the id is live' }),
    ),
    literal: Type.Optional(
      Type.Enum(['true'], {
        description: 'the body is meant as it is, though it looks like an item of a batch',
      }),
    ),
  }),
  response: {
    200: reply('replaced a live job, or kept it', PushReply),
    201: reply('a new job', PushReply),
    ...problems(404, 409, 413, 415, 503),
  },
};

interface PushQuery {
  readonly id?: string;
  readonly delay?: string;
  readonly at?: string;
  readonly mode?: string;
  readonly literal?: string;
}

const empty = Buffer.alloc(0);

/** In a scope of its own: every content type is a Buffer here. `room`: for bodies that come in pieces. */
export function pushRoute(api: Api, context: ApiContext, room: BodyBudget): void {
  const limit = { bytes: context.role.config['limits.bodyBytes'], option: 'limits.bodyBytes' };
  api.removeAllContentTypeParsers();
  api.addContentTypeParser('*', bodyReader(room, limit));
  api.post(
    '/v1/topics/:topic/jobs',
    { schema, config: { access: { scope: 'push', topics: 'path' }, requestLog: true, anyBody: true } },
    (request, answer) => {
      const { topic: name } = request.params;
      const topic = context.role.topics.get(name);
      if (topic === undefined) return lookUp(context, name, request, answer);
      push(context, topic, request, answer);
      // Sent later, when the store has said what became of it.
      return undefined;
    },
  );
}

/** A topic may be younger than this process's last look at the registry. */
async function lookUp(
  context: ApiContext,
  name: string,
  request: FastifyRequest,
  answer: FastifyReply,
): Promise<FastifyReply> {
  if (!topicNamePattern.test(name)) throw topicNotFound(name);
  const topic = await context.role.topics.lookUp(name).catch((error: unknown) => {
    if (isUnreadable(error)) throw topicUnreadable(name, error);
    // However the question failed, the job was not stored.
    throw new DqError('not_stored', 'the topic cannot be looked up now; push again', { cause: error });
  });
  if (topic === undefined) throw topicNotFound(name);
  push(context, topic, request, answer);
  return answer;
}

function push(context: ApiContext, topic: PlainTopic, request: FastifyRequest, answer: FastifyReply): void {
  const query = request.query as PushQuery;
  const headers = request.headers;
  if (headers['content-encoding'] !== undefined)
    throw new DqError(
      'unsupported_media_type',
      'content-encoding: bodies are taken as they are; send it plain',
    );
  const job = acceptJob(
    {
      id: query.id,
      delay: query.delay,
      at: query.at,
      mode: query.mode,
      inQuery: true,
      contentType: headers['content-type'] ?? null,
      body: (request.body as Buffer | undefined) ?? empty,
      isLiteral: query.literal !== undefined,
    },
    topic,
    context.role.clock.now(),
  );
  context.pushes.add(new PendingPush(context, job, answer));
}

const json = 'application/json; charset=utf-8';

/** Answers past Fastify: its way of sending looks for hooks, serializers and streams, of which a push's text needs none. */
class PendingPush implements PushTicket {
  readonly job: PushJob;
  readonly #context: ApiContext;
  readonly #response: ServerResponse;
  readonly #since = performance.now();

  constructor(context: ApiContext, job: PushJob, answer: FastifyReply) {
    this.#context = context;
    this.job = job;
    answer.hijack();
    this.#response = answer.raw;
  }

  settle(outcome: PushOutcome): void {
    const conclusion = concludePush(this.#context, this.job, outcome, this.#since);
    const response = this.#response;
    if (conclusion.ok) {
      // As text: Node writes it together with the header.
      const text = `{${conclusion.members}}`;
      response.writeHead(conclusion.status, {
        'content-type': json,
        'content-length': Buffer.byteLength(text),
      });
      response.end(text);
      return;
    }
    const { status, headers, bytes } = problemOf(conclusion.error);
    response.writeHead(status, { ...headers, 'content-length': bytes.length });
    response.end(bytes);
  }
}
