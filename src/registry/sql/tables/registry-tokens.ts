// Stores access tokens as digests, with their end and their last use. At most limits.tokensMax rows, always
// read whole.

import { limits } from '../../../core/limits.ts';
import {
  type Rights,
  type Scope,
  type TokenRecord,
  type TokenUse,
  tokenNamePattern,
} from '../../../core/token.ts';
import type { Registry } from '../../../ports/registry.ts';
import { StoreError } from '../../../ports/store-error.ts';
import type { Db, RegistryAccess, Trx } from '../registry-engine.ts';
import type { RegistrySchema } from '../schema/registry-schema.ts';

export type TokenRow = RegistrySchema['token'];

/** SHA-256 in hexadecimal digits */
export const digestPattern = /^[0-9a-f]{64}$/;

export function tokenVerbs(db: RegistryAccess) {
  return {
    async tokens(since) {
      const { revision, found } = await db.readSince(since, readTokens);
      return { revision, tokens: found };
    },
    createToken: (token) => db.change((trx) => insertToken(trx, token)),
    removeToken: (name) => db.change((trx) => deleteToken(trx, name)),
    useTokens: (uses) => db.write((trx) => updateTokenUses(trx, uses)),
  } satisfies Partial<Registry>;
}

async function insertToken(trx: Trx, token: TokenRecord): Promise<'created' | 'exists' | 'full'> {
  const names = await trx.selectFrom('token').select('name').execute();
  if (names.some(({ name }) => name === token.name)) return 'exists';
  if (names.length >= limits.tokensMax) return 'full';
  const { name, id, digest, createdAt, expiresAt, usedAt } = token;
  const times = { created_at: createdAt, ends_at: expiresAt, used_at: usedAt };
  await trx
    .insertInto('token')
    .values({ name, id, digest, ...rightsColumns(token), ...times })
    .execute();
  return 'created';
}

async function deleteToken(trx: Trx, name: string): Promise<'removed' | 'absent'> {
  // SQLite would cut a name at a NUL and find another token.
  if (!tokenNamePattern.test(name)) return 'absent';
  const { numDeletedRows } = await trx.deleteFrom('token').where('name', '=', name).executeTakeFirst();
  return numDeletedRows > 0n ? 'removed' : 'absent';
}

async function updateTokenUses(trx: Trx, uses: readonly TokenUse[]): Promise<void> {
  for (const { id, usedAt } of uses)
    await trx
      .updateTable('token')
      .set({ used_at: usedAt })
      .where('id', '=', id)
      .where((eb) => eb.or([eb('used_at', 'is', null), eb('used_at', '<', usedAt)]))
      .execute();
}

/** By name. */
export async function readTokens(db: Db): Promise<TokenRecord[]> {
  return (await readTokenRows(db)).map(toToken);
}

/** By name. */
export function readTokenRows(db: Db): Promise<TokenRow[]> {
  return db.selectFrom('token').selectAll().orderBy('name').execute();
}

/** Throws StoreError for a damaged row: half a row must not grant rights. */
export function toToken(row: TokenRow): TokenRecord {
  const { name, id, digest, created_at: createdAt, ends_at: expiresAt, used_at: usedAt } = row;
  try {
    if (!digestPattern.test(digest)) throw new Error('invalid digest');
    return { name, id, digest, ...rightsOf(row), createdAt, expiresAt, usedAt };
  } catch (error) {
    const cause = new Error(`the row of token ${name} is unreadable`, { cause: error });
    throw new StoreError({ kind: 'not_stored', code: 'damaged' }, { cause });
  }
}

type RightsColumns = Pick<TokenRow, 'scopes' | 'topics'>;

/** Of a token, a session or a link. */
export const rightsColumns = ({ scopes, topics }: Rights): RightsColumns => ({
  scopes: JSON.stringify(scopes),
  topics: JSON.stringify(topics),
});

/** Throws for a damaged column. */
export const rightsOf = ({ scopes, topics }: RightsColumns): Rights => ({
  scopes: listOf(scopes) as Scope[],
  topics: listOf(topics),
});

function listOf(json: string): string[] {
  const list: unknown = JSON.parse(json);
  if (!Array.isArray(list) || !list.every((item) => typeof item === 'string'))
    throw new Error('invalid list');
  return list;
}
