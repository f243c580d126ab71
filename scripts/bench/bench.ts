// The options of a run, the builds that it compares, and its rounds: in each round every contestant is
// measured once, so that all of them see the same state of a shared machine. A fixed loop beside each
// contestant shows that state. A round is repeated, a bounded number of times, when other programs took more
// than `othersMax` of the machine, or when the loops of the round and of the rounds before it differ by more
// than `loopsDifferMax`.

import { join } from 'node:path';
import { type Column, median, Table, textOf } from './figures.ts';
import { fixedLoopUs } from './machine.ts';
import { type Measured, type Reading, startMeter } from './processes.ts';

export type Store = 'embedded' | 'redis';

/** One contestant: a build of dq on one store. */
export interface Build {
  /** name of its rows: `dq, embedded`, `dq before, redis` */
  readonly name: string;
  /** path of bin/dq */
  readonly launcher: string;
  readonly store: Store;
  /** name of the row to compare with: the other build on the same store */
  readonly before?: string;
}

/** of the `loopUs` of a reading */
export const loopColumn: Column = { key: 'loopUs', title: 'fixed loop beside it, µs' };

/** of the ratios that compare() adds */
export const beforeColumn: Column = { key: 'ofBefore', title: '÷ before' };

export interface Options {
  readonly runs: number;
  /** 0 = the default of the case */
  readonly jobs: number;
  /** of a load at full speed */
  readonly seconds: number;
  /** of pending jobs, ascending */
  readonly sizes: readonly number[];
  readonly latenessSeconds: number;
  readonly idleSeconds: number;
  /** repeated rounds of one case */
  readonly repeats: number;
  /** folder with the source of ouqiang/delay-queue; '' = without this peer */
  readonly ouqiang: string;
  readonly bullmq: boolean;
  readonly counts: readonly number[];
  readonly timeout: string;
  readonly names: boolean;
  readonly cold: boolean;
}

/** This checkout, on the embedded store. */
export const thisBuild: Build = {
  name: 'dq',
  launcher: join(import.meta.dirname, '../../bin/dq'),
  store: 'embedded',
};

export const othersMax = 0.1;
export const loopsDifferMax = 0.2;

export interface Disturbance {
  readonly case: string;
  /** highest share of other programs in each accepted round */
  readonly others: readonly number[];
  /** µs of the fixed loop, the median of each accepted round; absent in older results */
  readonly loopsUs?: readonly number[];
  readonly repeated: number;
}

export class Bench {
  readonly options: Options;
  /** every build on every store; never empty */
  readonly builds: readonly Build[];
  readonly tables: Table[] = [];
  readonly disturbances: Disturbance[] = [];

  constructor(options: Options, builds: readonly Build[]) {
    this.options = options;
    this.builds = builds;
  }

  /** for cases that measure one build */
  get build(): Build {
    return this.builds[0] as Build;
  }

  /** A table of this run; rounds() fills and prints it. */
  table(...args: ConstructorParameters<typeof Table>): Table {
    const table = new Table(...args);
    this.tables.push(table);
    return table;
  }

  /** Adds `key` ÷ the same of the other build. `rowOf`: the row of a build; default: its name. */
  compare(round: Round, table: Table, key: string, rowOf = (build: string) => build): void {
    for (const { name, before } of this.builds)
      if (before !== undefined) {
        const ofBefore = round.value(table, rowOf(name), key) / round.value(table, rowOf(before), key);
        round.add(table, rowOf(name), { ofBefore });
      }
  }

  /** Runs `work` until `count` rounds were quiet enough or no repetition is left. */
  async rounds(
    name: string,
    work: (round: Round) => Promise<void>,
    count = this.options.runs,
  ): Promise<void> {
    const others: number[] = [];
    const loopsUs: number[] = [];
    let repeated = 0;
    while (others.length < count) {
      const round = new Round(others.length);
      await work(round);
      console.log(`  ${name}: fixed loop beside each, µs: ${round.loopsUs.map(Math.round).join(', ')}`);
      const why = whyRepeated(round, loopsUs);
      if (why !== null && repeated < this.options.repeats) {
        repeated += 1;
        console.log(`  ${name}: repeats a round: ${why}`);
        continue;
      }
      round.keep();
      others.push(round.others);
      if (round.loopsUs.length > 0) loopsUs.push(median(round.loopsUs));
    }
    this.disturbances.push({ case: name, others, loopsUs, repeated });
    console.log(
      `  ${name}: other programs took ${others.map(percent).join(', ')} of the machine; repeated ${repeated}`,
    );
  }
}

/** `keptUs`: of the accepted rounds. null: the round was quiet enough. */
function whyRepeated({ others, loopsUs }: Round, keptUs: readonly number[]): string | null {
  if (others > othersMax) return `other programs took ${percent(others)} of the machine`;
  const all = [...loopsUs, ...keptUs];
  const differ = Math.max(...all) / Math.min(...all) - 1;
  return differ > loopsDifferMax ? `its fixed loops and the earlier ones differ by ${percent(differ)}` : null;
}

const percent = (share: number): string => `${(100 * share).toFixed(1)} %`;

export class Round {
  /** from 0 */
  readonly number: number;
  /** highest share of other programs in any of its readings */
  others = 0;
  /** of the fixed loop, one for each reading */
  readonly loopsUs: number[] = [];
  readonly #values: { table: Table; row: string; values: Record<string, number> }[] = [];

  constructor(number: number) {
    this.number = number;
  }

  /** The contestants of this round: the second of a pair goes first in every other round. */
  order<T>(contestants: readonly T[]): readonly T[] {
    return this.number % 2 === 0 ? contestants : contestants.toReversed();
  }

  /** Starts to measure; each call of the result reads the time since then. */
  meter(measured: readonly Measured[]): () => Reading & { readonly loopUs: number } {
    const loopUs = fixedLoopUs();
    this.loopsUs.push(loopUs);
    const read = startMeter(measured);
    return () => {
      const reading = read();
      this.others = Math.max(this.others, reading.others);
      return { ...reading, loopUs };
    };
  }

  add(table: Table, row: string, values: Record<string, number>): void {
    this.#values.push({ table, row, values });
  }

  /** A figure that this round has, for ratios; NaN if it has not. */
  value(table: Table, row: string, key: string): number {
    const found = this.#values.find((one) => one.table === table && one.row === row && key in one.values);
    return found?.values[key] ?? Number.NaN;
  }

  /** Adds `key` ÷ the same of `base` to all rows of this round, as column `as`. */
  addRatios(table: Table, key: string, base: string, as: string): void {
    const of = this.value(table, base, key);
    if (Number.isNaN(of)) return;
    for (const one of this.#values)
      if (one.table === table && one.values[key] !== undefined && one.row !== base)
        one.values[as] = one.values[key] / of;
  }

  keep(): void {
    for (const { table, row, values } of this.#values) table.add(row, values);
  }
}

export function printTables(tables: readonly Table[]): void {
  for (const table of tables) console.log(`\n${textOf(table)}`);
}
