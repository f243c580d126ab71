// The receiver's side of a signed callback (Standard Webhooks 1.0), written apart from the sender's on purpose: a mistake
// that both shared would go unseen. Pure.

import { createHmac, timingSafeEqual } from 'node:crypto';

/** How far the signed time may lie from ours, either way. */
const toleranceMs = 5 * 60_000;

export interface SignedRequest {
  readonly id: string | undefined;
  /** Unix seconds, as the header has them */
  readonly timestamp: string | undefined;
  /** one or more `v1,<base64>`, separated by blanks */
  readonly signature: string | undefined;
  readonly body: Buffer;
}

export type SignatureVerdict =
  | { readonly signature: 'ok' }
  | { readonly signature: 'wrong'; readonly reason: string }
  | { readonly signature: 'not checked' };

/** Any of the keys will do, and any of the signatures: while a secret is being rotated two sign. No keys = not checked. */
export function checkSignature(
  request: SignedRequest,
  keys: readonly Buffer[],
  nowMs: number,
): SignatureVerdict {
  if (keys.length === 0) return { signature: 'not checked' };
  const { id, timestamp, signature, body } = request;
  if (!id || !timestamp || !signature) return { signature: 'wrong', reason: 'a signature header is missing' };
  if (!/^\d{1,12}$/.test(timestamp))
    return { signature: 'wrong', reason: 'webhook-timestamp is no Unix time' };
  if (Math.abs(nowMs - Number(timestamp) * 1_000) > toleranceMs)
    return { signature: 'wrong', reason: 'signed more than 5 minutes from now' };
  const given = signature
    .split(' ')
    .filter((part) => part.startsWith('v1,'))
    .map((part) => Buffer.from(part.slice(3), 'base64'));
  for (const key of keys) {
    const right = createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body).digest();
    if (given.some((one) => one.length === right.length && timingSafeEqual(one, right)))
      return { signature: 'ok' };
  }
  return { signature: 'wrong', reason: 'no signature fits a secret' };
}

/** `whsec_` + base64 of 24–64 bytes → the key, or null. Strict: Node's decoder skips what is no base64. */
export function keyOf(secret: string): Buffer | null {
  const text = /^whsec_([A-Za-z0-9+/]+={0,2})$/.exec(secret)?.[1];
  if (text === undefined) return null;
  const key = Buffer.from(text, 'base64');
  const written = key.toString('base64').replace(/=+$/, '') === text.replace(/=+$/, '');
  return written && key.length >= 24 && key.length <= 64 ? key : null;
}
