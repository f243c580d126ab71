// front-observer.ts counts the answers of an HttpFront, and counts and logs rejected pushes and cancels.

import type { RoleContext } from '../../process/role.ts';
import type { FrontObserver } from './http-front.ts';
import type { RejectionLines } from './rejection-lines.ts';
import { recordUnrouted } from './unrouted.ts';

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
