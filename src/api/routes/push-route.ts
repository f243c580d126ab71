// POST /v1/topics/{topic}/jobs: the hot path. The request's body is the job's body. From here to the store
// there is neither a promise nor a schema over the body, and the answer leaves without Fastify, whose send()
// looks for hooks, serializers and streams that a push does not have.
// A push arrives in two ways: plainPush() takes it from the socket, the route from node:http and Fastify. A
// plain push names a topic that this process knows, has only known parameters, each once, and nothing wrong,
// and its caller may push to the topic.
// Invariants: no success before the store reports the job as durable. A client cannot tell the two ways
// apart.

import type { IncomingHttpHeaders, ServerResponse } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { type PushQuery, pushBody, pushQuery, pushSchema } from '../../contract/api/push.ts';
import type { Caller } from '../../core/token.ts';
import type { PlainTopic } from '../../core/topic/topic.ts';
import type { PushJob, PushOutcome } from '../../ports/job-store.ts';
import { monotonicNow } from '../../runtime/time.ts';
import { acceptJob, pushTerms, readBackoff } from '../../use-cases/accept-job.ts';
import { topicOfPush } from '../../use-cases/find-topics.ts';
import type { PushTicket } from '../../use-cases/push-queue.ts';
import type { Api, ApiContext } from '../api-context.ts';
import type { BodyBudget } from '../http/body-budget.ts';
import type { Answer, PlainService } from '../http/plain-connection.ts';
import { problemOf } from '../http/problem.ts';
import { type BodyLimit, bodyReader } from '../http/read-body.ts';
import { parseQuery, rejectEncoding, traceOf } from '../http/request-head.ts';
import { errorForCaller, needs, permits, rightsOf } from '../http/route-access.ts';
import { finishPush } from './push-result.ts';

const empty = Buffer.alloc(0);

/** Needs a scope of its own, in which every content type is a Buffer. `budget`: for bodies that arrive in
 *  pieces. */
export function pushRoute(api: Api, context: ApiContext, budget: BodyBudget): void {
  api.removeAllContentTypeParsers();
  api.addContentTypeParser('*', bodyReader(budget, bodyLimitOf(context)));
  api.post(
    '/v1/topics/:topic/jobs',
    { schema: pushSchema, config: { ...needs('push', 'path'), requestLog: true, bodyContent: pushBody } },
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
): Promise<void> {
  push(context, await topicOfPush(context.role.topics, name), request, answer);
}

function push(context: ApiContext, topic: PlainTopic, request: FastifyRequest, answer: FastifyReply): void {
  const body = (request.body as Buffer | undefined) ?? empty;
  const job = jobOf(context, topic, request.headers, body, request.query as PushQuery);
  answer.hijack();
  const push = new PendingPush(context, job, rightsOf(request), answerOf(answer.raw));
  context.pushes.addInTurn(request.raw.socket, push);
}

const before = '/v1/topics/';
const after = '/jobs';
const names: ReadonlySet<string> = new Set(Object.keys(pushQuery.properties));

/** Takes a plain push that nothing rejects. The route finds the same error in another one, and answers,
 *  counts and logs it. */
export function plainPush(context: ApiContext): PlainService {
  const { topics } = context.role;
  return ({ url, headers, body, caller, socket, begin }) => {
    const mark = url.indexOf('?');
    const path = mark < 0 ? url : url.slice(0, mark);
    if (!path.startsWith(before) || !path.endsWith(after)) return false;
    // A topic's name has no slash and no escape.
    const topic = topics.get(path.slice(before.length, -after.length));
    if (topic === undefined || !permits(caller, 'push', topic.topic)) return false;
    const query = plainQuery(mark < 0 ? '' : url.slice(mark + 1));
    if (query === null) return false;
    let job: PushJob;
    try {
      job = jobOf(context, topic, headers, body, query);
    } catch {
      return false;
    }
    context.pushes.addInTurn(socket, new PendingPush(context, job, caller, begin()));
    return true;
  };
}

/** The query of a push, without its `?`, read as the route reads it. null: the route rejects it before its
 *  handler. acceptJob() checks all other values. */
function plainQuery(text: string): PushQuery | null {
  const read = parseQuery(text) as PushQuery;
  for (const name in read) if (!names.has(name)) return null;
  return read.literal === undefined || read.literal === 'true' ? read : null;
}

/** The job of a push on either way. Throws DqError. */
function jobOf(
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
      idempotency: query.idempotency,
      lease: query.lease,
      maxAttempts: query.maxAttempts,
      backoff: query.backoff === undefined ? undefined : readBackoff(query.backoff),
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

function bodyLimitOf({ role }: ApiContext): BodyLimit {
  return { bytes: role.config['limits.bodyBytes'], option: 'limits.bodyBytes' };
}

/** Answers a push on either way when the store's outcome is known. */
class PendingPush implements PushTicket {
  readonly job: PushJob;
  readonly #context: ApiContext;
  readonly #caller: Caller;
  readonly #answer: Answer;
  readonly #since = monotonicNow();

  constructor(context: ApiContext, job: PushJob, caller: Caller, answer: Answer) {
    this.#context = context;
    this.job = job;
    this.#caller = caller;
    this.#answer = answer;
  }

  settle(outcome: PushOutcome): void {
    const result = finishPush(this.#context, this.job, outcome, this.#since);
    if (result.ok) {
      this.#answer.send(result.status, jsonHeaders, `{${result.members}}`);
      return;
    }
    const { status, headers, bytes } = problemOf(errorForCaller(this.#caller, result.error));
    this.#answer.send(status, headers, bytes.toString());
  }
}

const jsonHeaders = { 'content-type': 'application/json; charset=utf-8' };

function answerOf(response: ServerResponse): Answer {
  return {
    send: (status, headers, body) => {
      response.writeHead(status, { ...headers, 'content-length': Buffer.byteLength(body) });
      response.end(body);
    },
  };
}
