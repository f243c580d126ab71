// The list of shards as one process knows it: at most registryLimits.registryPollMs old, read at once when the registry hints a change or
// a shard knows a newer one. With the registry away the last known list stays in force: a shard that has heard of a newer one
// refuses what is placed by it. A registry that has gone back (put back from a backup, or a server took over that had not heard all)
// is told the newest list that this process knows, or that its instance has kept: the shards have heard of it, and refuse any older.

import { noShards, type ShardList } from '../core/shard-list.ts';
import type { Registry, ShardChanges } from '../ports/registry.ts';
import type { Service } from '../runtime/service.ts';
import type { Log } from '../telemetry/log.ts';
import { RegistryPoll } from './registry-poll.ts';

export interface ShardBookOptions {
  readonly registry: Registry;
  readonly log: Log;
  /** told each list that comes into force */
  readonly onList: (list: ShardList) => void;
  /** the registry has none: called with every look until it has */
  readonly whileEmpty: () => Promise<void>;
  /** the newest list of this registry that the instance has kept beside it; null = none */
  readonly kept?: () => Promise<KeptShards | null>;
}

export type KeptShards = ShardChanges & { readonly list: ShardList };

export class ShardBook implements Service {
  readonly #options: ShardBookOptions;
  readonly #poll: RegistryPoll;
  /** null: the registry has not answered yet */
  #known: KeptShards | null = null;
  /** that the registry told last */
  #revision = -1;

  constructor(options: ShardBookOptions) {
    const { registry, log } = options;
    this.#options = options;
    this.#poll = new RegistryPoll({ registry, log, what: 'shards', refresh: () => this.#look() });
  }

  /** Has read the registry once, if it could be reached at all. */
  async start(): Promise<void> {
    await this.#poll.start();
  }

  async drain(deadlineMs: number): Promise<void> {
    await this.#poll.drain(deadlineMs);
  }

  async refresh(): Promise<void> {
    const { registry, kept } = this.#options;
    const since = this.#revision;
    const { revision, list } = await registry.shards(since);
    if (list === null) return;
    this.#known ??= (await kept?.()) ?? { revision: -1, list: noShards };
    const known = this.#known;
    const isLater = list.number === known.list.number && revision > known.revision;
    if (list.number > known.list.number || isLater || isSame(list, known.list)) {
      this.#known = { revision, list };
      this.#revision = revision;
      this.#options.onList(list);
    }
    // Two refreshes may overtake each other, and the older answer would bring an earlier list back.
    else if (this.#revision === since) await this.#writeBack(known.list, revision);
  }

  async #writeBack(known: ShardList, revision: number): Promise<void> {
    const { registry, log, onList } = this.#options;
    // In force whether or not the registry can take it.
    onList(known);
    // Changed meanwhile: what by, the next look shows.
    if ((await registry.writeShards(known, revision)) === 'changed') return;
    log.error(
      'the registry had gone back to an earlier list of shards: the newer one was written back',
      undefined,
      {
        list: known.number,
      },
    );
    await this.refresh();
  }

  async #look(): Promise<void> {
    await this.refresh();
    if ((this.#known?.list.number ?? 0) > 0) return;
    await this.#options.whileEmpty();
    await this.refresh();
  }
}

/** Both have come from the registry, where it is one text. */
function isSame(one: ShardList, other: ShardList): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}
