// POST /v1/topics/{topic}/jobs: the hot path. The request's body is the job's body. From here to the store no promise is made
// and no schema is run over the body.
// Never answers a success before the store said that the job is durable.

import type { FastifyReply, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { DqError } from '../core/errors.ts';
import { type Topic, topicNamePattern } from '../core/topic.ts';
import { acceptJob } from '../jobs/accept-job.ts';
import { topicNotFound } from '../jobs/change-topic.ts';
import type { PushTicket } from '../jobs/push-queue.ts';
import type { PushJob, PushOutcome } from '../store/job-store.ts';
import { concludePush, PushReply } from './conclude-push.ts';
import type { Api, IntakeContext } from './intake-context.ts';
import { problemOf } from './problem.ts';
import { closed, durationText, instantText, problems, reply, topicParam } from './schemas.ts';

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
}

const empty = Buffer.alloc(0);

/** In a scope of its own: every content type is a Buffer here. */
export function pushRoute(api: Api, context: IntakeContext): void {
  api.removeAllContentTypeParsers();
  api.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body));
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
  context: IntakeContext,
  name: string,
  request: FastifyRequest,
  answer: FastifyReply,
): Promise<FastifyReply> {
  if (!topicNamePattern.test(name)) throw topicNotFound(name);
  const topic = await context.role.topics.lookUp(name).catch((error: unknown) => {
    // However the question failed, the job was not stored.
    throw new DqError('not_stored', 'the topic cannot be looked up now; push again', { cause: error });
  });
  if (topic === undefined) throw topicNotFound(name);
  push(context, topic, request, answer);
  return answer;
}

function push(context: IntakeContext, topic: Topic, request: FastifyRequest, answer: FastifyReply): void {
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
    },
    topic,
    Date.now(),
  );
  context.pushes.add(new PendingPush(context, job, answer));
}

class PendingPush implements PushTicket {
  readonly job: PushJob;
  readonly #context: IntakeContext;
  readonly #answer: FastifyReply;
  readonly #since = performance.now();

  constructor(context: IntakeContext, job: PushJob, answer: FastifyReply) {
    this.#context = context;
    this.job = job;
    this.#answer = answer;
  }

  settle(outcome: PushOutcome): void {
    const conclusion = concludePush(this.#context, this.job, outcome, this.#since);
    if (conclusion.ok) {
      this.#answer
        .code(conclusion.status)
        .header('content-type', 'application/json; charset=utf-8')
        .send(`{${conclusion.members}}`);
      return;
    }
    const { status, headers, bytes } = problemOf(conclusion.error);
    this.#answer.code(status).headers(headers).send(bytes);
  }
}
