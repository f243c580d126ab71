// Refreshes a cache of the registry: every pollMs, and at once after a change hint.
// Owns the loop, the hint and the log lines of failures; a subclass owns what is cached. A process starts
// without its registry: the loop keeps trying.

import type { Registry } from '../ports/registry.ts';
import { FailureLog } from '../runtime/failure-log.ts';
import { isDue, Loop, turnAfter } from '../runtime/loop.ts';
import type { Service } from '../runtime/service.ts';
import { monotonicNow } from '../runtime/time.ts';
import type { Log } from '../telemetry/log.ts';
import { registryLimits } from './limits.ts';

interface RegistryCacheOptions {
  readonly registry: Registry;
  readonly log: Log;
  /** the cached things, for log lines: "topics" */
  readonly what: string;
  /** of things whose changes are not all announced, instead of Registry.pollMs */
  readonly pollMs?: number;
}

export abstract class RegistryCache implements Service {
  readonly #options: RegistryCacheOptions;
  readonly #loop: Loop;
  #failure: unknown = null;
  /** monotonicNow() of the next refresh */
  #nextAt = 0;
  #unsubscribe: (() => void) | null = null;

  constructor(options: RegistryCacheOptions) {
    const { log, what, registry } = options;
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
        await this.refreshInTurn();
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

  /** Reads the registry once; rejects when it is unavailable. */
  abstract refresh(): Promise<void>;

  /** The refresh of the loop. */
  protected refreshInTurn(): Promise<void> {
    return this.refresh();
  }

  /** Error of the last refresh; null: it succeeded. */
  get failure(): unknown {
    return this.#failure;
  }

  /** Reads the registry once, if it is available, then polls. */
  async start(): Promise<void> {
    const { registry } = this.#options;
    this.#unsubscribe = registry.onChange(() => {
      this.#nextAt = 0;
      this.#loop.wake();
    });
    try {
      await this.refreshInTurn();
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

/** The revision of a list that is always read whole. */
export class ReadRevision {
  #value = -1;

  /** `since` of the next read */
  get value(): number {
    return this.#value;
  }

  /** Whether an answer to a read since `since` comes into force. */
  accepts(revision: number, since: number): boolean {
    // A lower revision than before the call: the registry was restored. Later removals must apply here too.
    const wentBack = revision < since && this.#value === since;
    // Refreshes may overtake each other: an older answer must not bring a removed entry back.
    if (revision <= this.#value && !wentBack) return false;
    this.#value = revision;
    return true;
  }
}
