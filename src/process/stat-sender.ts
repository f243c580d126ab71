// Sends the counters of one process to the master once a second, or as soon as the buffer is full.
// The master passes them to dq-upkeep. In dq-upkeep itself they go to its own listener, also at its end.
// While the previous part is being sent, counts beyond a full buffer are dropped and logged.

import type { Calendar } from '../core/calendar.ts';
import { createCalendar } from '../core/calendar.ts';
import { limits } from '../core/limits.ts';
import type { StatName } from '../core/series.ts';
import type { StatDelta } from '../ports/registry.ts';
import { ticker } from '../runtime/second-ticker.ts';
import type { Log } from '../telemetry/log.ts';
import type { Counters } from './role.ts';
import { StatBuffer } from './stat-buffer.ts';
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
    this.#buffer.add({ topic, day: this.#calendar.dayOf(this.#clock.now()), name, n });
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
