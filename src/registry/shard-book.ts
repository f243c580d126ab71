// The list of shards as one process knows it: at most limits.registryPollMs old, read at once when the registry hints a change or
// a shard knows a newer one. With the registry away the last known list stays in force: a shard that has heard of a newer one
// refuses what is placed by it.

import type { Service } from '../core/service.ts';
import type { ShardList } from '../core/shard-list.ts';
import type { Log } from '../telemetry/log.ts';
import type { Registry } from './registry.ts';
import { RegistryPoll } from './registry-poll.ts';

export interface ShardBookOptions {
  readonly registry: Registry;
  readonly log: Log;
  /** told each list, once */
  readonly onList: (list: ShardList) => void;
  /** the registry has none: called with every look until it has */
  readonly whileEmpty: () => Promise<void>;
}

export class ShardBook implements Service {
  readonly #options: ShardBookOptions;
  readonly #poll: RegistryPoll;
  #revision = -1;
  #number = 0;

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
    const { revision, list } = await this.#options.registry.shards(this.#revision);
    // Two refreshes may overtake each other, and the older answer would bring an earlier list back.
    if (list === null || revision <= this.#revision) return;
    this.#revision = revision;
    this.#number = list.number;
    this.#options.onList(list);
  }

  async #look(): Promise<void> {
    await this.refresh();
    if (this.#number > 0) return;
    await this.#options.whileEmpty();
    await this.refresh();
  }
}
