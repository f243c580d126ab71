// Sends to the master each second what one process has counted: its statistics, its metrics, and the facts of
// its calls. All are statistics: a kill -9 loses those that were not sent.

import { type Calendar, createCalendar } from '../core/calendar.ts';
import type { AttemptReason } from '../core/job.ts';
import { limits } from '../core/limits.ts';
import {
  addReason,
  addTime,
  type Facts,
  noFacts,
  packFacts,
  reasonKey,
  type StatName,
} from '../core/series.ts';
import type { StatDelta } from '../ports/registry.ts';
import { ticker } from '../runtime/second-ticker.ts';
import type { Log, OpenLog } from '../telemetry/log.ts';
import { otherLabel } from '../telemetry/metric-declarations.ts';
import { MetricBuffer } from '../telemetry/metrics.ts';
import { processLimits } from './limits.ts';
import type { WorkerChannel } from './own-process.ts';
import type { Counters, MasterLink } from './role.ts';
import type { StorageClock } from './store-clock.ts';

/** Sends the counters of topics, or earlier when the buffer is full. The master passes them to dq-upkeep. In
 *  dq-upkeep itself they go to its own listener, also at its end. While the previous part is being sent,
 *  counts beyond a full buffer are dropped and logged. */
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

/** Adds up statistics until they are sent. Invariant: beyond `max` entries new ones are dropped and
 *  counted. */
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

/** Sends the metrics at every tick, and once more at the end of the process. */
export class MetricSender {
  readonly buffer: MetricBuffer;
  readonly #channel: Pick<WorkerChannel, 'send' | 'sent'>;
  readonly #log: Pick<OpenLog, 'dropped'>;
  #droppedSent = 0;

  constructor(
    channel: Pick<WorkerChannel, 'send' | 'sent'>,
    log: Pick<OpenLog, 'dropped'>,
    buffer = new MetricBuffer(),
  ) {
    this.buffer = buffer;
    this.#channel = channel;
    this.#log = log;
  }

  beat(): void {
    const metrics = this.#take();
    if (metrics !== null) this.#channel.send({ kind: 'metrics', metrics });
  }

  /** Resolves when the metrics are sent, or the channel is closed. */
  async flush(): Promise<void> {
    const metrics = this.#take();
    if (metrics !== null) await this.#channel.sent({ kind: 'metrics', metrics });
  }

  #take(): ReturnType<MetricBuffer['take']> {
    const dropped = this.#log.dropped();
    if (dropped > this.#droppedSent)
      this.buffer.count('dq_log_lines_dropped_total', dropped - this.#droppedSent);
    this.#droppedSent = dropped;
    return this.buffer.take();
  }
}

interface EndedAttempt {
  readonly attempt: number;
  readonly durationMs: number;
  /** null: delivered, or a snooze */
  readonly reason: AttemptReason | null;
  /** null: no reply */
  readonly status: number | null;
  /** It has no result: the call of the same number follows. */
  readonly isSnooze?: boolean;
}

/** Adds up the lateness, duration and result of calls per topic; dq-upkeep records them. Invariant: at most
 *  processLimits.factTopicsMax topics; further ones are added up as `_other`. */
export class CallFacts {
  readonly #link: Pick<MasterLink, 'send'>;
  readonly #facts = new Map<string, Facts>();
  #stop: () => void = () => {};

  constructor(link: Pick<MasterLink, 'send'>) {
    this.#link = link;
  }

  start(): void {
    this.#stop = ticker().each(() => this.send());
  }

  close(): void {
    this.#stop();
    this.send();
  }

  lateness(topic: string, ms: number): void {
    addTime(this.#of(topic).lateness, ms);
  }

  ended(topic: string, { attempt, durationMs, reason, status, isSnooze = false }: EndedAttempt): void {
    const facts = this.#of(topic);
    addTime(facts.duration, durationMs);
    if (reason !== null) addReason(facts, reasonKey(reason, status));
    if (attempt > 1 || isSnooze) return;
    facts.counts.firstAttempts += 1;
    if (reason === null) facts.counts.firstDelivered += 1;
  }

  send(): void {
    if (this.#facts.size === 0) return;
    const topics = Array.from(this.#facts, ([topic, facts]) => [topic, packFacts(facts)] as const);
    this.#facts.clear();
    this.#link.send({ kind: 'observed', topics });
  }

  #of(topic: string): Facts {
    const known = this.#facts.get(topic);
    if (known !== undefined) return known;
    const name = this.#facts.size < processLimits.factTopicsMax ? topic : otherLabel;
    const facts = this.#facts.get(name) ?? noFacts();
    this.#facts.set(name, facts);
    return facts;
  }
}
