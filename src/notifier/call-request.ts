// Builds the request of a callback: the bytes of the job, its headers, and how the call is made. Sends
// nothing.

import type { Clock } from '../core/calendar.ts';
import { callbackRequest } from '../core/callback-request.ts';
import { callbackHeaders } from '../core/delivery.ts';
import { optionsIn, withOptions } from '../core/extension.ts';
import type { ReservedJob } from '../core/job.ts';
import type { Topic } from '../core/topic/topic.ts';
import type { CallRequest } from './call-back.ts';
import type { Pools } from './pools.ts';

export interface CallOptions {
  readonly topic: Topic;
  readonly origin: string;
  /** path and query of the callback URL */
  readonly path: string;
}

export interface CallContext {
  /** of the signature, epoch ms by the storage clock */
  readonly nowMs: number;
  readonly clock: Clock;
  /** of dq */
  readonly version: string;
  readonly pools: Pick<Pools, 'checkFor'>;
  /** of this attempt; undefined: the push brought no trace */
  readonly traceparent?: string | undefined;
}

export function callRequestOf(
  job: ReservedJob,
  { topic, origin, path: of }: CallOptions,
  { nowMs, clock, version, pools, traceparent: parent }: CallContext,
): CallRequest {
  const { path, body, contentType } = callbackRequest(job, topic, of, clock);
  const options = optionsIn(job.extension);
  const sent = contentType === job.contentType ? job : { ...job, contentType };
  const trace = parent === undefined ? undefined : { parent, state: options.trace?.state ?? '' };
  const headers = callbackHeaders(sent, withOptions(topic, options), { nowMs, body, version, trace });
  return {
    options: { origin, path, method: topic.method, body, headers },
    check: pools.checkFor(topic, origin),
    timeoutMs: topic.timeoutMs,
  };
}
