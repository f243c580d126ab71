// Adds the counters of all processes to the registry every limits.countersToRegistryMs. Keeps them while the registry is
// away, up to upkeepLimits.statsHeldMax, and flushes at the drain; what cannot be recorded then waits on the disk (stat-files.ts). Never
// counts anything twice: what may have been written is not written again, so statistics can be short after a failure and are never
// too high.

import { reasonOf } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import { StoreError } from '../ports/job-store.ts';
import type { Registry, StatDelta } from '../ports/registry.ts';
import { StatBuffer } from '../process/stat-buffer.ts';
import type { StatFiles } from '../process/stat-files.ts';
import { Loop, onceIn } from '../runtime/loop.ts';
import type { Service } from '../runtime/service.ts';
import type { Log } from '../telemetry/log.ts';
import { upkeepLimits } from './limits.ts';

export class StatsRecorder implements Service {
  readonly #registry: Registry;
  readonly #log: Log;
  readonly #files: StatFiles;
  readonly #held = new StatBuffer(upkeepLimits.statsHeldMax);
  readonly #loop: Loop;
  #failing = false;
  /** what was said last of the disk */
  #toldOfDisk = '';
  #drained: Promise<void> | null = null;

  constructor(registry: Registry, log: Log, files: StatFiles) {
    this.#registry = registry;
    this.#log = log;
    this.#files = files;
    this.#loop = new Loop({
      name: 'stats-recorder',
      step: onceIn(limits.countersToRegistryMs, () => this.#recordAll(), 'later'),
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
    const copied = await this.#ofDisk(this.#files.copied(), []);
    if (copied.length > 0)
      this.#log.notice(
        'statistics that were copied from another data directory are not recorded; remove the files',
        { files: copied },
      );
    await this.#loop.start();
  }

  drain(deadlineMs: number): Promise<void> {
    this.#drained ??= this.#finish(deadlineMs);
    return this.#drained;
  }

  async #recordAll(): Promise<void> {
    // First: while nothing can be recorded nobody gets to the lines after it.
    const dropped = this.#held.takeDropped();
    if (dropped > 0) this.#log.error('statistics were dropped', undefined, { counts: dropped });
    await this.#record();
    await this.#recordKept();
    if (this.#failing) this.#log.notice('statistics are being recorded again');
    this.#failing = false;
  }

  async #finish(deadlineMs: number): Promise<void> {
    const end = performance.now() + deadlineMs;
    await this.#loop.drain(deadlineMs);
    try {
      // What could not be recorded a moment ago need not be tried once more: what is under way when the time is over may have been
      // done, and is lost then.
      if (this.#failing || performance.now() >= end) throw new Error('the registry does not answer');
      await within(this.#record(), end - performance.now());
    } catch (error) {
      await this.#keep(error);
    }
  }

  /** For the next start. */
  async #keep(reason: unknown): Promise<void> {
    const left = this.#held.take();
    if (left.length === 0) {
      if (!this.#failing) this.#log.error('the last statistics could not be recorded', reason);
      return;
    }
    try {
      await this.#files.write(left);
      this.#log.notice(
        'statistics wait in the data directory for the next start: they cannot be recorded now',
      );
    } catch (error) {
      this.#log.error('the last statistics are lost: they can neither be recorded nor kept', error);
    }
  }

  /** What earlier ends have left. It stays on the disk as long as the registry does not answer. */
  async #recordKept(): Promise<void> {
    if (await this.#ofDisk(this.#files.isEmpty(), true)) return;
    await this.#registry.stats('', 0);
    const take = () => this.#ofDisk(this.#files.take(), []);
    for (let kept = await take(); kept.length > 0; kept = await take()) {
      this.add(kept);
      await this.#record();
    }
  }

  /** A disk that fails is told of once, and is no failure of the registry. */
  async #ofDisk<T>(reading: Promise<T>, otherwise: T): Promise<T> {
    try {
      return await reading;
    } catch (error) {
      const told = reasonOf(error);
      if (told !== this.#toldOfDisk)
        this.#log.error('statistics that an earlier end has left cannot be read', error);
      this.#toldOfDisk = told;
      return otherwise;
    }
  }

  /** Rejects at the first failure; what had surely not been written is held again. */
  async #record(): Promise<void> {
    // What comes meanwhile is for the next time: a slow registry must not keep this from its end.
    for (let left = this.#held.size; left > 0; left -= upkeepLimits.statsBatchMax) {
      const deltas = this.#held.take(upkeepLimits.statsBatchMax);
      try {
        await this.#registry.addStats(deltas);
      } catch (error) {
        const perhapsWritten = error instanceof StoreError && error.failure.kind === 'unknown';
        if (!perhapsWritten) this.add(deltas);
        throw error;
      }
    }
  }
}

/** Rejects when it takes longer; it goes on then. */
async function within(work: Promise<void>, waitMs: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error('the registry did not answer in time')), Math.max(0, waitMs));
  });
  try {
    await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}
