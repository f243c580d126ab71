// The list of shards as a row: one document, sealed like the secrets of topics, because addresses hold passwords.

import type { Kysely } from 'kysely';
import { noShards, type ShardList } from '../../../core/shard-list.ts';
import { StoreError } from '../../../ports/job-store.ts';
import type { ShardChanges } from '../../../ports/registry.ts';
import type { Sealer } from '../keys/encryption.ts';
import type { RegistrySchema } from '../schema/registry-schema.ts';

type Db = Kysely<RegistrySchema>;
type ListRow = RegistrySchema['shard_list'];

/** What it is sealed to. No topic is called so. */
const owner = '/shards';

export async function readShards(db: Db, since: number, sealer: Sealer): Promise<ShardChanges> {
  return changesOf(await db.selectFrom('shard_list').selectAll().executeTakeFirst(), since, sealer);
}

/** In the caller's transaction. */
export async function revisionOfShards(trx: Db): Promise<number> {
  return (await trx.selectFrom('shard_list').select('revision').executeTakeFirst())?.revision ?? 0;
}

/** In the same, once the revision is known to be the expected one. */
export async function putShards(trx: Db, list: ShardList, revision: number, sealer: Sealer): Promise<void> {
  const sealed = sealer.seal(JSON.stringify(list), owner);
  await trx.deleteFrom('shard_list').execute();
  await trx.insertInto('shard_list').values({ only: 1, revision, list: sealed }).execute();
}

/** 0 = no list was ever written. Throws as changesOf. */
export function numberOf(row: ListRow | undefined, sealer: Sealer): number {
  return changesOf(row, -1, sealer).list?.number ?? 0;
}

/** Throws StoreError for a row that somebody broke by hand: half a list would place jobs where nobody looks for them. */
export function changesOf(row: ListRow | undefined, since: number, sealer: Sealer): ShardChanges {
  if (row === undefined) return { revision: 0, list: since < 0 ? noShards : null };
  const { revision, list } = row;
  if (revision === since) return { revision, list: null };
  try {
    return { revision, list: JSON.parse(sealer.unseal(list, owner)) as ShardList };
  } catch (error) {
    const cause = new Error('the list of shards in the registry is broken', { cause: error });
    throw new StoreError({ kind: 'not_stored', code: 'damaged' }, { cause });
  }
}
