// POST /v1/topics/{topic}/jobs: the hot path. The request's body is the job's body. From here to the store
// there is neither a promise nor a schema over the body, and the answer leaves without Fastify, whose send()
// looks for hooks, serializers and streams that a push does not have.
// directPush() serves a plain push without Fastify, which costs a quarter of the server's processor time. A
// push is plain when its path names a topic that this process knows, its query has only known parameters,
// each once, its body has a length and a plain content type, and its caller may push to the topic. Every
// other request goes to Fastify.
// Invariants: no success before the store reports the job as durable. A client cannot tell the two ways
// apart. The direct way rejects nothing: a push that it cannot accept goes to the route together with the
// body that was read, and the route rejects it.

import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { type PushQuery, pushBody, pushQuery, pushSchema } from '../../contract/api/push.ts';
import type { PlainTopic } from '../../core/topic/topic.ts';
import type { PushJob, PushOutcome } from '../../ports/job-store.ts';
import { monotonicNow } from '../../runtime/time.ts';
import { acceptJob, pushTerms, readBackoff } from '../../use-cases/accept-job.ts';
import { topicOfPush } from '../../use-cases/find-topics.ts';
import type { PushTicket } from '../../use-cases/push-queue.ts';
import type { Api, ApiContext } from '../api-context.ts';
import type { BodyBudget } from '../http/body-budget.ts';
import { problemOf } from '../http/problem.ts';
import { parseQuery } from '../http/query.ts';
import { type BodyLimit, bodyReader, handOver, readBody } from '../http/read-body.ts';
import { rejectEncoding, traceOf } from '../http/request-headers.ts';
import { callerOf, errorFor, permits, type RouteAccess } from '../http/route-access.ts';
import { sendJson } from '../http/send-json.ts';
import { finishPush } from './push-result.ts';

const access: RouteAccess = { scope: 'push', topics: 'path' };
const empty = Buffer.alloc(0);

/** Needs a scope of its own, in which every content type is a Buffer. `budget`: for bodies that arrive in
 *  pieces. */
export function pushRoute(api: Api, context: ApiContext, budget: BodyBudget): void {
  api.removeAllContentTypeParsers();
  api.addContentTypeParser('*', bodyReader(budget, bodyLimitOf(context)));
  api.post(
    '/v1/topics/:topic/jobs',
    { schema: pushSchema, config: { access, requestLog: true, bodyContent: pushBody } },
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
  context.pushes.addInTurn(request.raw.socket, new PendingPush(context, job, answer.raw));
}

type Handler = (request: IncomingMessage, response: ServerResponse) => void;

const before = '/v1/topics/';
const after = '/jobs';
/** A subset of what Fastify accepts; it parses and rejects the others. */
const plainType = /^[a-z]{1,20}\/[a-z.+-]{1,60}(?:; ?charset=utf-8)?$/i;
const names: ReadonlySet<string> = new Set(Object.keys(pushQuery.properties));

/** Returns the handler of all requests. `toRoutes`: Fastify's. `budget`: for bodies that arrive in pieces. */
export function directPush(context: ApiContext, budget: BodyBudget, toRoutes: Handler): Handler {
  const { topics } = context.role;
  const limit = bodyLimitOf(context);
  return (request, response) => {
    const { method, url = '', headers } = request;
    const contentType = headers['content-type'];
    const mark = url.indexOf('?');
    const path = mark < 0 ? url : url.slice(0, mark);
    // A topic's name has no slash.
    const topic =
      method === 'POST' && path.startsWith(before) && path.endsWith(after)
        ? topics.get(path.slice(before.length, -after.length))
        : undefined;
    const query = topic === undefined ? null : plainQuery(mark < 0 ? '' : url.slice(mark + 1));
    if (
      topic === undefined ||
      query === null ||
      contentType === undefined ||
      !plainType.test(contentType) ||
      headers['content-length'] === undefined ||
      !permits(callerOf(request), access, topic.topic)
    ) {
      toRoutes(request, response);
      return;
    }
    readBody(request, request, budget, limit, (error, body) => {
      if (body !== undefined) {
        try {
          const job = jobOf(context, topic, headers, body, query);
          context.pushes.addInTurn(request.socket, new PendingPush(context, job, response));
          return;
        } catch {
          // The route finds the same error, and answers, counts and logs it.
        }
      }
      handOver(request, error, body);
      toRoutes(request, response);
    });
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
  readonly #response: ServerResponse;
  readonly #since = monotonicNow();

  constructor(context: ApiContext, job: PushJob, response: ServerResponse) {
    this.#context = context;
    this.job = job;
    this.#response = response;
  }

  settle(outcome: PushOutcome): void {
    const result = finishPush(this.#context, this.job, outcome, this.#since);
    if (result.ok) {
      sendJson(this.#response, result.status, `{${result.members}}`);
      return;
    }
    const { status, headers, bytes } = problemOf(errorFor(this.#response.req, result.error));
    this.#response.writeHead(status, { ...headers, 'content-length': bytes.length });
    this.#response.end(bytes);
  }
}
