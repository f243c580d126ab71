// The Redis of a world: the machines of its shards, each with its port and what it stored, and the shard list
// that names them. All of them run on one real server, each in a database of its own.

import { filled } from '../../../src/core/shard-list.ts';
import { redisLimits } from '../../../src/store/redis/limits.ts';
import { markerText } from '../../../src/store/redis/scripts/keys.ts';
import type { Channel } from '../../../src/store/sqlite/wire/protocol.ts';
import { type Line, Port } from '../channel.ts';
import type { JournalLaws, Noted } from '../journal/laws.ts';
import type { Judge } from '../judge.ts';
import type { Ledger, LedgerSnapshot } from '../ledger.ts';
import type { Ledgers } from '../ledgers.ts';
import type { Loop } from '../loop.ts';
import type { MailServer } from '../mail.ts';
import type { Network } from '../network.ts';
import type { Occasions } from '../occasions.ts';
import type { Process } from '../process.ts';
import { registryId } from '../registry.ts';
import { ScriptFollower } from './follow-scripts.ts';
import type { RealRedis } from './real-redis.ts';
import { RedisMachine, type Snapshot } from './redis-machine.ts';
import { ScriptTable } from './script-table.ts';
import { ShardTable } from './shard-table.ts';
import { shareCommands } from './shared-commands.ts';

const idOfShard = (shard: number): string => `5${'abcd'[shard]}`.repeat(8);
const hostOfShard = (shard: number): string => `10.0.0.${10 + shard}`;
export const redisUrls = (shards: number): readonly string[] =>
  Array.from({ length: shards }, (_, shard) => `redis://${hostOfShard(shard)}:6379`);

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
  /** one for each shard, and for each server that can become one */
  readonly ledger: Ledgers;
  /** shards of the first list */
  readonly listed: number;
  readonly mails: MailServer;
  readonly network: Network;
  readonly occasions: Occasions;
  readonly retentionMs: number;
  /** null: without a journal */
  readonly laws: JournalLaws | null;
}

/** What the machine, the ledger and the laws knew at one moment. */
interface Replica {
  readonly data: Snapshot;
  readonly ledger: LedgerSnapshot;
  /** null: without a journal */
  readonly noted: Noted | null;
}

interface ShardOptions extends Omit<RedisSideOptions, 'ledger' | 'listed'> {
  readonly ledger: Ledger;
  readonly shard: number;
  /** of a story */
  readonly name: string;
}

const movingScript = `return redis.call('HGET', '{dq:0}:n', 'moving')`;

export class RedisSide {
  /** at least one */
  readonly shards: readonly RedisShard[];
  /** addresses of the shards, in their order */
  readonly urls: readonly string[];
  readonly table: ShardTable;
  /** In some worlds so few that a reserve names its topics by a copy of the rings. */
  readonly capacitiesMax: number;

  constructor({ ledger, listed, ...options }: RedisSideOptions) {
    const { all } = ledger;
    const dice = options.loop.stream('rings');
    this.capacitiesMax = dice.pick([redisLimits.capacitiesMax, redisLimits.capacitiesMax, 0, 1]);
    this.shards = all.map((own, shard) => {
      const name = all.length === 1 ? 'redis' : `redis-${shard}`;
      return new RedisShard({ ...options, ledger: own, shard, name });
    });
    this.urls = redisUrls(all.length);
    const records = redisUrls(listed).map((url, shard) => ({
      ...{ id: idOfShard(shard), url, buckets: 1, addedAt: shard },
    }));
    this.table = new ShardTable(filled(records));
  }

  start(): void {
    for (const shard of this.shards) shard.start();
  }

  /** `host`: of a shard */
  dial(host: string, client: Process, line: Line): Channel {
    const shard = this.shards.find((_, n) => hostOfShard(n) === host);
    if (shard === undefined) throw new Error(`the world has no Redis at ${host}`);
    return shard.port.dial(client, line);
  }

  /** Each of them runs, and takes all commands. */
  get isUp(): boolean {
    return this.shards.every(({ machine }) => machine.process !== null && machine.mood === 'works');
  }

  get commits(): number {
    return this.shards.reduce((sum, { follower }) => sum + follower.commits, 0);
  }

  /** Names of the moves that a shard has as open or prepared. */
  openMoves(): readonly string[] {
    return this.shards.flatMap(({ machine }) => String(machine.read(movingScript) ?? '').match(/\S+/g) ?? []);
  }

  checkTables(): void {
    for (const { follower } of this.shards) follower.checkTables();
  }

  /** As in ScriptFollower, of all shards. */
  overdue(before: number): readonly (readonly [version: number, due: number])[] {
    return this.shards.flatMap(({ follower }) => follower.overdue(before));
  }

  ready(): ReadonlySet<number> {
    return new Set(this.shards.flatMap(({ follower }) => [...follower.ready()]));
  }

  get counts(): Readonly<Record<string, number>> {
    const sums: Record<string, number> = {};
    for (const { machine } of this.shards)
      for (const [name, n] of Object.entries(machine.counts)) sums[name] = (sums[name] ?? 0) + n;
    return sums;
  }
}

export class RedisShard {
  readonly port: Port;
  readonly machine: RedisMachine;
  readonly follower: ScriptFollower;
  readonly #options: ShardOptions;
  readonly #dice;
  /** ms until the machine starts again; 0: the usual time */
  downMs = 0;
  /** what the machine holds after its next start; absent: what it held before. null: nothing */
  nextHolds: Replica | null | undefined;

  constructor(options: ShardOptions) {
    const { ground, loop, judge, network, shard, name } = options;
    this.#options = options;
    this.#dice = loop.stream(name);
    this.port = new Port(loop);
    this.machine = new RedisMachine({
      ...{ loop, judge, port: this.port, real: ground.real, scripts: ground.scripts, database: shard, name },
      losesHint: () => network.losesHint(),
      onRan: (ran) => this.follower.ran(ran),
    });
    const read = (script: string) => this.machine.read(script);
    // Without a marker, a journal would put back what its first jobs were.
    const marker = markerText({ shardId: idOfShard(shard), registryId, buckets: 1 });
    if (options.laws !== null) this.machine.mark(marker);
    this.follower = new ScriptFollower({ ...options, dice: loop.stream(`${name} tables`), read });
  }

  start(): void {
    const { loop } = this.#options;
    const process = this.machine.start();
    this.#options.ledger.startedAt = loop.at;
    process.onDeath.push(() => {
      const waitMs = 20 + this.#dice.next() * 1_500 + this.downMs;
      this.downMs = 0;
      loop.after(waitMs, null, 'Redis starts again', () => this.#startAgain());
    });
  }

  /** What a replica has that gets nothing from now on. */
  replicate(): Replica {
    const { ledger, laws, shard } = this.#options;
    return {
      data: this.machine.snapshot(),
      ledger: ledger.snapshot(),
      noted: laws?.notedBy(shard) ?? null,
    };
  }

  #startAgain(): void {
    const { loop, ledger } = this.#options;
    const holds = this.nextHolds;
    this.nextHolds = undefined;
    if (holds !== undefined) {
      loop.tell(`${this.#options.name} has lost ${holds === null ? 'everything' : 'its last writes'}.`);
      if (holds === null) this.machine.empty();
      else this.machine.fill(holds.data);
      ledger.rollBack(holds?.ledger ?? null);
      this.#options.laws?.lost(this.#options.shard, holds?.noted ?? null);
    }
    this.start();
  }
}
