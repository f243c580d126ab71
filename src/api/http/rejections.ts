// rejections.ts answers every failed request with a problem document, and counts and logs rejected pushes and
// cancels: those of routes, and those that an HttpFront rejects before routing, without a token or from a web
// page. An unexpected error is logged and answered without its text: one request's bug ends neither the
// process nor the answers of other requests.

import type { IncomingMessage } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { catalogue, DqError } from '../../core/errors.ts';
import { StoreError } from '../../ports/store-error.ts';
import type { RoleContext } from '../../process/role.ts';
import type { ApiContext } from '../api-context.ts';
import { auditNote } from '../audit-trail.ts';
import { rejectionOf } from '../routes/push-result.ts';
import type { FrontObserver, HttpFront } from './http-front.ts';
import { frameworkProblem, problemOf, storeProblem } from './problem.ts';
import { isRead, parseQuery, unreadable } from './request-head.ts';
import { logRequest, type RejectionLines } from './request-log.ts';
import { errorFor, mayTouch } from './route-access.ts';

export function errorHandler(context: ApiContext, front: HttpFront) {
  return (thrown: unknown, request: FastifyRequest, answer: FastifyReply): void => {
    const error = dqErrorOf(thrown, request);
    const known =
      error === null
        ? unhandled(context, thrown, request)
        : context.suggestion.added(error, (topic) => mayTouch(request, topic));
    const problem = problemOf(errorFor(request.raw, known));
    auditNote(request, { code: known.code });
    if (request.routeOptions.config?.requestLog === true)
      recordRejection(context, request, known, problem.status);
    if (request.raw.complete) {
      answer.code(problem.status).headers(problem.headers).send(problem.bytes);
      return;
    }
    // dq has not read the whole body.
    answer.hijack();
    front.reject(request.raw, answer.raw, problem);
  };
}

function unhandled(context: ApiContext, thrown: unknown, request: FastifyRequest): DqError {
  context.role.log.error('unhandled error in request handler', thrown, {
    method: request.method,
    // Without the query, which may hold a secret.
    path: request.url.split('?', 1)[0],
  });
  return new DqError(
    isRead(request.method) ? 'unavailable' : 'unknown',
    'dq failed; its error log has the cause',
  );
}

/** null for an unexpected error. */
function dqErrorOf(thrown: unknown, request: FastifyRequest): DqError | null {
  if (thrown instanceof DqError) return thrown;
  if (thrown instanceof StoreError) return storeProblem(thrown, isRead(request.method));
  const marker = (request.query as Record<string, unknown> | null)?.[unreadable];
  if (typeof marker === 'object' && marker !== null && 'message' in marker) {
    const error = marker as { field: string; message: string };
    return new DqError('invalid', `${error.field}: ${error.message}`, { errors: [error] });
  }
  return frameworkProblem(thrown);
}

function recordRejection(context: ApiContext, request: FastifyRequest, error: DqError, status: number): void {
  const { topic, id } = request.params as { topic?: string; id?: string };
  const idInQuery = (request.query as { id?: string }).id;
  const method = request.method === 'DELETE' ? 'DELETE' : 'POST';
  if (method === 'POST') context.role.metrics.count('dq_pushes_total', 1, rejectionOf(error.code));
  logRequest(context.role.log, {
    method,
    topic: topic ?? null,
    id: id ?? idInQuery ?? null,
    status,
    code: error.code,
    version: null,
    dueAt: null,
    bytes: Buffer.isBuffer(request.body) ? request.body.length : 0,
    ms: null,
  });
}

/** Counts the answers of an HttpFront; `countsReplies` false: dq_http_requests_total leaves them out. */
export function observerOf(
  { metrics }: RoleContext,
  rejections: RejectionLines,
  countsReplies: boolean,
): FrontObserver {
  return {
    onAnswer: (status) => {
      if (countsReplies) metrics.count('dq_http_requests_total', 1, classOf(status));
    },
    onRejected: (request, error) => recordUnrouted(metrics, rejections, request, error),
  };
}

function classOf(status: number): '2xx' | '3xx' | '4xx' | '5xx' {
  if (status >= 500) return '5xx';
  if (status >= 400) return '4xx';
  return status >= 300 ? '3xx' : '2xx';
}

const jobsPath = /^\/v1\/(?:topics\/([^/?]+)\/)?jobs(?:\/([^/?]+))?(?:\?(.*))?$/;

/** Ignores every other call. Names topic and id as far as they are readable. */
function recordUnrouted(
  metrics: RoleContext['metrics'],
  lines: RejectionLines,
  { method, url = '' }: IncomingMessage,
  error: DqError,
): void {
  const [, topic, id, query] = jobsPath.exec(url) ?? [];
  const isPush = method === 'POST' && id === undefined && jobsPath.test(url);
  const isCancel = method === 'DELETE' && topic !== undefined && id !== undefined;
  if (!isPush && !isCancel) return;
  if (isPush) metrics.count('dq_pushes_total', 1, rejectionOf(error.code));
  const idInQuery = topic === undefined ? undefined : parseQuery(query ?? '')['id'];
  lines.write({
    method: isCancel ? 'DELETE' : 'POST',
    topic: decoded(topic),
    id: decoded(id) ?? (typeof idInQuery === 'string' ? idInQuery : null),
    status: catalogue[error.code].status,
    code: error.code,
    version: null,
    dueAt: null,
    bytes: 0,
    ms: null,
  });
}

function decoded(segment: string | undefined): string | null {
  if (segment === undefined) return null;
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment; // the raw text says more than nothing
  }
}
