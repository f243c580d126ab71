// Removes what has outlived its time: log files older than log.days, entries of the history older than history.retention,
// dead letters older than dead.retention. Each in a loop of its own, so that none waits for another. A failure is
// logged once and tried again; nothing waits for it. The store decides what is too old, by its own clock, and keeps every dead
// letter whose alert is owed.

import { limits } from '../core/limits.ts';
import type { RoleContext } from '../process/role.ts';
import { Loop } from '../runtime/loop.ts';
import type { Service } from '../runtime/service.ts';
import { removeOldLogs, trimOutput } from '../telemetry/old-logs.ts';
import { upkeepLimits } from './limits.ts';

export class Janitor implements Service {
  readonly #ctx: RoleContext;
  readonly #loops: readonly Loop[];

  constructor(ctx: RoleContext) {
    this.#ctx = ctx;
    this.#loops = [
      this.#loop('old log files', () => this.#removeLogs()),
      this.#loop('ended jobs', () => this.#forgetEnded()),
      this.#loop('old dead letters', () => this.#expireDead()),
    ];
  }

  async start(): Promise<void> {
    for (const loop of this.#loops) await loop.start();
  }

  async drain(deadlineMs: number): Promise<void> {
    await Promise.all(this.#loops.map((loop) => loop.drain(deadlineMs)));
  }

  /** `round` answers how long to wait for the next one (ms); the loop turns at least once a second and lets the rest go by. */
  #loop(what: string, round: () => Promise<number>): Loop {
    let [nextAt, failing] = [0, false];
    return new Loop({
      name: `janitor: ${what}`,
      step: async () => {
        const now = performance.now();
        if (now < nextAt) return nextAt - now;
        const waitMs = await round();
        nextAt = performance.now() + waitMs;
        failing = false;
        return waitMs;
      },
      onFailure: (error) => {
        if (!failing) this.#ctx.log.error(`${what} cannot be removed`, error);
        failing = true;
      },
      failureWaitMs: limits.loopSleepMsMax,
    });
  }

  async #removeLogs(): Promise<number> {
    const { config, log, clock, store } = this.#ctx;
    // The clock that has jumped is the storage clock: log files follow the hold of the store. Unknown: they wait too.
    const health = await store.admin.health().catch(() => null);
    if (health === null || health.isClockHeld === true) {
      // By its size alone.
      await trimOutput(config.logDir, Number.POSITIVE_INFINITY, 0);
      return upkeepLimits.retentionManyMs;
    }
    const now = await clock.read();
    const removed = await removeOldLogs(config.logDir, config['log.days'], now);
    await trimOutput(config.logDir, config['log.days'], now);
    if (removed.length > 0) log.notice('old log files were removed', { files: removed });
    return upkeepLimits.janitorEveryMs;
  }

  async #forgetEnded(): Promise<number> {
    const { config, store } = this.#ctx;
    // Without a history too: there may be one from before.
    const { more } = await store.history.forget(config['history.retention'], limits.forgetMax);
    return this.#again(more);
  }

  async #expireDead(): Promise<number> {
    const { config, store, log } = this.#ctx;
    const { expired, more } = await store.dead.expire(config['dead.retention'], limits.expireMax);
    if (expired > 0) log.notice('dead letters older than dead.retention were removed', { expired });
    return this.#again(more);
  }

  #again(more: boolean): number {
    if (more) return upkeepLimits.retentionPauseMs;
    const isMany = this.#ctx.store.jobs.partitions().length > upkeepLimits.fewPartitions;
    return isMany ? upkeepLimits.retentionManyMs : upkeepLimits.retentionEveryMs;
  }
}
