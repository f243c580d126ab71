// Caches the shard list for one process: polled (registry-cache.ts), and read at once after a
// change hint or when a shard knows a newer one. While the registry is unavailable the last known list stays
// in force: shards that know a newer one reject pushes placed by it. A registry that went back (restored, or
// replaced by a lagging replica) receives the newest list that this process or its instance has: shards
// reject any older list.

import { noShards, type ShardList } from '../core/shard-list.ts';
import type { Registry, ShardChanges } from '../ports/registry.ts';
import type { Log } from '../telemetry/log.ts';
import { registryLimits } from './limits.ts';
import { RegistryCache } from './registry-cache.ts';

interface ShardBookOptions {
  readonly registry: Registry;
  readonly log: Log;
  /** receives each list that comes into force */
  readonly onList: (list: ShardList) => void;
  /** called with every refresh while the registry has no list */
  readonly whileEmpty: () => Promise<void>;
  /** the newest list of this registry in the instance's copy; null: none */
  readonly kept?: () => Promise<KeptShards | null>;
}

export type KeptShards = ShardChanges & { readonly list: ShardList };

export class ShardBook extends RegistryCache {
  readonly #options: ShardBookOptions;
  /** null: the registry has not answered yet */
  #known: KeptShards | null = null;
  /** revision of the registry's last answer */
  #revision = -1;

  constructor(options: ShardBookOptions) {
    const { registry, log } = options;
    // dq-store writes the first list, and logins that it took over, beside its connections: nothing announces
    // them. Without a list no push is accepted.
    super({ registry, log, what: 'shards', pollMs: registryLimits.registryPollMs });
    this.#options = options;
  }

  override async refresh(): Promise<void> {
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
    // Refreshes may overtake each other: an older answer must not bring an earlier list back.
    else if (this.#revision === since) await this.#writeBack(known.list, revision);
  }

  async #writeBack(known: ShardList, revision: number): Promise<void> {
    const { registry, log, onList } = this.#options;
    // In force even if the registry cannot store it.
    onList(known);
    // Changed in between: the next refresh reads it.
    if ((await registry.writeShards(known, revision)) === 'changed') return;
    log.error('registry: it went back to an earlier shard list; wrote the newer one back', undefined, {
      list: known.number,
    });
    await this.refresh();
  }

  protected override async refreshInTurn(): Promise<void> {
    await this.refresh();
    if ((this.#known?.list.number ?? 0) > 0) return;
    await this.#options.whileEmpty();
    await this.refresh();
  }
}

/** Both come from the registry, which stores one text. */
function isSame(one: ShardList, other: ShardList): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}
