// The network between the processes of a world: how long messages take. Faults slow it.

import type { Line } from './channel.ts';
import type { Loop } from './loop.ts';

export class Network implements Line {
  readonly #loop: Loop;
  /** usual latency, one way */
  latencyMs: number;
  /** virtual ms; until then some messages are late by seconds */
  lateUntil = 0;
  /** how much longer a message between the master and a worker takes at most */
  masterMs = 0;
  /** share of the hints that are lost */
  hintLoss = 0;

  constructor(loop: Loop) {
    this.#loop = loop;
    this.latencyMs = loop.dice.pick([0.05, 0.3, 2]);
  }

  latency(): number {
    const { dice } = this.#loop;
    return this.latencyMs * (0.5 + dice.next()) + (dice.chance(0.01) ? dice.next() * 20 : 0);
  }

  /** Some messages are late by more than sqliteLimits.storeCallMs. */
  extra(): number {
    const { at, dice } = this.#loop;
    if (at >= this.lateUntil || !dice.chance(0.2)) return 0;
    return dice.chance(0.5) ? dice.next() * 2_000 : 7_000 + dice.next() * 4_000;
  }

  losesHint(): boolean {
    return this.hintLoss > 0 && this.#loop.dice.chance(this.hintLoss);
  }
}
