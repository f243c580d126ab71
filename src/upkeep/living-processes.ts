// Tells the recorder which processes of this instance may still write to their streams.
// Invariant: a process that is called dead writes nothing more. A process without a master drains for a
// while, and a new master does not know it: a process is dead only after it was missing for that long.
// Incarnations rise, so one above all in the master's list began later.

import { limits } from '../core/limits.ts';
import { processLimits } from '../process/limits.ts';
import type { ToWorker } from '../process/messages.ts';
import { monotonicNow } from '../runtime/time.ts';

type Living = Extract<ToWorker, { readonly kind: 'living' }>;

/** ms: a process notices within a second that its master is gone, drains, and is ended by force. */
const missingMs = 1_000 + processLimits.orphanDrainMs + 2 * limits.drainGraceMs;

export class LivingProcesses {
  /** null: unknown */
  #titles: ReadonlyMap<number, string> | null = null;
  #highest = 0;
  /** of the last list, and monotonicNow() since when it has been the lowest */
  #lowest: number | null = null;
  #lowestSince = 0;
  /** monotonicNow() of the first question about a missing process, by incarnation */
  readonly #missingSince = new Map<number, number>();

  /** The master's answer to who_lives. */
  receive({ processes }: Living, now = monotonicNow()): void {
    this.#titles = new Map(processes);
    const lowest = Math.min(...this.#titles.keys());
    if (lowest !== this.#lowest) [this.#lowest, this.#lowestSince] = [lowest, now];
    this.#highest = Math.max(0, ...this.#titles.keys());
  }

  /** Every process with a lower incarnation has been missing for long enough; null: unknown. */
  lowest(now = monotonicNow()): number | null {
    return now - this.#lowestSince < missingMs ? null : this.#lowest;
  }

  /** The title of a process that may live; empty if it is unknown. null: it is dead. */
  titleOf(incarnation: number, now = monotonicNow()): string | null {
    const title = this.#titles?.get(incarnation);
    if (title !== undefined || this.#titles === null || incarnation > this.#highest) {
      this.#missingSince.delete(incarnation);
      return title ?? '';
    }
    const since = this.#missingSince.get(incarnation) ?? now;
    this.#missingSince.set(incarnation, since);
    return now - since < missingMs ? '' : null;
  }
}
