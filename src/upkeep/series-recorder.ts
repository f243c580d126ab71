// SeriesRecorder adds up what the processes of this instance report, and writes it to the registry once a
// minute: rows of the minute, of the ten minutes and of the two hours that it belongs to.
// Invariant: nothing is counted twice. A row belongs to this process alone and is written whole, so a write
// may be repeated; the rows of an earlier dq-upkeep stay beside it, and readers add them up. A kill -9 loses
// the minute that was not written.

import {
  addFacts,
  everyTopic,
  type Facts,
  noFacts,
  packFacts,
  type StoredJobs,
  seriesSteps,
  stepStart,
  unpackFacts,
} from '../core/series.ts';
import type { StateCounts } from '../ports/job-store.ts';
import type { Registry, SeriesRow, StatDelta } from '../ports/registry.ts';
import type { RoleContext } from '../process/role.ts';
import { Agent } from '../runtime/loop.ts';
import { monotonicNow } from '../runtime/time.ts';
import { orAfter } from '../runtime/timeout.ts';
import { FirstTopics } from './first-topics.ts';
import { upkeepLimits } from './limits.ts';

/** A step that is not over. */
interface OpenStep {
  /** epoch seconds of its beginning */
  at: number;
  /** everyTopic: all together */
  readonly facts: Map<string, Facts>;
}

const [minute, ...longer] = seriesSteps;
const rowsHeldMax = upkeepLimits.seriesHeldMinutes * (upkeepLimits.seriesTopicsMax + 1);

export class SeriesRecorder extends Agent {
  readonly #registry: Registry;
  readonly #clock: RoleContext['clock'];
  readonly #writer: RoleContext['owner'];
  readonly #first: FirstTopics;
  #minute: OpenStep | null = null;
  /** step → the one that the last minute belongs to */
  readonly #longer = new Map<number, OpenStep>();
  /** Rows to write, the oldest first. */
  readonly #held = new Map<string, SeriesRow>();
  #sweptTo = '';
  #drained: Promise<void> | null = null;

  constructor({
    registry,
    clock,
    owner,
    topics,
    log,
  }: Pick<RoleContext, 'registry' | 'clock' | 'owner' | 'topics' | 'log'>) {
    super({
      log,
      failure: 'series-recorder: cannot record series',
      end: 'series-recorder: series are recorded again',
      work: () => this.#turn(),
      everyMs: upkeepLimits.seriesTurnMs,
      failureWaitMs: upkeepLimits.seriesAgainMs,
    });
    this.#registry = registry;
    this.#clock = clock;
    this.#writer = owner;
    this.#first = new FirstTopics(topics, upkeepLimits.seriesTopicsMax);
  }

  /** Adds the counters of any process. */
  counted(deltas: readonly StatDelta[]): void {
    for (const { topic, name, n } of deltas)
      for (const facts of this.#factsOf(topic)) facts.counts[name] += n;
  }

  /** Adds what a notifier observed: pairs of topic and packed facts. */
  observed(topics: readonly (readonly [string, string])[]): void {
    for (const [topic, packed] of topics) {
      const more = unpackFacts(packed);
      if (more !== null) for (const facts of this.#factsOf(topic)) addFacts(facts, more);
    }
  }

  /** The stored jobs now. Topics without events in this minute get no row. */
  stored(topics: Readonly<Record<string, StateCounts>>, oldestOverdueMs: number | null): void {
    const open = this.#openMinute();
    const all: Record<keyof StateCounts, number> = { delayed: 0, ready: 0, reserved: 0, dead: 0 };
    for (const [topic, counts] of Object.entries(topics)) {
      for (const state of Object.keys(all) as (keyof StateCounts)[]) all[state] += counts[state];
      const own = open.facts.get(topic);
      if (own !== undefined) own.stored = { ...counts, oldestOverdueMs: null };
    }
    factsIn(open, everyTopic).stored = { ...all, oldestOverdueMs } satisfies StoredJobs;
  }

  override async start(): Promise<void> {
    this.#openMinute();
    await super.start();
  }

  override drain(deadlineMs: number): Promise<void> {
    this.#drained ??= this.#finish(deadlineMs);
    return this.#drained;
  }

  async #finish(deadlineMs: number): Promise<void> {
    const end = monotonicNow() + deadlineMs;
    await super.drain(deadlineMs);
    this.#close();
    if (this.isFailing) return;
    const written = this.#write().catch((error: unknown) => this.failed(error));
    await orAfter(Math.max(0, end - monotonicNow()), written, undefined);
  }

  async #turn(): Promise<void> {
    this.#openMinute();
    if (this.#held.size > 0) await this.#write();
  }

  /** Those of all topics, and of the topic if it has rows of its own. */
  #factsOf(topic: string): readonly Facts[] {
    const open = this.#openMinute();
    const all = factsIn(open, everyTopic);
    return this.#first.names.has(topic) ? [all, factsIn(open, topic)] : [all];
  }

  /** The current minute; closes an earlier one. The estimate of the storage clock may go back by some ms. */
  #openMinute(): OpenStep {
    const at = stepStart(this.#clock.now() / 1_000, minute.seconds);
    const open = this.#minute;
    if (open !== null && (at === open.at || at === open.at - minute.seconds)) return open;
    this.#close();
    // Also without events: a minute without a row is one that was not recorded.
    this.#minute = { at, facts: new Map([[everyTopic, noFacts()]]) };
    return this.#minute;
  }

  /** Turns the open minute into rows. */
  #close(): void {
    const open = this.#minute;
    this.#minute = null;
    if (open === null) return;
    factsIn(open, everyTopic).isComplete = this.#first.isAll;
    this.#hold(minute.seconds, open.at, open.facts, open.facts.keys());
    for (const { seconds } of longer) {
      const at = stepStart(open.at, seconds);
      let step = this.#longer.get(seconds);
      if (step === undefined || step.at !== at) {
        step = { at, facts: new Map() };
        this.#longer.set(seconds, step);
      }
      for (const [topic, more] of open.facts) addFacts(factsIn(step, topic), more);
      this.#hold(seconds, at, step.facts, open.facts.keys());
    }
  }

  #hold(step: number, at: number, facts: ReadonlyMap<string, Facts>, topics: Iterable<string>): void {
    const { instance, incarnation } = this.#writer;
    for (const topic of topics) {
      const own = facts.get(topic);
      if (own === undefined) continue;
      this.#held.set(`${step} ${at} ${topic}`, {
        topic,
        step,
        at,
        instance,
        incarnation,
        packed: packFacts(own),
      });
    }
    for (const key of this.#held.keys()) {
      if (this.#held.size <= rowsHeldMax) break;
      this.#held.delete(key);
    }
  }

  async #write(): Promise<void> {
    // Rows that change meanwhile wait for the next call.
    for (let left = this.#held.size; left > 0; left -= upkeepLimits.seriesBatchMax) {
      const rows = [...this.#held].slice(0, upkeepLimits.seriesBatchMax);
      this.#sweptTo = await this.#registry.putSeries(
        rows.map(([, row]) => row),
        Math.floor(this.#clock.now() / 1_000),
        this.#sweptTo,
      );
      for (const [key, row] of rows) if (this.#held.get(key) === row) this.#held.delete(key);
    }
  }
}

function factsIn({ facts }: OpenStep, topic: string): Facts {
  const known = facts.get(topic) ?? noFacts();
  facts.set(topic, known);
  return known;
}
