// front-observer.ts counts the answers of an HttpFront, and counts and logs pushes and cancels that it
// rejected before routing: without a token, or from a web page. rejection-lines.ts bounds the log lines.

import type { IncomingMessage } from 'node:http';
import { catalogue, type DqError } from '../../core/errors.ts';
import type { RoleContext } from '../../process/role.ts';
import { rejectionOf } from '../routes/push-result.ts';
import type { FrontObserver } from './http-front.ts';
import { parseQuery } from './query.ts';
import type { RejectionLines } from './rejection-lines.ts';

/** `countsReplies` false: dq_http_requests_total leaves them out. */
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
