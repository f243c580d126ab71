// The idempotency windows of the pushes of a world, and the rule on them (pushing.md): within the window of
// the last end of its id a push stores nothing, and after it the push is stored. The producers name the
// window of each push here, so the rules do not read what dq sent to its store.

import type { Dice } from '../../scripts/dice.ts';
import type { PushOutcome } from '../../src/ports/job-store.ts';
import type { Judge } from './judge.ts';
import type { Loop } from './loop.ts';

/** From the begin of a transaction, whose time a store compares, to its COMMIT. */
const transactionMsMax = 50;
/** Of the worlds, and of the pushes in such a world. */
const shares = { worlds: 0.3, pushes: 0.6 };

export interface WindowsOptions {
  readonly loop: Loop;
  readonly judge: Judge;
  /** Nothing that happens in this world fills the store: it keeps an entry of each end. */
  readonly keepsHistory: boolean;
}

/** The end or death of the last job of an id. `at`: virtual ms; null: the clock was stepped, or the store
 *  lost what it wrote since */
export interface LastEnd {
  readonly version: number;
  readonly at: number | null;
}

export class Windows {
  readonly #options: WindowsOptions;
  readonly #areUsed: boolean;
  /** ms, by the tag of a push */
  readonly #byTag = new Map<string, number>();
  readonly counts = { 'windows judged': 0, 'ends within a window': 0 };

  constructor(options: WindowsOptions) {
    this.#options = options;
    this.#areUsed = options.loop.stream('windows').chance(shares.worlds);
  }

  /** Draws the window of a push; null: none. Of a stream of its own, so that the other pushes stay the
   *  same. */
  draw(tag: string): number | null {
    if (!this.#areUsed) return null;
    const dice: Dice = this.#options.loop.stream(`window ${tag}`);
    if (!dice.chance(shares.pushes)) return null;
    const windowMs = dice.pick([1_000, 5_000, 20_000, 60_000]);
    this.#byTag.set(tag, windowMs);
    return windowMs;
  }

  /** ms; 0: none */
  of(tag: string): number {
    return this.#byTag.get(tag) ?? 0;
  }

  /** The store has answered a push of an id without a live job. */
  answered(tag: string, key: string, outcome: PushOutcome, last: LastEnd | null): void {
    const { loop, judge, keepsHistory } = this.#options;
    const windowMs = this.of(tag);
    const isEnded = outcome.kind === 'ended';
    if (isEnded) {
      this.counts['ends within a window'] += 1;
      judge.check(
        windowMs > 0 && (!keepsHistory || last?.version === outcome.version || last?.at === null),
        'a push within the window of an end names this end',
        () => `push ${tag} of ${key}: version ${outcome.version}, the last one is ${last?.version}`,
      );
    }
    if (windowMs === 0 || last === null || last.at === null || !keepsHistory) return;
    this.counts['windows judged'] += 1;
    const leftMs = last.at + windowMs - loop.at;
    judge.check(
      isEnded ? leftMs > -transactionMsMax : leftMs < transactionMsMax,
      isEnded ? 'a push after its window is stored' : 'a push within its window stores nothing',
      () => `push ${tag} of ${key}: ${leftMs} of ${windowMs} ms are left`,
    );
  }
}
