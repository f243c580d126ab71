// One endless loop, the shape of every agent: step, sleep, step. Owns the sleeping, the waking and the survival:
// a loop never ends on an exception, never sleeps longer than limits.loopSleepMsMax in one piece, and forgets no wake-up.

import { limits } from '../core/limits.ts';
import type { Service } from './service.ts';

export interface LoopOptions {
  readonly name: string;
  /** Does one piece of work; answers how long to sleep (ms; 0 = go on at once, after other events had their turn). */
  readonly step: () => Promise<number>;
  /** Told of every exception of a step; the loop then waits failureWaitMs. */
  readonly onFailure: (error: unknown) => void;
  readonly failureWaitMs?: number;
}

export class Loop implements Service {
  readonly #options: LoopOptions;
  #draining = false;
  #woken = false;
  #interrupt: (() => void) | null = null;
  #ended: Promise<void> | null = null;

  constructor(options: LoopOptions) {
    this.#options = options;
  }

  get name(): string {
    return this.#options.name;
  }

  async start(): Promise<void> {
    this.#ended ??= this.#run();
  }

  /** Cuts the current sleep short; during a step it cancels the sleep that would follow. */
  wake(): void {
    this.#woken = true;
    this.#interrupt?.();
  }

  /** No further step begins; resolves when the current one has ended (or deadlineMs has passed). */
  async drain(deadlineMs: number): Promise<void> {
    this.#draining = true;
    this.wake();
    if (this.#ended === null) return;
    let timer: NodeJS.Timeout | undefined;
    const deadline = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, deadlineMs);
    });
    await Promise.race([this.#ended, deadline]);
    clearTimeout(timer);
  }

  async #run(): Promise<void> {
    while (!this.#draining) {
      this.#woken = false;
      let waitMs: number;
      try {
        waitMs = await this.#options.step();
      } catch (error) {
        this.#options.onFailure(error);
        waitMs = this.#options.failureWaitMs ?? 200;
        this.#woken = false;
      }
      if (!this.#draining && !this.#woken) await this.#sleep(waitMs);
      else await new Promise<void>((resolve) => setImmediate(resolve));
    }
  }

  #sleep(waitMs: number): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        this.#interrupt = null;
        clearTimeout(timer);
        resolve();
      };
      const timer = setTimeout(done, Math.min(Math.max(waitMs, 0), limits.loopSleepMsMax));
      this.#interrupt = done;
    });
  }
}

/** A step for what is done more rarely than a loop turns, which is once a second at least: `work` begins once in `everyMs`, also when
 *  it rejects; for the first time at the first turn, or everyMs later. */
export function onceIn(
  everyMs: number,
  work: () => Promise<void>,
  first: 'at once' | 'later' = 'at once',
): () => Promise<number> {
  let nextAt: number | null = null;
  return async () => {
    nextAt ??= performance.now() + (first === 'later' ? everyMs : 0);
    const waitMs = nextAt - performance.now();
    if (waitMs > 0) return waitMs;
    nextAt = performance.now() + everyMs;
    await work();
    return everyMs;
  };
}
