// Sends outcomes to the store: one call per tick, verb and partition, so that no outcome waits for another
// partition. Owns every finishing write until it is answered, and the tokens of the jobs that this notifier
// holds.
// Invariant: a token is held until the store has answered its write. A write without an answer is sent
// again, also after the end of its lease: it is fenced by (version, token), so a repeat does no harm. A
// store that was unavailable holds its leases after it returns (JobStore.recover). At most `lateMax` such
// late writes are kept; the recoverer returns the jobs of the others.

import type { AttemptRecord, DeadReason, Lease, ReservedJob, Token } from '../core/job.ts';
import { limits } from '../core/limits.ts';
import { inBatches } from '../core/lists.ts';
import type { StatName } from '../core/series.ts';
import type {
  AckItem,
  BuryItem,
  FinishOutcome,
  JobStore,
  Outcome,
  Partition,
  RetryItem,
} from '../ports/job-store.ts';
import type { Counters } from '../process/role.ts';
import {
  clearImmediate,
  clearTimeout,
  type Immediate,
  monotonicNow,
  setImmediate,
  setTimeout,
  type Timer,
} from '../runtime/time.ts';
import type { Log } from '../telemetry/log.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import { notifierLimits } from './limits.ts';

/** A job that this notifier holds. */
export interface Held {
  readonly job: ReservedJob;
  /** where it was reserved */
  readonly partition: Partition;
  /** monotonicNow() from before the reserve was sent: the lease did not start earlier */
  readonly leaseFrom: number;
  /** monotonicNow() from which on the lease has ended on the store's clock as well */
  readonly surelyEndsAt: number;
  /** the storage clock of the partition minus monotonicNow(), as of the reserve */
  readonly clockOffset: number;
}

/** `outcome`: the job that an end pushes. */
type Finishing = Lease & Pick<AckItem, 'outcome'>;

interface Finish<Item extends Finishing> {
  readonly held: Held;
  readonly item: Item;
  /** an earlier send got no answer; where the store applied it, this one gets lease_lost */
  unsure: boolean;
  /** sent before, and not answered with an outcome */
  isRepeated: boolean;
  /** its lease ended before an answer came */
  isLate: boolean;
}

/** The writes of one verb that wait to be sent. */
interface Outbox<Item extends Finishing> {
  readonly verb: 'ack' | 'retry' | 'bury' | 'release';
  /** how a success is counted */
  readonly stat: StatName | null;
  readonly send: (items: readonly Item[]) => Promise<readonly FinishOutcome<string>[]>;
  waiting: Finish<Item>[];
  /** how many of the waiting and sent writes are repeated */
  repeated: number;
  /** the failure is in the log, its end is not */
  isFailing: boolean;
}

interface SettlerOptions {
  readonly jobs: JobStore;
  readonly log: Log;
  readonly counters: Counters;
  readonly metrics: Metrics;
  readonly lateMax: number;
  /** false: attempts of successful calls are not sent to the store */
  readonly keepsHistory: boolean;
  /** called after an answer; jobs may have been settled */
  readonly onSettled: () => void;
}

export class Settler {
  readonly #options: SettlerOptions;
  /** Not by token: two shards number their tokens independently, so two jobs may have the same one. */
  readonly #held = new Set<Held>();
  readonly #acks: Outbox<AckItem>;
  readonly #retries: Outbox<RetryItem>;
  readonly #snoozes: Outbox<RetryItem>;
  readonly #buries: Outbox<BuryItem>;
  readonly #releases: Outbox<Lease>;
  #unsettled = 0;
  #late = 0;
  /** By partition: finishing writes without an answer that are not late; no entry for 0. */
  readonly #awaited = new Map<Partition, number>();
  #flush: Immediate | null = null;
  #again: Timer | null = null;
  #abandoned = false;

  constructor(options: SettlerOptions) {
    const { jobs } = options;
    this.#options = options;
    this.#acks = outboxOf('ack', 'delivered', (items) => jobs.ack(items));
    this.#retries = outboxOf('retry', 'retried', (items) => jobs.retry(items));
    this.#snoozes = outboxOf('retry', 'again', (items) => jobs.retry(items));
    this.#buries = outboxOf('bury', 'dead', (items) => jobs.bury(items));
    this.#releases = outboxOf('release', null, (items) => jobs.release(items));
  }

  /** Jobs held, whether waiting, being called or being settled. */
  get size(): number {
    return this.#held.size;
  }

  /** Held jobs whose lease ended before the store answered their outcome. */
  get late(): number {
    return this.#late;
  }

  /** Held jobs whose lease may run: they would be called again after the end of this process. */
  get leased(): number {
    return this.#held.size - this.#late;
  }

  /** Finishing writes to this partition that have no answer yet, and are not late. */
  unsettled(partition: Partition): number {
    return this.#awaited.get(partition) ?? 0;
  }

  /** The tokens of held jobs of all partitions: a shard that gets another address is another partition with
   *  the same leases. */
  tokens(): readonly Token[] {
    return Array.from(this.#held, ({ job }) => job.token);
  }

  hold(held: Held): void {
    this.#held.add(held);
  }

  ack(held: Held, attempt: AttemptRecord, outcome?: Outcome): void {
    const kept = this.#options.keepsHistory ? attempt : null;
    const { topic, id, version, token } = held.job;
    this.#add(this.#acks, held, { topic, id, version, token, attempt: kept, outcome });
  }

  /** `extension`: replaces the options of the job. */
  retry(held: Held, delayMs: number, attempt: AttemptRecord, extension?: Buffer): void {
    this.#add(this.#retries, held, { ...leaseOf(held.job), delayMs, attempt, extension });
  }

  /** A retry without an attempt. `extension`: with the number of snoozes. */
  snooze(held: Held, delayMs: number, extension: Buffer): void {
    this.#add(this.#snoozes, held, { ...leaseOf(held.job), delayMs, attempt: null, extension });
  }

  /** `attempt` null: none was made. */
  bury(held: Held, reason: DeadReason, attempt: AttemptRecord | null, outcome?: Outcome): void {
    this.#add(this.#buries, held, { ...leaseOf(held.job), reason, attempt, outcome });
  }

  /** The job is ready again at its old place, without an attempt. */
  release(held: Held): void {
    this.#add(this.#releases, held, leaseOf(held.job));
  }

  /** Sends nothing more; the recoverer returns the jobs without an answer. Returns the number of unsettled
   *  jobs. */
  abandon(): number {
    this.#abandoned = true;
    if (this.#flush !== null) clearImmediate(this.#flush);
    if (this.#again !== null) clearTimeout(this.#again);
    return this.#unsettled;
  }

  #add<Item extends Finishing>(outbox: Outbox<Item>, held: Held, item: Item): void {
    outbox.waiting.push({ held, item, unsure: false, isRepeated: false, isLate: false });
    this.#unsettled += 1;
    this.#await(held.partition, 1);
    this.#flush ??= setImmediate(() => this.#flushAll());
  }

  #flushAll(): void {
    this.#flush = null;
    this.#flushOne(this.#acks);
    this.#flushOne(this.#retries);
    this.#flushOne(this.#snoozes);
    this.#flushOne(this.#buries);
    this.#flushOne(this.#releases);
  }

  #flushOne<Item extends Finishing>(outbox: Outbox<Item>): void {
    const { waiting } = outbox;
    if (waiting.length === 0) return;
    outbox.waiting = [];
    for (const finishes of byPartition(waiting))
      for (const batch of inBatches(finishes, limits.finishBatchMax)) void this.#send(outbox, batch);
  }

  /** Never rejects. */
  async #send<Item extends Finishing>(
    outbox: Outbox<Item>,
    finishes: readonly Finish<Item>[],
  ): Promise<void> {
    let outcomes: readonly FinishOutcome<string>[];
    try {
      outcomes = await outbox.send(finishes.map(({ item }) => item));
    } catch (error) {
      // The port answers each item and does not reject, so the writes are in an unknown state.
      this.#options.log.error(`notifier: unhandled error in ${outbox.verb}`, error);
      outcomes = [];
    }
    let unanswered = 0;
    let lost = 0;
    for (const [i, finish] of finishes.entries()) {
      const kind = outcomes[i]?.kind ?? 'unknown';
      if (kind === 'not_stored' || kind === 'unknown') {
        unanswered += 1;
        finish.unsure ||= kind === 'unknown';
        this.#sendAgain(outbox, finish);
        continue;
      }
      if (kind === 'lease_lost' && !finish.unsure) lost += 1;
      else if (outbox.stat !== null) this.#count(finish.item, outbox.stat);
      else this.#options.metrics.count('dq_jobs_released_total', 1);
      this.#drop(outbox, finish);
    }
    this.#report(outbox, lost, unanswered);
    this.#options.onSettled();
  }

  #count({ topic, outcome }: Finishing, stat: StatName): void {
    const { counters } = this.#options;
    counters.add(topic, stat);
    if (outcome !== undefined) counters.add(outcome.job.topic, 'pushed');
  }

  #sendAgain<Item extends Finishing>(outbox: Outbox<Item>, finish: Finish<Item>): void {
    if (this.#abandoned) return;
    if (!finish.isRepeated) outbox.repeated += 1;
    finish.isRepeated = true;
    if (!finish.isLate && monotonicNow() >= finish.held.surelyEndsAt) {
      if (this.#late >= this.#options.lateMax) {
        this.#giveUp(outbox, finish);
        return;
      }
      finish.isLate = true;
      this.#late += 1;
      this.#await(finish.held.partition, -1);
    }
    outbox.waiting.push(finish);
    this.#again ??= setTimeout(() => {
      this.#again = null;
      this.#flush ??= setImmediate(() => this.#flushAll());
    }, notifierLimits.finishAgainMs);
  }

  #giveUp<Item extends Finishing>(outbox: Outbox<Item>, finish: Finish<Item>): void {
    const { topic, id, version } = finish.item;
    this.#options.log.error(
      `notifier: ${outbox.verb} was never answered; the job is delivered again`,
      undefined,
      {
        topic,
        id,
        version,
      },
    );
    this.#drop(outbox, finish);
  }

  #drop<Item extends Finishing>(outbox: Outbox<Item>, finish: Finish<Item>): void {
    this.#held.delete(finish.held);
    this.#unsettled -= 1;
    if (finish.isLate) this.#late -= 1;
    else this.#await(finish.held.partition, -1);
    if (finish.isRepeated) outbox.repeated -= 1;
  }

  #await(partition: Partition, more: 1 | -1): void {
    const awaited = this.unsettled(partition) + more;
    if (awaited > 0) this.#awaited.set(partition, awaited);
    else this.#awaited.delete(partition);
  }

  #report<Item extends Finishing>(outbox: Outbox<Item>, lost: number, unanswered: number): void {
    const { log, metrics } = this.#options;
    const { verb } = outbox;
    if (lost > 0) metrics.count('dq_leases_lost_total', lost, verb);
    if (unanswered > 0) metrics.count('dq_settles_repeated_total', unanswered);
    if (lost > 0)
      log.notice('notifier: leases were lost; their jobs were cancelled, replaced or recovered', {
        verb,
        lost,
      });
    if (unanswered > 0 && !outbox.isFailing) {
      log.error(`notifier: ${verb} gets no answer from the store; it is repeated`, undefined, { unanswered });
      outbox.isFailing = true;
    }
    if (outbox.repeated > 0 || !outbox.isFailing) return;
    log.notice(`notifier: ${verb} is answered again`);
    outbox.isFailing = false;
  }
}

function outboxOf<Item extends Finishing>(
  verb: Outbox<Item>['verb'],
  stat: StatName | null,
  send: Outbox<Item>['send'],
): Outbox<Item> {
  return { verb, stat, send, waiting: [], repeated: 0, isFailing: false };
}

function byPartition<Item extends Finishing>(finishes: readonly Finish<Item>[]): Iterable<Finish<Item>[]> {
  const groups = new Map<Partition, Finish<Item>[]>();
  for (const finish of finishes) {
    const group = groups.get(finish.held.partition);
    if (group === undefined) groups.set(finish.held.partition, [finish]);
    else group.push(finish);
  }
  return groups.values();
}

function leaseOf({ topic, id, version, token }: ReservedJob): Lease {
  return { topic, id, version, token };
}
