// Pushes and cancels that the front rejected before they were routed: without a token, or from a web page. Each is counted as
// every other one; of their lines in the log some are left out (rejection-lines.ts).

import type { IncomingMessage } from 'node:http';
import { catalogue, type DqError } from '../../core/errors.ts';
import type { RoleContext } from '../../process/role.ts';
import { refusalOf } from '../routes/conclude-push.ts';
import { parseQuery } from './query.ts';
import type { RefusalLines } from './rejection-lines.ts';

const jobsPath = /^\/v1\/(?:topics\/([^/?]+)\/)?jobs(?:\/([^/?]+))?(?:\?(.*))?$/;

/** Nothing for any other call. What it names is told as far as it can be read. */
export function noteUnrouted(
  metrics: RoleContext['metrics'],
  lines: RefusalLines,
  { method, url = '' }: IncomingMessage,
  error: DqError,
): void {
  const [, topic, id, query] = jobsPath.exec(url) ?? [];
  const isPush = method === 'POST' && id === undefined && jobsPath.test(url);
  const isCancel = method === 'DELETE' && topic !== undefined && id !== undefined;
  if (!isPush && !isCancel) return;
  if (isPush) metrics.count('dq_pushes_total', 1, refusalOf(error.code));
  const asked = topic === undefined ? undefined : parseQuery(query ?? '')['id'];
  lines.write({
    method: isCancel ? 'DELETE' : 'POST',
    topic: decoded(topic),
    id: decoded(id) ?? (typeof asked === 'string' ? asked : null),
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
    return segment; // as it came tells more than nothing
  }
}
