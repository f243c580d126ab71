// Adds the counters of all processes to the registry every countersToRegistryMs. While the registry is
// unavailable it keeps up to statsHeldMax of them; at the drain it writes the rest to the registry or to disk
// (stat-files.ts).
// Invariant: counters that may have been written are not written again. After a failure statistics may be too
// low, never too high.

import { messageOf } from '../core/errors.ts';
import type { Registry, StatDelta } from '../ports/registry.ts';
import { StoreError } from '../ports/store-error.ts';
import { StatBuffer } from '../process/senders.ts';
import type { StatFiles } from '../process/stat-files.ts';
import { Agent } from '../runtime/loop.ts';
import { monotonicNow } from '../runtime/time.ts';
import { within } from '../runtime/timeout.ts';
import type { Log } from '../telemetry/log.ts';
import { upkeepLimits } from './limits.ts';

export class StatsRecorder extends Agent {
  readonly #registry: Registry;
  readonly #log: Log;
  readonly #files: Pick<StatFiles, keyof StatFiles>;
  readonly #held = new StatBuffer(upkeepLimits.statsHeldMax);
  /** reason of the disk failure that was logged last */
  #loggedReason = '';
  #drained: Promise<void> | null = null;

  constructor(registry: Registry, log: Log, files: Pick<StatFiles, keyof StatFiles>) {
    super({
      log,
      failure: 'stats-recorder: cannot record statistics',
      end: 'stats-recorder: statistics are recorded again',
      work: () => this.#recordAll(),
      everyMs: upkeepLimits.countersToRegistryMs,
      first: 'later',
    });
    this.#registry = registry;
    this.#log = log;
    this.#files = files;
  }

  /** Adds the counters of one `counters` message. */
  add(deltas: readonly StatDelta[]): void {
    for (const delta of deltas) this.#held.addDelta(delta);
  }

  override async start(): Promise<void> {
    const copied = await this.#readDisk(this.#files.copied(), []);
    if (copied.length > 0)
      this.#log.notice(
        'stats-recorder: ignores statistics copied from another data directory; remove the files',
        { files: copied },
      );
    await super.start();
  }

  override drain(deadlineMs: number): Promise<void> {
    this.#drained ??= this.#finish(deadlineMs);
    return this.#drained;
  }

  async #recordAll(): Promise<void> {
    // First: a failure of the registry skips the following lines.
    const dropped = this.#held.takeDropped();
    if (dropped > 0) this.#log.error('stats-recorder: dropped statistics', undefined, { dropped });
    await this.#record();
    await this.#recordKept();
  }

  async #finish(deadlineMs: number): Promise<void> {
    const end = monotonicNow() + deadlineMs;
    await super.drain(deadlineMs);
    try {
      // No further attempt after a failure: counters of a call that is cut off may have been written and
      // would be lost.
      if (this.isFailing || monotonicNow() >= end) throw new Error('the registry does not answer');
      await within(
        end - monotonicNow(),
        this.#record(),
        () => new Error('the registry did not answer in time'),
      );
    } catch (error) {
      await this.#keep(error);
    }
  }

  /** Writes the counters to disk for the next start. */
  async #keep(reason: unknown): Promise<void> {
    const left = this.#held.take();
    if (left.length === 0) {
      if (!this.isFailing) this.#log.error('stats-recorder: cannot record the last statistics', reason);
      return;
    }
    try {
      await this.#files.write(left);
      this.#log.notice('stats-recorder: wrote the statistics to the data directory for the next start');
    } catch (error) {
      this.#log.error('stats-recorder: lost the last statistics', error);
    }
  }

  /** Records counters that earlier processes wrote to disk. They stay there until the registry answers. */
  async #recordKept(): Promise<void> {
    if (await this.#readDisk(this.#files.isEmpty(), true)) return;
    await this.#registry.stats('', 0);
    const take = () => this.#readDisk(this.#files.take(), []);
    for (let kept = await take(); kept.length > 0; kept = await take()) {
      this.add(kept);
      await this.#record();
    }
  }

  /** Logs a disk failure once; it does not count as a failure of the registry. */
  async #readDisk<T>(reading: Promise<T>, otherwise: T): Promise<T> {
    try {
      return await reading;
    } catch (error) {
      const reason = messageOf(error);
      if (reason !== this.#loggedReason)
        this.#log.error('stats-recorder: cannot read statistics from disk', error);
      this.#loggedReason = reason;
      return otherwise;
    }
  }

  /** Rejects at the first failure; counters that were surely not written are kept. */
  async #record(): Promise<void> {
    // Counters that arrive meanwhile wait for the next call: a slow registry must not prolong this one.
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
