// The journal of a world: its MySQL, the spool of each instance, and the laws. Some worlds on Redis have one.

import type { JournalSeams } from '../../../src/compose/journal.ts';
import type { Judge } from '../judge.ts';
import type { Ledgers } from '../ledgers.ts';
import type { Loop } from '../loop.ts';
import type { Network } from '../network.ts';
import type { Occasions } from '../occasions.ts';
import type { Process } from '../process.ts';
import { JournalLaws } from './laws.ts';
import { SimMysql } from './mysql.ts';
import { SimSpool } from './spool.ts';

export const mysqlUrl = 'mysql://dq:dq@10.0.0.3/dq';

export interface JournalSideOptions {
  readonly loop: Loop;
  readonly judge: Judge;
  readonly ledger: Ledgers;
  readonly shards: number;
  readonly peerWaitMs: number;
  readonly network: Network;
  readonly occasions: Occasions;
}

export class JournalSide {
  readonly mysql: SimMysql;
  readonly laws: JournalLaws;
  readonly #loop: Loop;
  readonly #disk: { readonly writeMs: number; readonly syncMs: number };
  readonly #spools = new Map<number, SimSpool>();
  /** virtual ms since when MySQL has all records; null: it lacks some */
  #shippedAt: number | null = null;

  constructor(options: JournalSideOptions) {
    const { loop } = options;
    this.#loop = loop;
    this.laws = new JournalLaws(options);
    this.mysql = new SimMysql(loop);
    const dice = loop.stream('spool');
    this.#disk = { writeMs: dice.pick([0.2, 2, 30]), syncMs: dice.pick([2, 20, 200]) };
  }

  seamsOf(process: Process): JournalSeams {
    const spool = this.#spoolOf(process.instance);
    return { db: this.mysql.clientOf(process), spool, writer: spool.writerOf(process) };
  }

  /** Several times a second. */
  look(): void {
    this.laws.look();
    const isShipped = [...this.#spools.values()].every((spool) => spool.isShipped(this.mysql));
    if (!isShipped) this.#shippedAt = null;
    else this.#shippedAt ??= this.#loop.at;
  }

  get isHealed(): boolean {
    return this.laws.isHealed(this.#shippedAt);
  }

  #spoolOf(instance: number): SimSpool {
    const loop = this.#loop;
    const { laws } = this;
    const spool = this.#spools.get(instance) ?? new SimSpool({ loop, laws, instance, ...this.#disk });
    this.#spools.set(instance, spool);
    return spool;
  }
}
