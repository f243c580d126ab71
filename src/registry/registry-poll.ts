// The beat by which a process keeps fresh what it knows of the registry: every registryLimits.registryPollMs, and at once when the
// registry hints a change. Owns the loop, the hint and what the log says of failures; what is known, and what an answer changes
// of it, is the caller's. A process starts without its registry: the loop goes on trying.

import type { Registry } from '../ports/registry.ts';
import { Loop } from '../runtime/loop.ts';
import type { Service } from '../runtime/service.ts';
import type { Log } from '../telemetry/log.ts';
import { registryLimits } from './limits.ts';

export interface RegistryPollOptions {
  readonly registry: Registry;
  readonly log: Log;
  /** what is kept fresh, in log lines: "topics" */
  readonly what: string;
  /** reads the registry once; rejects when it cannot be reached */
  readonly refresh: () => Promise<void>;
}

export class RegistryPoll implements Service {
  readonly #options: RegistryPollOptions;
  readonly #loop: Loop;
  #failing = false;
  #failure: unknown = null;
  #unsubscribe: (() => void) | null = null;

  constructor(options: RegistryPollOptions) {
    const { log, what, refresh } = options;
    this.#options = options;
    this.#loop = new Loop({
      name: `poll of ${what}`,
      step: async () => {
        await refresh();
        this.#failure = null;
        if (this.#failing) log.notice(`${what} are being refreshed again`);
        this.#failing = false;
        return registryLimits.registryPollMs;
      },
      onFailure: (error) => {
        this.#failure = error;
        if (!this.#failing)
          log.error(`${what} cannot be refreshed; the last known ones stay in force`, error);
        this.#failing = true;
      },
      failureWaitMs: registryLimits.registryPollMs,
    });
  }

  /** Of the last refresh; null = it succeeded. */
  get failure(): unknown {
    return this.#failure;
  }

  /** Has read the registry once, if it could be reached at all. */
  async start(): Promise<void> {
    const { registry, refresh } = this.#options;
    this.#unsubscribe = registry.onChange(() => this.#loop.wake());
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
