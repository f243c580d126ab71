// The Redis of a world: one machine with its port, what it stored, and the shard list that names it.

import { filled, type ShardList } from '../../../src/core/shard-list.ts';
import { redisLimits } from '../../../src/store/redis/limits.ts';
import { markerText } from '../../../src/store/redis/scripts/marker.ts';
import { Port } from '../channel.ts';
import type { JournalLaws } from '../journal/laws.ts';
import type { Judge } from '../judge.ts';
import type { Ledger, LedgerSnapshot } from '../ledger.ts';
import type { Loop } from '../loop.ts';
import type { MailServer } from '../mail.ts';
import type { Network } from '../network.ts';
import type { Occasions } from '../occasions.ts';
import { registryId } from '../registry.ts';
import { ScriptFollower } from './follow-scripts.ts';
import type { RealRedis } from './real-redis.ts';
import { RedisMachine, type Snapshot } from './redis-machine.ts';
import { ScriptTable } from './script-table.ts';
import { shareCommands } from './shared-commands.ts';

const shardId = '5a'.repeat(8);
export const redisUrl = 'redis://10.0.0.1:6379';

/** A real server, and the scripts that it has loaded: for all worlds of this process. */
export interface RedisGround {
  readonly real: RealRedis;
  readonly scripts: ScriptTable;
}

export function groundOn(real: RealRedis): RedisGround {
  real.subscribe('{dq:0}:hint');
  shareCommands();
  return { real, scripts: new ScriptTable(real) };
}

export interface RedisSideOptions {
  readonly ground: RedisGround;
  readonly loop: Loop;
  readonly judge: Judge;
  readonly ledger: Ledger;
  readonly mails: MailServer;
  readonly network: Network;
  readonly occasions: Occasions;
  readonly retentionMs: number;
  /** null: without a journal */
  readonly laws: JournalLaws | null;
}

/** What the machine and the ledger knew at one moment. */
interface Replica {
  readonly data: Snapshot;
  readonly ledger: LedgerSnapshot;
}

export class RedisSide {
  readonly port: Port;
  readonly machine: RedisMachine;
  readonly follower: ScriptFollower;
  readonly shards: ShardList = filled([{ id: shardId, url: redisUrl, buckets: 1, addedAt: 0 }]);
  /** In some worlds so few that a reserve names its topics by a copy of the rings. */
  readonly capacitiesMax: number;
  readonly #options: RedisSideOptions;
  readonly #dice;
  /** ms until the machine starts again; 0: the usual time */
  downMs = 0;
  /** what the machine holds after its next start; absent: what it held before. null: nothing */
  nextHolds: Replica | null | undefined;

  constructor(options: RedisSideOptions) {
    const { ground, loop, judge, network } = options;
    this.#options = options;
    this.#dice = loop.stream('redis');
    this.capacitiesMax = this.#dice.pick([redisLimits.capacitiesMax, redisLimits.capacitiesMax, 0, 1]);
    this.port = new Port(loop);
    this.machine = new RedisMachine({
      ...{ loop, judge, port: this.port, real: ground.real, scripts: ground.scripts, database: 0 },
      losesHint: () => network.losesHint(),
      onRan: (ran) => this.follower.ran(ran),
    });
    const read = (script: string) => this.machine.read(script);
    // Without a marker, a journal would put back what its first jobs were.
    if (options.laws !== null) this.machine.mark(markerText({ shardId, registryId, buckets: 1 }));
    this.follower = new ScriptFollower({ ...options, dice: loop.stream('tables'), read });
  }

  start(): void {
    const { loop } = this.#options;
    const process = this.machine.start();
    process.onDeath.push(() => {
      const waitMs = 20 + this.#dice.next() * 1_500 + this.downMs;
      this.downMs = 0;
      loop.after(waitMs, null, 'Redis starts again', () => this.#startAgain());
    });
  }

  /** What a replica has that gets nothing from now on. */
  replicate(): Replica {
    return { data: this.machine.snapshot(), ledger: this.#options.ledger.snapshot() };
  }

  #startAgain(): void {
    const { loop, ledger } = this.#options;
    const holds = this.nextHolds;
    this.nextHolds = undefined;
    if (holds !== undefined) {
      loop.tell(`Redis has lost ${holds === null ? 'everything' : 'its last writes'}.`);
      if (holds === null) this.machine.empty();
      else this.machine.fill(holds.data);
      ledger.rollBack(holds?.ledger ?? null);
      this.#options.laws?.lost();
    }
    this.start();
  }
}
