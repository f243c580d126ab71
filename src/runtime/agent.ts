// Agent does one kind of work again and again: a loop that logs one line when the work begins to fail, and
// one when it succeeds again. Invariant: an agent that fails or waits stops no other agent.

import { limits } from '../core/limits.ts';
import { type FailureLines, FailureLog, type FailureMessages } from './failure-log.ts';
import { Loop, onceIn } from './loop.ts';
import type { Service } from './service.ts';

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
