// Sends the counters of one process to the master once a second, or as soon as the buffer is full.
// The master passes them to dq-upkeep. In dq-upkeep itself they go to its own listener, also at its end.
// While the previous part is being sent, counts beyond a full buffer are dropped and logged.

import { type Calendar, createCalendar } from '../core/calendar.ts';
import { limits } from '../core/limits.ts';
import type { StatName } from '../core/series.ts';
import type { StatDelta } from '../ports/registry.ts';
import { ticker } from '../runtime/second-ticker.ts';
import type { Log } from '../telemetry/log.ts';
import type { Counters } from './role.ts';
import type { StorageClock } from './store-clock.ts';

export class StatSender implements Counters {
  readonly #buffer = new StatBuffer(limits.countersHeldMax);
  readonly #send: (deltas: readonly StatDelta[]) => Promise<void>;
  readonly #log: Log;
  readonly #calendar: Calendar;
  /** Not this machine's: hosts with different clocks would count into different days. */
  readonly #clock: StorageClock;
  readonly #stop: () => void;
  #sending: Promise<void> | null = null;

  /** `send` never rejects. */
  constructor(
    timezone: string,
    clock: StorageClock,
    log: Log,
    send: (deltas: readonly StatDelta[]) => Promise<void>,
  ) {
    this.#clock = clock;
    this.#send = send;
    this.#log = log;
    this.#calendar = createCalendar(timezone);
    this.#stop = ticker().each(() => void this.#sendHeld());
  }

  add(topic: string, name: StatName, n = 1): void {
    // With thousands of topics a second the next part does not wait for the timer.
    if (this.#buffer.isFull) void this.#sendHeld();
    this.#buffer.addDelta({ topic, day: this.#calendar.dayOf(this.#clock.now()), name, n });
  }

  /** Resolves when all earlier counts have been sent. */
  async flush(): Promise<void> {
    await this.#sending;
    await this.#sendHeld();
  }

  async close(): Promise<void> {
    this.#stop();
    await this.flush();
  }

  /** One part at a time: a master that does not read must not grow a queue here. */
  #sendHeld(): Promise<void> {
    this.#sending ??= this.#sendAll().finally(() => {
      this.#sending = null;
    });
    return this.#sending;
  }

  async #sendAll(): Promise<void> {
    const deltas = this.#buffer.take();
    const counts = this.#buffer.takeDropped();
    if (counts > 0)
      this.#log.error('statistics: dropped, because the master does not read them', undefined, { counts });
    if (deltas.length > 0) await this.#send(deltas);
  }
}

/** Adds up statistics until they are sent. They are in memory only: a kill -9 loses them (statistics, never
 *  jobs). Invariant: beyond `max` entries new ones are dropped and counted. */
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

  addDelta(delta: StatDelta): void {
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
