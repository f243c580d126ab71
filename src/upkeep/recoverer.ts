// Returns jobs whose lease ran out or whose process is dead. Owns no job: each return is one atomic step of the store, fenced
// like every other, so two recoverers beside each other (a reload) do no harm.
// Invariant: a lease of a process that lives is never given back before it has run out. The master's list of the living names
// the next life of each notifier, too, and the store leaves alone whoever is younger than all of them; what is old is not acted on.

import { limits } from '../core/limits.ts';
import { type Partition, type Recovered, StoreError } from '../ports/job-store.ts';
import type { RoleContext } from '../process/role.ts';
import { Loop } from '../runtime/loop.ts';
import type { Service } from '../runtime/service.ts';
import { upkeepLimits } from './limits.ts';

export class Recoverer implements Service {
  readonly #ctx: RoleContext;
  readonly #loop: Loop;
  /** incarnations whose leases are still to be given back */
  readonly #dead = new Set<number>();
  #living: readonly number[] | null = null;
  /** performance.now() of the last question for it */
  #askedAt = Number.NEGATIVE_INFINITY;
  /** performance.now() of the next look for leases that ran out */
  #nextAt = 0;
  #failing = false;

  constructor(ctx: RoleContext) {
    this.#ctx = ctx;
    this.#loop = new Loop({
      name: 'recoverer',
      step: () => this.#step(),
      onFailure: (error) => {
        this.#nextAt = 0;
        if (!this.#failing) ctx.log.error('leases cannot be recovered', error);
        this.#failing = true;
      },
    });
  }

  /** The process of that incarnation has exited: its leases need not be waited for. */
  ownerDied(incarnation: number): void {
    this.#dead.add(incarnation);
    this.#loop.wake();
  }

  /** The master's answer to who_lives. */
  onlyTheseLive(incarnations: readonly number[]): void {
    this.#living = incarnations;
    this.#loop.wake();
  }

  async start(): Promise<void> {
    await this.#loop.start();
  }

  async drain(deadlineMs: number): Promise<void> {
    await this.#loop.drain(deadlineMs);
  }

  async #step(): Promise<number> {
    const { jobs } = this.#ctx.store;
    const { instance } = this.#ctx.owner;
    const living = this.#freshLiving();
    // A part of the store that does not answer holds up no other.
    const failures: unknown[] = [];
    if (living !== null)
      failures.push(
        ...(await this.#recoverAll((partition) =>
          jobs.recoverOwners(partition, instance, { living }, limits.recoverMax),
        )),
      );
    for (const dead of this.#dead) {
      const failed = await this.#recoverAll((partition) =>
        jobs.recoverOwners(partition, instance, { dead }, limits.recoverMax),
      );
      failures.push(...failed);
      if (failed.length === 0) this.#dead.delete(dead);
    }
    // Not once more because a death or the living were told of.
    if (performance.now() >= this.#nextAt) {
      this.#nextAt = performance.now() + limits.recoverEveryMs;
      failures.push(...(await this.#recoverAll((partition) => jobs.recover(partition, limits.recoverMax))));
    }
    if (failures.length > 0) throw failures[0];
    if (this.#failing) this.#ctx.log.notice('leases are being recovered again');
    this.#failing = false;
    return Math.max(this.#nextAt - performance.now(), 0);
  }

  /** Asked for again and again, because a message about a death may have met nobody: this process was not there yet, or the
   *  one that died belonged to an earlier master. A list is used once. */
  #freshLiving(): readonly number[] | null {
    const living = this.#living;
    const ageMs = performance.now() - this.#askedAt;
    this.#living = null;
    if (living !== null && ageMs <= upkeepLimits.livingFreshMs) return living;
    if (living !== null || ageMs >= upkeepLimits.whoLivesEveryMs) {
      this.#askedAt = performance.now();
      // Without a master nobody answers, and this process ends soon.
      this.#ctx.link.send({ kind: 'who_lives' });
    }
    return null;
  }

  /** Answers the failures of the partitions that failed. */
  async #recoverAll(recover: (partition: Partition) => Promise<Recovered>): Promise<unknown[]> {
    const failures: unknown[] = [];
    for (const partition of this.#ctx.store.jobs.partitions()) {
      try {
        let recovered: Recovered;
        do {
          recovered = await recover(partition);
          this.#report(recovered);
        } while (recovered.more);
      } catch (error) {
        if (!(error instanceof StoreError)) throw error;
        failures.push(error);
      }
    }
    return failures;
  }

  #report({ returned, poisoned }: Recovered): void {
    const { log, counters, metrics } = this.#ctx;
    const recovered = returned + poisoned.length;
    if (recovered > 0) metrics.count('dq_leases_recovered_total', recovered);
    if (poisoned.length > 0) metrics.count('dq_strikes_poisoned_total', poisoned.length);
    if (returned > 0)
      log.notice('jobs were taken back from notifiers that did not finish them', { returned });
    for (const { topic, id } of poisoned) {
      counters.add(topic, 'dead');
      log.notify({ topic, id, outcome: 'failed', verdict: 'bury', reason: null, buryReason: 'poison' });
      log.error('a job was buried: its notifier died or fell silent each time it was called', undefined, {
        topic,
        id,
      });
    }
  }
}
