// Detects that shards know a newer shard list than the registry, as after a registry restored from an older
// backup. Every push is then rejected (stale_list) until an operator names the servers of the newer list
// again.

import { StoreError } from '../../../ports/store-error.ts';
import { prefixOf } from '../scripts/keys.ts';
import type { Shard } from './shard.ts';

/** The highest list number that any of the shards knows; shards that do not answer do not count. */
export async function newestListNumber(shards: readonly Shard[]): Promise<number> {
  const numbers = shards.map(async (shard) => {
    try {
      return Number((await shard.command('HGET', `${prefixOf(0)}:n`, 'list')) ?? 0);
    } catch (error) {
      if (error instanceof StoreError) return 0;
      throw error;
    }
  });
  return Math.max(0, ...(await Promise.all(numbers)));
}

export function forgottenSentence(newest: number, known: number): string {
  return (
    `the shards know shard list ${newest}, the registry has list ${known}, as if restored from an older backup: ` +
    'pushes are rejected (stale_list) until each server that was a shard is named again with `dq shard add URL`'
  );
}
