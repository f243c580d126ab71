// Claims the open operations of the registry and works on them: all of this process together use at most half
// of the time, because each step is followed by a pause of the same length.

import { limits } from '../../core/limits.ts';
import type { RoleContext } from '../../process/role.ts';
import { Agent } from '../../runtime/loop.ts';
import { monotonicNow, sleep } from '../../runtime/time.ts';
import { orAfter } from '../../runtime/timeout.ts';
import { upkeepLimits } from '../limits.ts';
import { OperationJobs } from './operation-jobs.ts';
import { OperationRun } from './operation-run.ts';

export class Operations extends Agent {
  readonly #ctx: RoleContext;
  readonly #jobs: OperationJobs;
  readonly #isHealing: () => boolean;
  readonly #running = new Map<OperationRun, Promise<void>>();
  #last: Promise<unknown> = Promise.resolve();

  /** `isHealing`: jobs that Redis lost are being put back */
  constructor(ctx: RoleContext, isHealing: () => boolean = () => false) {
    super({
      log: ctx.log,
      failure: 'operations: cannot read operations',
      end: 'operations: operations are read again',
      step: () => this.#claim(),
    });
    this.#ctx = ctx;
    this.#isHealing = isHealing;
    this.#jobs = new OperationJobs(ctx.store, ctx.counters, ctx.journal);
  }

  override async drain(deadlineMs: number): Promise<void> {
    const ended = super.drain(deadlineMs);
    for (const run of this.#running.keys()) run.drain();
    await ended;
    for (const run of this.#running.keys()) run.drain();
    await orAfter(deadlineMs, Promise.all(this.#running.values()), undefined);
  }

  async #claim(): Promise<number> {
    if (this.#running.size >= limits.operationsOpenMax) return upkeepLimits.operationClaimMs;
    const { registry, clock, owner } = this.#ctx;
    const now = await clock.known();
    const holder = `${owner.instance}.${owner.incarnation}`;
    const except = [...this.#running.keys()].map(({ id }) => id);
    const lease = await registry.claimOperation(holder, now, now + upkeepLimits.operationLeaseMs, except);
    if (lease === null) return upkeepLimits.operationClaimMs;
    const inTurn = <T>(step: () => Promise<T>) => this.#inTurn(step);
    const run = new OperationRun(lease, {
      ctx: this.#ctx,
      jobs: this.#jobs,
      isHealing: this.#isHealing,
      inTurn,
    });
    this.#running.set(
      run,
      run.run().finally(() => this.#running.delete(run)),
    );
    return 0;
  }

  #inTurn<T>(step: () => Promise<T>): Promise<T> {
    let from = 0;
    const result = this.#last.then(() => {
      from = monotonicNow();
      return step();
    });
    const pause = () => sleep(Math.min(monotonicNow() - from, limits.loopSleepMsMax));
    this.#last = result.then(pause, pause);
    return result;
  }
}
