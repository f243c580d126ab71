// Stores access tokens as digests. At most limits.tokensMax rows, always read whole.

import type { Kysely } from 'kysely';
import { limits } from '../../../core/limits.ts';
import { type Scope, type TokenRecord, tokenNamePattern } from '../../../core/token.ts';
import { StoreError } from '../../../ports/store-error.ts';
import type { RegistrySchema } from '../schema/registry-schema.ts';

type Db = Kysely<RegistrySchema>;

/** In the caller's transaction, which holds the lock between checks and write. */
export async function insertToken(trx: Db, token: TokenRecord): Promise<'created' | 'exists' | 'full'> {
  const names = await trx.selectFrom('token').select('name').execute();
  if (names.some(({ name }) => name === token.name)) return 'exists';
  if (names.length >= limits.tokensMax) return 'full';
  const { name, id, digest, createdAt } = token;
  const [scopes, topics] = [JSON.stringify(token.scopes), JSON.stringify(token.topics)];
  await trx.insertInto('token').values({ name, id, digest, scopes, topics, created_at: createdAt }).execute();
  return 'created';
}

export async function deleteToken(trx: Db, name: string): Promise<'removed' | 'absent'> {
  // SQLite would cut a name at a NUL and find another token.
  if (!tokenNamePattern.test(name)) return 'absent';
  const { numDeletedRows } = await trx.deleteFrom('token').where('name', '=', name).executeTakeFirst();
  return numDeletedRows > 0n ? 'removed' : 'absent';
}

/** By name. */
export async function readTokens(db: Db): Promise<TokenRecord[]> {
  const rows = await db.selectFrom('token').selectAll().orderBy('name').execute();
  return rows.map(toToken);
}

/** Throws StoreError for a damaged row: half a row must not grant rights. */
export function toToken({
  name,
  id,
  digest,
  scopes,
  topics,
  created_at,
}: RegistrySchema['token']): TokenRecord {
  try {
    if (!/^[0-9a-f]{64}$/.test(digest)) throw new Error('invalid digest');
    return {
      name,
      id,
      digest,
      scopes: scopesOf(scopes),
      topics: topicsOf(topics),
      createdAt: created_at,
    };
  } catch (error) {
    const cause = new Error(`the row of token ${name} is unreadable`, { cause: error });
    throw new StoreError({ kind: 'not_stored', code: 'damaged' }, { cause });
  }
}

/** Throws for a damaged column, as topicsOf does. */
export function scopesOf(json: string): Scope[] {
  return listOf(json) as Scope[];
}

export function topicsOf(json: string): string[] {
  return listOf(json);
}

function listOf(json: string): string[] {
  const list: unknown = JSON.parse(json);
  if (!Array.isArray(list) || !list.every((item) => typeof item === 'string'))
    throw new Error('invalid list');
  return list;
}
