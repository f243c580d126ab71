// Adds up statistics until they are sent. They are in memory only: a kill -9 loses them (statistics, never
// jobs).
// Invariant: beyond `max` entries new ones are dropped and counted.

import type { StatName } from '../core/series.ts';
import type { StatDelta } from '../ports/registry.ts';

export class StatBuffer {
  readonly #max: number;
  readonly #entries = new Map<string, { topic: string; day: number; name: StatName; n: number }>();
  #dropped = 0;

  constructor(max: number) {
    this.#max = max;
  }

  /** New entries are dropped from now on; known ones still add up. */
  get isFull(): boolean {
    return this.#entries.size >= this.#max;
  }

  get size(): number {
    return this.#entries.size;
  }

  add(delta: StatDelta): void {
    const key = `${delta.day} ${delta.name} ${delta.topic}`;
    const entry = this.#entries.get(key);
    if (entry !== undefined) entry.n += delta.n;
    else if (this.#entries.size < this.#max) this.#entries.set(key, { ...delta });
    else this.#dropped += delta.n;
  }

  /** Takes the `max` oldest entries; all without `max`. */
  take(max = this.#max): StatDelta[] {
    const taken: StatDelta[] = [];
    for (const [key, delta] of this.#entries) {
      if (taken.length >= max) break;
      taken.push(delta);
      this.#entries.delete(key);
    }
    return taken;
  }

  /** Returns and resets the count of dropped increments. */
  takeDropped(): number {
    const dropped = this.#dropped;
    this.#dropped = 0;
    return dropped;
  }
}
