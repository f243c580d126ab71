// Refreshes a cache of the registry: every pollMs, and at once after a change hint.
// Owns the loop, the hint and the log lines of failures; the caller owns the cache. A process starts without
// its registry: the loop keeps trying.

import type { Registry } from '../ports/registry.ts';
import { FailureLog } from '../runtime/failure-log.ts';
import { isDue, Loop, turnAfter } from '../runtime/loop.ts';
import type { Service } from '../runtime/service.ts';
import { monotonicNow } from '../runtime/time.ts';
import type { Log } from '../telemetry/log.ts';
import { registryLimits } from './limits.ts';

export interface RegistryPollOptions {
  readonly registry: Registry;
  readonly log: Log;
  /** the cached things, for log lines: "topics" */
  readonly what: string;
  /** reads the registry once; rejects when it is unavailable */
  readonly refresh: () => Promise<void>;
  /** of things whose changes are not all announced, instead of Registry.pollMs */
  readonly pollMs?: number;
}

export class RegistryPoll implements Service {
  readonly #options: RegistryPollOptions;
  readonly #loop: Loop;
  #failure: unknown = null;
  /** monotonicNow() of the next refresh */
  #nextAt = 0;
  #unsubscribe: (() => void) | null = null;

  constructor(options: RegistryPollOptions) {
    const { log, what, refresh, registry } = options;
    const { pollMs = registry.pollMs ?? registryLimits.registryPollMs } = options;
    this.#options = options;
    const failures = new FailureLog(log, {
      failure: `registry: cannot refresh ${what}; the last known ones stay in force`,
      end: `registry: ${what} refreshed again`,
    });
    this.#loop = new Loop({
      step: async () => {
        if (!isDue(this.#nextAt, pollMs)) return this.#nextAt - monotonicNow();
        // Before the call: a hint during it asks for the next one.
        this.#nextAt = turnAfter(pollMs);
        await refresh();
        this.#failure = null;
        failures.succeeded();
        return pollMs;
      },
      onFailure: (error) => {
        this.#nextAt = 0;
        this.#failure = error;
        failures.failed(error);
      },
      failureWaitMs: registryLimits.registryPollMs,
    });
  }

  /** Error of the last refresh; null: it succeeded. */
  get failure(): unknown {
    return this.#failure;
  }

  /** Reads the registry once, if it is available, then polls. */
  async start(): Promise<void> {
    const { registry, refresh } = this.#options;
    this.#unsubscribe = registry.onChange(() => {
      this.#nextAt = 0;
      this.#loop.wake();
    });
    try {
      await refresh();
    } catch (error) {
      // The loop tries again and logs.
      this.#failure = error;
    }
    await this.#loop.start();
  }

  async drain(deadlineMs: number): Promise<void> {
    this.#unsubscribe?.();
    await this.#loop.drain(deadlineMs);
  }
}
