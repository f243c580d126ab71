// The signing secrets of a topic: making, reading, rotation. Messages never repeat a secret.

import { createHmac } from 'node:crypto';
import { randomBytes } from '../../runtime/time.ts';
import { type Parsed, wrong } from '../duration.ts';
import { limits } from '../limits.ts';

export const secretPrefix = 'whsec_';

export interface TopicSecret {
  /** whsec_ + base64 of 24–64 bytes */
  readonly secret: string;
  /** null: the current secret; epoch ms: an old one, which signs beside it until then */
  readonly untilAt: number | null;
}

/** The secrets that sign now: the current one, and rotated ones until their time is over. */
export function signingSecrets(secrets: readonly TopicSecret[], nowMs: number): readonly string[] {
  return unexpired(secrets, nowMs).map(({ secret }) => secret);
}

/** `secret` becomes the first, also an old one; the former first signs for limits.secretOverlapMs more.
 *  Expired ones are dropped. */
export function rotatedSecrets(
  secrets: readonly TopicSecret[],
  secret: string,
  nowMs: number,
): readonly TopicSecret[] {
  const others = unexpired(secrets, nowMs).filter((one) => one.secret !== secret);
  const old = others.map((one) => ({ ...one, untilAt: one.untilAt ?? nowMs + limits.secretOverlapMs }));
  return [{ secret, untilAt: null }, ...old].slice(0, limits.topicSecretsMax);
}

export function unexpired(secrets: readonly TopicSecret[], nowMs: number): readonly TopicSecret[] {
  return secrets.filter(({ untilAt }) => untilAt === null || untilAt > nowMs);
}

/** Accepts the canonical base64 only: receivers' libraries decode more strictly than Node does. */
export function parseSecret(input: unknown): Parsed<string> {
  const text = typeof input === 'string' && input.startsWith(secretPrefix) ? input : null;
  const encoded = text?.slice(secretPrefix.length) ?? '';
  const key = Buffer.from(encoded, 'base64');
  const { secretBytesMin: min, secretBytesMax: max } = limits;
  if (text === null || key.toString('base64') !== encoded || key.length < min || key.length > max) {
    return wrong(`must be ${secretPrefix} and the padded base64 of ${min} to ${max} bytes`);
  }
  return { ok: true, value: text };
}

/** Tells a caller that has a secret whether the topic has the same one. The key is the text of the secret,
 *  and signatures use its decoded bytes: a digest never equals a signature. */
export function secretDigest(topic: string, secret: string): string {
  return createHmac('sha256', secret).update(topic).digest('base64url');
}

export function makeSecret(): string {
  return secretPrefix + randomBytes(limits.secretBytesMade).toString('base64');
}
