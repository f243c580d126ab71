// delivery.ts builds the headers of a callback: webhook-id, Standard Webhooks signature, dq's own.
// Pure: takes the time, sends nothing. A secret leaves this file only as a signature.

import { createHmac, hash } from 'node:crypto';
import { formatInstant } from './duration.ts';
import type { JobKey, ReservedJob, Version } from './job.ts';
import { secretPrefix, signingSecrets } from './topic/secrets.ts';
import type { Topic } from './topic/topic.ts';
import type { TraceContext } from './trace-context.ts';

/** The receiver's idempotency key: `msg_` + 25 characters [0-9a-z]. It is the same for every attempt and
 *  every version that keeps the origin, and needs no storage: 128 bits of a digest, without dot and without
 *  text of the user. The derivation must never change: receivers remember ids across an upgrade of dq. */
export function webhookIdOf(job: JobKey & { readonly origin: Version }): string {
  // Topic names and numbers contain no NUL, so no two jobs write the same text.
  const digest = hash('sha256', `${job.topic}\0${job.origin}\0${job.id}`);
  return `msg_${BigInt(`0x${digest.slice(0, 32)}`)
    .toString(36)
    .padStart(25, '0')}`;
}

/** Standard Webhooks 1.0: `v1,` + base64 HMAC-SHA256 of `{id}.{timestamp}.{body}` for each secret, separated
 *  by blanks. `body`: the bytes that are sent. */
export function signatureHeader(
  secrets: readonly string[],
  webhookId: string,
  timestampS: number,
  body: Uint8Array,
): string {
  return secrets
    .map((secret) => {
      const key = Buffer.from(secret.slice(secretPrefix.length), 'base64');
      const mac = createHmac('sha256', key).update(`${webhookId}.${timestampS}.`).update(body);
      return `v1,${mac.digest('base64')}`;
    })
    .join(' ');
}

/** The fields of a job that headers carry. */
export type HeaderJob = Pick<ReservedJob, 'topic' | 'id' | 'origin' | 'dueAt' | 'failures' | 'contentType'>;

/** Returns headers by lower-case names. Topic headers come first, so that none can replace a header of dq.
 *  `nowMs` in epoch ms; `body`: the bytes that will be sent, empty for a GET; `version` of dq. */
export function callbackHeaders(
  job: HeaderJob,
  topic: Pick<Topic, 'headers' | 'maxAttempts' | 'secrets'>,
  call: {
    readonly nowMs: number;
    readonly body: Uint8Array;
    readonly version: string;
    /** the producer's, with the traceparent of this attempt */
    readonly trace?: Pick<TraceContext, 'state'> & { readonly parent: string };
  },
): Record<string, string> {
  const webhookId = webhookIdOf(job);
  const timestampS = Math.floor(call.nowMs / 1000);
  return {
    ...topic.headers,
    ...(job.contentType === null ? {} : { 'content-type': job.contentType }),
    'accept-encoding': 'identity',
    'user-agent': `dq/${call.version}`,
    'webhook-id': webhookId,
    'webhook-timestamp': String(timestampS),
    'webhook-signature': signatureHeader(
      signingSecrets(topic.secrets, call.nowMs),
      webhookId,
      timestampS,
      call.body,
    ),
    'dq-topic': job.topic,
    'dq-job-id': encodeURIComponent(job.id),
    'dq-attempt': String(job.failures + 1),
    'dq-max-attempts': String(topic.maxAttempts),
    'dq-due-at': formatInstant(job.dueAt),
    ...(call.trace === undefined ? {} : { traceparent: call.trace.parent }),
    ...(call.trace === undefined || call.trace.state === '' ? {} : { tracestate: call.trace.state }),
  };
}
