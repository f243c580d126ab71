// What one delivery attempt carries besides the body: the webhook-id, the Standard Webhooks signature and the headers of
// callback.md's table. Pure: takes the time, sends nothing. A secret never leaves this file except as a signature.

import { createHash, createHmac, randomBytes } from 'node:crypto';
import { formatInstant, type Parsed } from './duration.ts';
import type { JobKey, ReservedJob, Version } from './job.ts';
import { limits } from './limits.ts';
import type { Topic, TopicSecret } from './topic/topic.ts';

const secretPrefix = 'whsec_';

/** `msg_` + 25 characters [0-9a-z]: the receiver's idempotency key. Derived, so it needs no storage and is the same for
 *  every attempt and every version that keeps the origin. 128 bits of a digest: no dot, nothing of the user's text. Its
 *  value must never change between releases: receivers remember ids across an upgrade of dq. */
export function webhookIdOf(job: JobKey & { readonly origin: Version }): string {
  // A topic's name and a number hold no NUL, so no two jobs write the same text.
  const digest = createHash('sha256').update(`${job.topic}\0${job.origin}\0${job.id}`).digest('hex');
  return `msg_${BigInt(`0x${digest.slice(0, 32)}`)
    .toString(36)
    .padStart(25, '0')}`;
}

/** Standard Webhooks 1.0: `v1,` + base64 HMAC-SHA256 of `{id}.{timestamp}.{body}` for each secret, separated by blanks.
 *  `body`: the very bytes that are sent. */
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

/** Those that sign now: the current one, and the one before it until its time is over. */
export function signingSecrets(secrets: readonly TopicSecret[], nowMs: number): readonly string[] {
  return unexpired(secrets, nowMs).map(({ secret }) => secret);
}

/** A topic's secrets with a new one at their head; the one that was current signs on for limits.secretOverlapMs, and those
 *  whose time is over are gone. */
export function rotatedSecrets(
  secrets: readonly TopicSecret[],
  secret: string,
  nowMs: number,
): readonly TopicSecret[] {
  const old = unexpired(secrets, nowMs).map((one) => ({
    ...one,
    untilAt: one.untilAt ?? nowMs + limits.secretOverlapMs,
  }));
  return [{ secret, untilAt: null }, ...old].slice(0, limits.topicSecretsMax);
}

export function unexpired(secrets: readonly TopicSecret[], nowMs: number): readonly TopicSecret[] {
  return secrets.filter(({ untilAt }) => untilAt === null || untilAt > nowMs);
}

/** Only the canonical spelling passes: receivers' libraries decode base64 more strictly than Node does. The message never
 *  repeats the input. */
export function parseSecret(input: unknown): Parsed<string> {
  const text = typeof input === 'string' && input.startsWith(secretPrefix) ? input : null;
  const encoded = text?.slice(secretPrefix.length) ?? '';
  const key = Buffer.from(encoded, 'base64');
  const { secretBytesMin: min, secretBytesMax: max } = limits;
  if (text === null || key.toString('base64') !== encoded || key.length < min || key.length > max) {
    return { ok: false, message: `must be ${secretPrefix} and the padded base64 of ${min} to ${max} bytes` };
  }
  return { ok: true, value: text };
}

export function makeSecret(): string {
  return secretPrefix + randomBytes(limits.secretBytesMade).toString('base64');
}

/** What of a job the headers tell. */
export type HeaderJob = Pick<ReservedJob, 'topic' | 'id' | 'origin' | 'dueAt' | 'failures' | 'contentType'>;

/** Lower-case names. Topic headers come first so that none of them can replace one of dq's own.
 *  `now` in epoch ms; `body` are the bytes that will be sent (a GET sends none: an empty one); `version` of dq. */
export function callbackHeaders(
  job: HeaderJob,
  topic: Pick<Topic, 'headers' | 'maxAttempts' | 'secrets'>,
  call: { readonly nowMs: number; readonly body: Uint8Array; readonly version: string },
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
  };
}
