// Starts the call of each reserved job, or releases the job: where its topic cannot be called, its lease is
// too short, the capacity was granted to others meanwhile, or another job is called alone. Buries a job whose
// deadline has passed, and releases one whose deadline may have passed. A notifier that stood still while it
// reserved may lead no more.
// Invariant: a call starts only while its topic's timeout plus limits.leaseReserveMs of its lease are left,
// counted from before the reserve was sent. So no attempt outlives its lease.

import { deadlineOf, optionsIn } from '../core/extension.ts';
import { limits } from '../core/limits.ts';
import { isCalled } from '../core/topic/topic.ts';
import type { Partition, Reserved } from '../ports/job-store.ts';
import type { RoleContext } from '../process/role.ts';
import { monotonicNow, wallNow } from '../runtime/time.ts';
import { outcomeOf } from '../use-cases/outcome-jobs.ts';
import type { Capacity } from './capacity.ts';
import type { CapacityGrant } from './capacity-grants.ts';
import type { Deliverer } from './deliverer.ts';
import type { Leadership } from './leadership.ts';
import type { PartitionFailures } from './partition-failures.ts';
import { PoisonIsolation } from './poison-isolation.ts';
import type { Held, Settler } from './settler.ts';
import type { TopicTarget } from './topic-target.ts';

export interface JobStarterOptions {
  readonly ctx: Pick<RoleContext, 'config' | 'log' | 'metrics' | 'topics'>;
  readonly capacity: Capacity;
  readonly settler: Settler;
  readonly deliverer: Deliverer;
  readonly isolation: PoisonIsolation;
  readonly leadership: Pick<Leadership, 'leads'>;
  readonly failures: Pick<PartitionFailures, 'answered'>;
}

export class JobStarter {
  readonly #options: JobStarterOptions;
  #isDraining = false;

  constructor(options: JobStarterOptions) {
    this.#options = options;
  }

  /** Ends a request with its answer, and starts every call of it in this tick. `leaseFrom`:
   *  monotonicNow() from before the reserve was sent. `hasKept`: a job is called, or waits to be called
   *  alone; `hasBuried`: a job was past its deadline, and leaves its capacity to the next one; `isLate`: a
   *  job was released that the next answer may decide otherwise: its grant was outdated, or its deadline may
   *  have passed. */
  start(
    partition: Partition,
    grant: CapacityGrant,
    reserved: Reserved,
    leaseFrom: number,
  ): { readonly hasKept: boolean; readonly hasBuried: boolean; readonly isLate: boolean } {
    const { capacity, settler, isolation, deliverer, failures } = this.#options;
    const now = monotonicNow();
    const clockOffset = (reserved.now ?? wallNow()) - now;
    const fitting = capacity.endRequest(grant, reserved.jobs);
    const batch: { held: Held; target: TopicTarget }[] = [];
    let hasBuried = false;
    let isLate = false;
    const isSlow = now - leaseFrom > this.#options.ctx.config['lease.margin'] - limits.leaseReserveMs;
    let tooShort = 0;
    for (const job of reserved.jobs) {
      const held = { job, partition, leaseFrom, surelyEndsAt: now + job.leaseMs, clockOffset };
      settler.hold(held);
      if (this.#hasExpired(held, now + clockOffset)) {
        hasBuried = true;
        continue;
      }
      const hasCapacity = fitting?.has(job) !== false;
      const target = hasCapacity ? this.#callable(held) : null;
      if (!hasCapacity || mayHaveExpired(held)) isLate = true;
      // A topic whose timeout has grown meanwhile shortens the rest of a lease too, of a quick reserve.
      if (target === null && isSlow && this.#isTooShort(held)) tooShort += 1;
      if (target === null) settler.release(held);
      else batch.push({ held, target });
    }
    // A slow answer without jobs shows neither that their leases are too short nor that they are not.
    if (reserved.jobs.length > 0 || !isSlow) failures.answered(partition, tooShort, now - leaseFrom);
    const candidates = batch.filter(({ held }) => PoisonIsolation.concerns(held)).map(({ held }) => held);
    const hadCandidate = isolation.hasCandidate;
    const chosen = isolation.choose(candidates, batch.length > candidates.length, now);
    for (const { held, target } of batch) {
      if (held === chosen) continue;
      if (hadCandidate || chosen !== null || PoisonIsolation.concerns(held)) settler.release(held);
      else deliverer.call(held, target);
    }
    this.callIsolated();
    return { hasKept: batch.length > 0 && !hadCandidate, hasBuried, isLate };
  }

  /** Calls the job that waits to be called alone, when nothing else is held here and no reserve may bring
   *  more. Releases it where its lease has grown short. */
  callIsolated(): void {
    const { capacity, settler, isolation, deliverer, ctx } = this.#options;
    const held = isolation.waiting;
    if (held === null) return;
    const target = this.#callable(held);
    if (target === null) this.#releaseIsolated();
    else if (settler.leased === 1 && capacity.openRequests === 0) {
      isolation.called(monotonicNow());
      ctx.metrics.count('dq_strikes_alone_total', 1);
      deliverer.call(held, target);
    }
  }

  /** Starts no call from now on. */
  drain(): void {
    this.#isDraining = true;
    this.#releaseIsolated();
  }

  #releaseIsolated(): void {
    const { isolation, settler } = this.#options;
    const held = isolation.waiting;
    if (held === null) return;
    isolation.released();
    settler.release(held);
  }

  /** Whether the deadline of the job has passed; then it is buried. */
  #hasExpired(held: Held, storageNow: number): boolean {
    const { topic, id, version, dueAt, extension } = held.job;
    if (extension === undefined || storageNow <= deadlineOf(optionsIn(extension), held.job)) return false;
    // Without its topic it is released: whether its death pushes a job is not known.
    const known = this.#options.capacity.targetOf(topic);
    if (known === undefined) return false;
    const line = { outcome: 'failed', verdict: 'bury', reason: null, deadReason: 'expired' } as const;
    this.#options.ctx.log.notify({ topic, id, version, ...line, lateMs: Math.round(storageNow - dueAt) });
    const { topics } = this.#options.ctx;
    const end = { reason: 'expired', at: Math.round(storageNow), status: null, reply: null } as const;
    const outcome = outcomeOf(topics, known.topic, held.job, { ...end, attempt: held.job.failures });
    this.#options.settler.bury(held, 'expired', null, outcome);
    return true;
  }

  /** null: this job cannot be called: its topic, the rest of its lease, or a drain forbids it. */
  #callable(held: Held): TopicTarget | null {
    const { capacity } = this.#options;
    const { topic } = held.job;
    const target = capacity.targetOf(topic);
    if (target === undefined) {
      if (capacity.hold(topic)) void this.#lookUp(topic);
      return null;
    }
    const mayCall = this.#options.leadership.leads && !this.#isDraining;
    if (mayHaveExpired(held)) return null;
    return !this.#isTooShort(held) && isCalled(target.topic) && mayCall ? target : null;
  }

  /** Whether the rest of the lease is too short for a call; not where the topic cannot be called. */
  #isTooShort({ leaseFrom, job }: Held): boolean {
    const target = this.#options.capacity.targetOf(job.topic);
    if (target === undefined) return false;
    const leftMs = leaseFrom + job.leaseMs - monotonicNow();
    return leftMs < target.topic.timeoutMs + limits.leaseReserveMs;
  }

  /** A topic that is younger than this process's knowledge comes as a change of the topic book, which ends
   *  the hold. */
  async #lookUp(topic: string): Promise<void> {
    const { topics, log } = this.#options.ctx;
    try {
      if ((await topics.lookUp(topic)) === undefined)
        log.error('notifier: jobs of an unknown topic are held', undefined, { topic });
    } catch (error) {
      log.error('notifier: cannot look up a topic; its jobs are held', error, { topic });
    }
  }
}

/** A slow answer leaves open when the store read its clock: at the earliest as the reserve was sent. A job
 *  that waits to be called alone grows older, too. The next reserve decides. */
function mayHaveExpired({ job, leaseFrom, surelyEndsAt, clockOffset }: Held): boolean {
  const { extension } = job;
  if (extension === undefined) return false;
  const answeredAt = surelyEndsAt - job.leaseMs;
  const latestNow = monotonicNow() + clockOffset + (answeredAt - leaseFrom);
  return latestNow > deadlineOf(optionsIn(extension), job);
}
