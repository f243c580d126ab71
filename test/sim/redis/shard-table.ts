// The shard list of a world, in place of that of the registry (registry.ts).

import type { ShardList } from '../../../src/core/shard-list.ts';
import type { Registry } from '../../../src/ports/registry.ts';

export class ShardTable {
  #revision = 1;
  #list: ShardList;
  readonly registry: Pick<Registry, 'shards' | 'writeShards'> = {
    shards: async (since) => ({
      revision: this.#revision,
      list: since === this.#revision ? null : this.#list,
    }),
    writeShards: async (list, expectedRevision) => {
      if (expectedRevision !== this.#revision) return 'changed';
      this.#revision += 1;
      this.#list = list;
      return 'updated';
    },
  };

  constructor(list: ShardList) {
    this.#list = list;
  }

  get list(): ShardList {
    return this.#list;
  }
}
