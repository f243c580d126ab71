// Makes an access token and stores its digest. The token itself is shown once and stored nowhere.

import { DqError, invalidField } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import { makeToken, type TokenRecord } from '../core/token.ts';
import type { Registry } from '../ports/registry.ts';

/** Throws DqError when a token of this name exists, or too many tokens. */
export async function addToken(
  registry: Registry,
  wanted: Pick<TokenRecord, 'name' | 'scopes' | 'topics'>,
): Promise<{ readonly token: string; readonly record: TokenRecord }> {
  const { token, id, digest } = makeToken();
  const { name, scopes, topics } = wanted;
  const record: TokenRecord = { name, id, digest, scopes, topics, createdAt: Date.now() };
  const outcome = await registry.createToken(record);
  if (outcome === 'exists')
    throw new DqError('token_exists', `name: the token ${name} exists; choose another name or remove it`);
  if (outcome === 'full') throw invalidField('name', `${limits.tokensMax} tokens exist; remove one first`);
  return { token, record };
}
