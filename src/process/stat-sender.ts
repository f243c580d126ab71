// The counters of one process: added up, and handed to the master every limits.countersToUpkeepMs, which passes them on to
// dq-upkeep. In dq-upkeep itself they go straight to its own listener: nobody else would bring them back at the end.

import type { Calendar } from '../core/calendar.ts';
import { createCalendar } from '../core/calendar.ts';
import { limits } from '../core/limits.ts';
import type { StatDelta, StatName } from '../registry/registry.ts';
import type { Counters } from './role.ts';
import { StatBuffer } from './stat-buffer.ts';

export class StatSender implements Counters {
  readonly #buffer = new StatBuffer(limits.countersHeldMax);
  readonly #send: (deltas: readonly StatDelta[]) => Promise<void>;
  readonly #calendar: Calendar;
  readonly #timer: NodeJS.Timeout;

  constructor(timezone: string, send: (deltas: readonly StatDelta[]) => Promise<void>) {
    this.#send = send;
    this.#calendar = createCalendar(timezone);
    this.#timer = setInterval(() => void this.flush(), limits.countersToUpkeepMs).unref();
  }

  add(topic: string, name: StatName, n = 1): void {
    this.#buffer.add({ topic, day: this.#calendar.dayOf(Date.now()), name, n });
  }

  async flush(): Promise<void> {
    const deltas = this.#buffer.take();
    if (deltas.length > 0) await this.#send(deltas);
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.flush();
  }
}
