// Loop runs the steps of an agent: step, sleep, step. Agent does one kind of work again and again: a loop
// that logs one line when the work begins to fail, and one when it succeeds again.
// Invariants: a loop never ends on an exception, never sleeps longer than limits.loopSleepMsMax at once,
// loses no wake-up, never sleeps longer than its step said. An agent that fails or waits stops no other
// agent. The longest sleeps end with the beat of the process (second-ticker.ts), so that an idle process
// wakes once for all its loops.

import { limits } from '../core/limits.ts';
import { type FailureLines, FailureLog, type FailureMessages } from './failure-log.ts';
import { ticker } from './second-ticker.ts';
import type { Service } from './service.ts';
import { clearTimeout, monotonicNow, setImmediate, setTimeout } from './time.ts';
import { orAfter } from './timeout.ts';

interface LoopOptions {
  /** One piece of work; returns the sleep after it (ms; 0 = continue after pending events). */
  readonly step: () => Promise<number>;
  /** Called for every exception of a step; the loop then waits failureWaitMs. */
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

  async start(): Promise<void> {
    this.#ended ??= this.#run();
  }

  /** Ends the current sleep; during a step, cancels the sleep after it. */
  wake(): void {
    this.#woken = true;
    this.#interrupt?.();
  }

  /** Begins no further step; resolves when the current one has ended or after deadlineMs. */
  async drain(deadlineMs: number): Promise<void> {
    this.#draining = true;
    this.wake();
    if (this.#ended === null) return;
    await orAfter(deadlineMs, this.#ended, undefined);
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
        cancel();
        resolve();
      };
      const cancel = sleepAtMost(waitMs, done);
      this.#interrupt = done;
    });
  }
}

/** Work that is due within this time (ms) of a beat runs with it. */
const beatSlackMs = 50;

/** Whether work that begins once per `everyMs` begins now. `nextAt`: monotonicNow(); up to beatSlackMs
 *  early, and never by more than a tenth. */
export function isDue(nextAt: number, everyMs: number): boolean {
  return monotonicNow() >= nextAt - Math.min(beatSlackMs, everyMs / 10);
}

/** When such work begins again (monotonicNow()): after everyMs, or up to a second earlier, with a beat. */
export function turnAfter(everyMs: number): number {
  const { tickMs } = limits;
  return monotonicNow() + (everyMs < tickMs ? everyMs : everyMs - tickMs + ticker().leftMs);
}

/** Calls `done` after waitMs, or earlier: at the next beat of a long sleep. Returns how to cancel. */
function sleepAtMost(waitMs: number, done: () => void): () => void {
  if (waitMs >= limits.loopSleepMsMax - beatSlackMs && ticker().leftMs <= waitMs) return ticker().once(done);
  const timer = setTimeout(done, Math.min(Math.max(waitMs, 0), limits.loopSleepMsMax));
  return () => clearTimeout(timer);
}

/** A step for work that is rarer than the turns of a loop (at least one a second): `work` begins once per
 *  `everyMs`, up to beatSlackMs early, even when it rejects. `first`: at the first turn, or everyMs later. */
function onceIn(
  everyMs: number,
  work: () => Promise<void>,
  first: 'at once' | 'later' = 'at once',
): () => Promise<number> {
  let nextAt: number | null = null;
  return async () => {
    nextAt ??= monotonicNow() + (first === 'later' ? everyMs : 0);
    if (!isDue(nextAt, everyMs)) return nextAt - monotonicNow();
    nextAt = turnAfter(everyMs);
    await work();
    return everyMs;
  };
}

interface AgentLines extends FailureMessages {
  readonly log: FailureLines;
  /** Called before a failure is logged. */
  readonly onFailure?: () => void;
  /** Default: limits.loopSleepMsMax */
  readonly failureWaitMs?: number;
}

/** `step`: see LoopOptions · `turn`: a step that calls succeeded() itself, because not each one does the work
 *  · `work`: begins once per everyMs, see onceIn */
type Work =
  | { readonly step: () => Promise<number> }
  | { readonly turn: () => Promise<number> }
  | { readonly work: () => Promise<void>; readonly everyMs: number; readonly first?: 'at once' | 'later' };

export type AgentOptions = AgentLines & Work;

export class Agent implements Service {
  readonly #loop: Loop;
  readonly #failures: FailureLog;
  #isDraining = false;

  constructor({ log, onFailure, failureWaitMs = limits.loopSleepMsMax, ...options }: AgentOptions) {
    this.#failures = new FailureLog(log, options);
    this.#loop = new Loop({
      step: this.#stepOf(options),
      onFailure: (error) => {
        onFailure?.();
        this.failed(error);
      },
      failureWaitMs,
    });
  }

  /** Whether the last work has failed. */
  get isFailing(): boolean {
    return this.#failures.isFailing;
  }

  protected get isDraining(): boolean {
    return this.#isDraining;
  }

  start(): Promise<void> {
    return this.#loop.start();
  }

  wake(): void {
    this.#loop.wake();
  }

  drain(deadlineMs: number): Promise<void> {
    this.#isDraining = true;
    return this.#loop.drain(deadlineMs);
  }

  protected succeeded(): void {
    this.#failures.succeeded();
  }

  /** Logs a failure that the loop does not see, as one of the work. */
  protected failed(error: unknown): void {
    this.#failures.failed(error);
  }

  #stepOf(options: Work): () => Promise<number> {
    if ('turn' in options) return options.turn;
    const ending = async <T>(work: () => Promise<T>): Promise<T> => {
      const result = await work();
      this.succeeded();
      return result;
    };
    if ('step' in options) return () => ending(options.step);
    return onceIn(options.everyMs, () => ending(options.work), options.first);
  }
}
