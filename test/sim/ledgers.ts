// The ledgers of a world: one for each shard, because numbers of two shards say nothing about each other. An
// id lives on one shard only, so all of them together are one ledger of jobs.

import type { Judge } from './judge.ts';
import type { Entry, LeaseRecord, Ledger, LedgerListener } from './ledger.ts';

export class Ledgers {
  /** that of the embedded store, or of the first shard */
  readonly first: Ledger;
  readonly all: readonly Ledger[];
  /** The list of the shards changes. */
  isMoving = false;

  constructor(first: Ledger, ...others: readonly Ledger[]) {
    this.first = first;
    this.all = [first, ...others];
  }

  get entries(): ReadonlyMap<string, Entry> {
    return this.#joined(({ entries }) => entries);
  }

  get leases(): readonly LeaseRecord[] {
    return this.all.flatMap(({ leases }) => [...leases.values()]);
  }

  get stored(): ReadonlyMap<string, number> {
    return this.#joined(({ stored }) => stored);
  }

  get lost(): ReadonlyMap<string, number> {
    return this.#joined(({ lost }) => lost);
  }

  get counts(): Readonly<Record<string, number>> {
    const sums: Record<string, number> = {};
    for (const { counts } of this.all)
      for (const [name, n] of Object.entries(counts)) sums[name] = (sums[name] ?? 0) + n;
    return sums;
  }

  get reservedAt(): number {
    return Math.max(...this.all.map(({ reservedAt }) => reservedAt));
  }

  get steppedAt(): number {
    return Math.max(...this.all.map(({ steppedAt }) => steppedAt));
  }

  /** of all shards */
  get losses(): number {
    return this.all.reduce((sum, { losses }) => sum + losses, 0);
  }

  /** of the wall clock */
  get steps(): number {
    return this.first.steps;
  }

  /** of the shard that started last */
  get startedAt(): number {
    return Math.max(...this.all.map(({ startedAt }) => startedAt));
  }

  listen(listener: LedgerListener): void {
    for (const { listeners } of this.all) listeners.push(listener);
  }

  endedVersion(key: string): number {
    return Math.max(...this.all.map((each) => each.endedVersion(key)));
  }

  checkEarly(entry: Entry, what: string): void {
    this.first.checkEarly(entry, what);
  }

  wallStepped(ms: number, isSeen: boolean): void {
    for (const each of this.all) each.wallStepped(ms, isSeen);
  }

  storeStarted(hasJobs: boolean): void {
    for (const each of this.all) each.storeStarted(hasJobs);
  }

  /** An id, and a push, is on one shard. */
  check(judge: Judge): void {
    // A loss can bring back what a client has pushed again since, on another shard of a later list.
    if (this.all.length === 1 || (this.isMoving && this.all.some(({ losses }) => losses > 0))) return;
    const sums = (of: (ledger: Ledger) => number) => this.all.reduce((sum, each) => sum + of(each), 0);
    const ids = sums(({ entries }) => entries.size) - this.entries.size;
    judge.check(ids === 0, 'decision 10: an id lives on one shard', () => `${ids} ids are on two`);
    const pushes = sums(({ stored }) => stored.size) - this.stored.size;
    judge.check(pushes === 0, '4 a push is stored once', () => `${pushes} pushes are on two shards`);
  }

  #joined<T>(of: (ledger: Ledger) => ReadonlyMap<string, T>): ReadonlyMap<string, T> {
    if (this.all.length === 1) return of(this.first);
    return new Map(this.all.flatMap((each) => [...of(each)]));
  }
}
