// Verifies a signed callback as a receiver does (Standard Webhooks 1.0). Shares no code with the sender on
// purpose: a mistake in shared code would stay unseen. Pure.

import { createHmac, timingSafeEqual } from 'node:crypto';
import { topicNamePattern } from '../core/topic/fields.ts';

/** Largest difference between the signed time and now. */
const toleranceMs = 5 * 60_000;

interface SignedRequest {
  readonly id: string | undefined;
  /** Unix seconds */
  readonly timestamp: string | undefined;
  /** one or more `v1,<base64>`, separated by blanks */
  readonly signature: string | undefined;
  readonly body: Buffer;
}

type SignatureVerdict =
  | { readonly signature: 'ok' }
  | { readonly signature: 'wrong'; readonly reason: string }
  | { readonly signature: 'not checked' };

/** One match of any key and any signature suffices: a rotated secret gives two signatures. No keys = not
 *  checked. */
export function checkSignature(
  request: SignedRequest,
  keys: readonly Buffer[],
  nowMs: number,
): SignatureVerdict {
  if (keys.length === 0) return { signature: 'not checked' };
  const { id, timestamp, signature, body } = request;
  if (!id || !timestamp || !signature) return { signature: 'wrong', reason: 'a signature header is missing' };
  if (!/^\d{1,12}$/.test(timestamp))
    return { signature: 'wrong', reason: 'webhook-timestamp is not a Unix time' };
  if (Math.abs(nowMs - Number(timestamp) * 1_000) > toleranceMs)
    return { signature: 'wrong', reason: 'signed more than 5 minutes from now' };
  const given = signature
    .split(' ')
    .filter((part) => part.startsWith('v1,'))
    .map((part) => Buffer.from(part.slice(3), 'base64'));
  for (const key of keys) {
    const expected = createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body).digest();
    if (given.some((one) => one.length === expected.length && timingSafeEqual(one, expected)))
      return { signature: 'ok' };
  }
  return { signature: 'wrong', reason: 'no signature matches a secret' };
}

/** `whsec_` + base64 of 24 to 64 bytes → key or null. Strict: Node's decoder skips invalid characters. */
export function keyOf(secret: string): Buffer | null {
  const text = /^whsec_([A-Za-z0-9+/]+={0,2})$/.exec(secret)?.[1];
  if (text === undefined) return null;
  const key = Buffer.from(text, 'base64');
  const isCanonical = key.toString('base64').replace(/=+$/, '') === text.replace(/=+$/, '');
  return isCanonical && key.length >= 24 && key.length <= 64 ? key : null;
}

/** The public secret of `dq topic add` and `dq sink`: a first trial verifies signatures without copying a
 *  secret. It protects nothing, so only topics with callbacks to this machine may have it. */
export const trialWord = 'trial';

export const trialSecret = `whsec_${Buffer.from('dq trial secret, known to all').toString('base64')}`;

/** Whether the callback stays on this machine: a loopback address or localhost; other names may lead
 *  anywhere. */
export function isLocalCallback(url: string): boolean {
  if (!URL.canParse(url)) return false;
  const host = new URL(url).hostname;
  return host === 'localhost' || host === '[::1]' || /^127\.\d+\.\d+\.\d+$/.test(host);
}

/** The secrets of `dq sink`: `whsec_…` for every topic, `TOPIC=whsec_…` for one, `trial` for either.
 *  Signatures of a topic without a secret are not checked. */
export class SinkKeys {
  readonly #forAll: Buffer[] = [];
  readonly #byTopic = new Map<string, Buffer[]>();

  /** Returns the error of the text, or null. */
  add(text: string): string | null {
    const equals = text.indexOf('=');
    const named = equals > 0 && !text.startsWith('whsec_');
    const topic = named ? text.slice(0, equals) : null;
    const secret = named ? text.slice(equals + 1) : text;
    if (topic !== null && !topicNamePattern.test(topic)) return `invalid topic name "${topic}"`;
    const key = keyOf(secret === trialWord ? trialSecret : secret);
    if (key === null)
      return 'a secret is whsec_ and base64 of 24 to 64 bytes, TOPIC=whsec_…, or the word trial';
    if (topic === null) this.#forAll.push(key);
    else this.#byTopic.set(topic, [...(this.#byTopic.get(topic) ?? []), key]);
    return null;
  }

  of(topic: string | null): readonly Buffer[] {
    return [...(topic === null ? [] : (this.#byTopic.get(topic) ?? [])), ...this.#forAll];
  }
}
