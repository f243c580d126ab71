// Adds the counters of all processes to the registry every limits.countersToRegistryMs. Keeps them while the registry is
// away, up to limits.statsHeldMax, and flushes at the drain. Never counts anything twice: what may have been written is not
// written again, so statistics can be short after a failure and are never too high.

import { limits } from '../core/limits.ts';
import { Loop } from '../core/loop.ts';
import type { Service } from '../core/service.ts';
import { StatBuffer } from '../process/stat-buffer.ts';
import type { Registry, StatDelta } from '../registry/registry.ts';
import { StoreError } from '../store/job-store.ts';
import type { Log } from '../telemetry/log.ts';

export class StatsRecorder implements Service {
  readonly #registry: Registry;
  readonly #log: Log;
  readonly #held = new StatBuffer(limits.statsHeldMax);
  readonly #loop: Loop;
  #nextAt = 0;
  #failing = false;
  #drained: Promise<void> | null = null;

  constructor(registry: Registry, log: Log) {
    this.#registry = registry;
    this.#log = log;
    this.#loop = new Loop({
      name: 'stats-recorder',
      step: () => this.#step(),
      onFailure: (error) => {
        if (!this.#failing) log.error('statistics cannot be recorded; they are kept meanwhile', error);
        this.#failing = true;
      },
      failureWaitMs: limits.loopSleepMsMax,
    });
  }

  /** What a `counters` message brings. */
  add(deltas: readonly StatDelta[]): void {
    for (const delta of deltas) this.#held.add(delta);
  }

  async start(): Promise<void> {
    this.#nextAt = performance.now() + limits.countersToRegistryMs;
    await this.#loop.start();
  }

  drain(deadlineMs: number): Promise<void> {
    this.#drained ??= this.#finish(deadlineMs);
    return this.#drained;
  }

  /** The loop turns at least once a second; the work is done once in limits.countersToRegistryMs. */
  async #step(): Promise<number> {
    const waitMs = this.#nextAt - performance.now();
    if (waitMs > 0) return waitMs;
    this.#nextAt = performance.now() + limits.countersToRegistryMs;
    // First: while nothing can be recorded nobody gets to the lines after it.
    const dropped = this.#held.takeDropped();
    if (dropped > 0) this.#log.error('statistics were dropped', undefined, { counts: dropped });
    await this.#record();
    if (this.#failing) this.#log.notice('statistics are being recorded again');
    this.#failing = false;
    return limits.countersToRegistryMs;
  }

  async #finish(deadlineMs: number): Promise<void> {
    const end = performance.now() + deadlineMs;
    await this.#loop.drain(deadlineMs);
    let timer: NodeJS.Timeout | undefined;
    const deadline = new Promise<never>((_, reject) => {
      timer = setTimeout(
        () => reject(new Error('the registry did not answer in time')),
        Math.max(0, end - performance.now()),
      );
    });
    try {
      await Promise.race([this.#record(), deadline]);
    } catch (error) {
      this.#log.error('the last statistics could not be recorded', error);
    } finally {
      clearTimeout(timer);
    }
  }

  /** Rejects at the first failure; what had surely not been written is held again. */
  async #record(): Promise<void> {
    const deltas = this.#held.take();
    for (let done = 0; done < deltas.length; done += limits.statsBatchMax) {
      try {
        await this.#registry.addStats(deltas.slice(done, done + limits.statsBatchMax));
      } catch (error) {
        const perhapsWritten = error instanceof StoreError && error.failure.kind === 'unknown';
        this.add(deltas.slice(perhapsWritten ? done + limits.statsBatchMax : done));
        throw error;
      }
    }
  }
}
