// Removes what has outlived its time: log files older than log.days. A failure is logged once and tried again at the next
// round; nothing waits for it.

import { limits } from '../core/limits.ts';
import { Loop } from '../core/loop.ts';
import type { Service } from '../core/service.ts';
import type { RoleContext } from '../process/role.ts';
import { removeOldLogs } from '../telemetry/old-logs.ts';

export class Janitor implements Service {
  readonly #ctx: RoleContext;
  readonly #loop: Loop;
  #nextAt = 0;
  #failing = false;

  constructor(ctx: RoleContext) {
    this.#ctx = ctx;
    this.#loop = new Loop({
      name: 'janitor',
      step: () => this.#step(),
      onFailure: (error) => {
        if (!this.#failing) ctx.log.error('old log files cannot be removed', error);
        this.#failing = true;
      },
    });
  }

  async start(): Promise<void> {
    await this.#loop.start();
  }

  async drain(deadlineMs: number): Promise<void> {
    await this.#loop.drain(deadlineMs);
  }

  /** The loop turns at least once a second; the work is done once in limits.janitorEveryMs. */
  async #step(): Promise<number> {
    if (performance.now() < this.#nextAt) return limits.loopSleepMsMax;
    this.#nextAt = performance.now() + limits.janitorEveryMs;
    const { config, log } = this.#ctx;
    const removed = await removeOldLogs(config.logDir, config['log.days'], Date.now());
    if (removed.length > 0) log.notice('old log files were removed', { files: removed });
    this.#failing = false;
    return limits.loopSleepMsMax;
  }
}
