// The network between the processes of a world: how long messages take. Faults slow it.

import type { Line } from './channel.ts';
import type { Loop } from './loop.ts';

/** Latency without a fault, ms. */
const usualMsMax = 2;

export class Network implements Line {
  readonly #loop: Loop;
  /** usual latency, one way */
  latencyMs: number;
  /** virtual ms; until then some messages are late by seconds */
  lateUntil = 0;
  /** how much longer a message between the master and a worker takes at most */
  masterMs = 0;
  /** virtual ms until which a message, or dq-store, takes so long that outcomes can reach it late */
  slowUntil = 0;
  /** share of the hints that are lost */
  hintLoss = 0;

  constructor(loop: Loop) {
    this.#loop = loop;
    this.latencyMs = loop.dice.pick([0.05, 0.3, 2]);
  }

  latency(): number {
    const { dice, at } = this.#loop;
    if (this.latencyMs > usualMsMax) this.isSlowUntil(at + this.latencyMs);
    return this.latencyMs * (0.5 + dice.next()) + (dice.chance(0.01) ? dice.next() * 20 : 0);
  }

  /** Some messages are late by more than sqliteLimits.storeCallMs. */
  extra(): number {
    const { at, dice } = this.#loop;
    if (at >= this.lateUntil || !dice.chance(0.2)) return 0;
    const ms = dice.chance(0.5) ? dice.next() * 2_000 : 7_000 + dice.next() * 4_000;
    this.isSlowUntil(at + ms);
    return ms;
  }

  isSlowUntil(at: number): void {
    this.slowUntil = Math.max(this.slowUntil, at);
  }

  losesHint(): boolean {
    return this.hintLoss > 0 && this.#loop.dice.chance(this.hintLoss);
  }
}
