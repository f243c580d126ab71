// Makes an access token and stores its digest. The token itself is shown once and stored nowhere.

import { formatDuration, type Parsed, parseDuration, wrong } from '../core/duration.ts';
import { DqError, invalidField } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import { makeToken, type TokenRecord } from '../core/token.ts';
import type { Registry } from '../ports/registry.ts';
import { wallNow } from '../runtime/time.ts';

/** Throws DqError when a token of this name exists, or too many tokens. */
export async function addToken(
  registry: Registry,
  wanted: Pick<TokenRecord, 'name' | 'scopes' | 'topics'> & {
    /** ms from now; null: the token does not end */
    readonly expiresInMs: number | null;
  },
): Promise<{ readonly token: string; readonly record: TokenRecord }> {
  const { token, id, digest } = makeToken();
  const { name, scopes, topics, expiresInMs } = wanted;
  const createdAt = wallNow();
  const expiresAt = expiresInMs === null ? null : createdAt + expiresInMs;
  const record: TokenRecord = { name, id, digest, scopes, topics, createdAt, expiresAt, usedAt: null };
  const outcome = await registry.createToken(record);
  if (outcome === 'exists')
    throw new DqError('token_exists', `name: the token ${name} exists; choose another name or remove it`);
  if (outcome === 'full') throw invalidField('name', `${limits.tokensMax} tokens exist; remove one first`);
  return { token, record };
}

/** The wanted life of a token, ms; undefined → null: it does not end. */
export function readTokenLifetime(given: string | undefined): Parsed<number | null> {
  if (given === undefined) return { ok: true, value: null };
  const parsed = parseDuration(given);
  if (!parsed.ok) return parsed;
  const { tokenLifeMsMin: min, tokenLifeMsMax: max } = limits;
  if (parsed.value >= min && parsed.value <= max) return parsed;
  return wrong(`must be between ${formatDuration(min)} and ${formatDuration(max)}`);
}
