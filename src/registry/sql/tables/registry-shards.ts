// Stores the shard list as one row: one document, encrypted like topic secrets, because URLs hold passwords.

import { noShards, type ShardList } from '../../../core/shard-list.ts';
import type { Registry, ShardChanges } from '../../../ports/registry.ts';
import { StoreError } from '../../../ports/store-error.ts';
import type { SecretCipher } from '../keys/encryption.ts';
import { type Db, findRegistryId, type RegistryAccess, type Trx } from '../registry-engine.ts';
import type { RegistrySchema } from '../schema/registry-schema.ts';

type ListRow = RegistrySchema['shard_list'];

/** Owner of the encrypted text. No topic has this name. */
const owner = '/shards';

/** `id`: of the registry that this process has opened */
export function shardVerbs(db: RegistryAccess, cipher: () => SecretCipher, id: string) {
  return {
    shards: (since) => db.read((tables) => readShards(tables, since, cipher())),
    writeShards: (list, expectedRevision) =>
      db.change(async (trx, draw) => {
        // Another database has replaced ours: this process's list does not belong to it.
        if ((await findRegistryId(trx)) !== id)
          throw new StoreError({ kind: 'not_stored', code: 'another_registry' });
        const row = await trx.selectFrom('shard_list').select('revision').executeTakeFirst();
        if ((row?.revision ?? 0) !== expectedRevision) return 'changed';
        await putShards(trx, list, await draw(), cipher());
        return 'updated';
      }),
  } satisfies Partial<Registry>;
}

export async function readShards(db: Db, since: number, cipher: SecretCipher): Promise<ShardChanges> {
  return changesOf(await db.selectFrom('shard_list').selectAll().executeTakeFirst(), since, cipher);
}

async function putShards(trx: Trx, list: ShardList, revision: number, cipher: SecretCipher): Promise<void> {
  const encrypted = cipher.encrypt(JSON.stringify(list), owner);
  await trx.deleteFrom('shard_list').execute();
  await trx.insertInto('shard_list').values({ only: 1, revision, list: encrypted }).execute();
}

/** 0: no list yet. Throws as changesOf. */
export function numberOf(row: ListRow | undefined, cipher: SecretCipher): number {
  return changesOf(row, -1, cipher).list?.number ?? 0;
}

/** Throws StoreError for a damaged row: half a list would place jobs on wrong shards. */
export function changesOf(row: ListRow | undefined, since: number, cipher: SecretCipher): ShardChanges {
  if (row === undefined) return { revision: 0, list: since < 0 ? noShards : null };
  const { revision, list } = row;
  if (revision === since) return { revision, list: null };
  try {
    return { revision, list: JSON.parse(cipher.decrypt(list, owner)) as ShardList };
  } catch (error) {
    const cause = new Error('the shard list in the registry is unreadable', { cause: error });
    throw new StoreError({ kind: 'not_stored', code: 'damaged' }, { cause });
  }
}
