// What the shards have heard of the list of shards, and what it means where the registry knows less: it was put back from an older
// backup, and every push is refused (stale_list) until somebody says what the newer list held.

import { StoreError } from '../../../ports/job-store.ts';
import { prefixOf } from '../scripts/keys.ts';
import type { Shard } from './shard.ts';

/** The highest number that one of them has heard of. Who does not answer is left out. */
export async function newestHeard(shards: readonly Shard[]): Promise<number> {
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

export function forgottenSentence(heard: number, known: number): string {
  return `the shards have heard of list ${heard} of them, and the registry has list ${known}, as if put back from an older backup: pushes are refused (stale_list) until each server that was a shard has been named again with \`dq shard add URL\``;
}
