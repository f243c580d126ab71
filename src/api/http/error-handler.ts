// error-handler.ts answers every failed request with a problem document, and logs rejected pushes and
// cancels. An unexpected error is logged and answered without its text: one request's bug ends neither the
// process nor the answers of other requests.

import type { FastifyReply, FastifyRequest } from 'fastify';
import { DqError } from '../../core/errors.ts';
import { StoreError } from '../../ports/store-error.ts';
import type { ApiContext } from '../api-context.ts';
import { rejectionOf } from '../routes/push-result.ts';
import { auditNote } from './audit-note.ts';
import type { HttpFront } from './http-front.ts';
import { frameworkProblem, problemOf, storeProblem } from './problem.ts';
import { unreadable } from './query.ts';
import { isRead } from './request-head.ts';
import { logRequest } from './request-log.ts';
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
