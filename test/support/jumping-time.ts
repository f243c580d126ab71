// Time that goes on as the machine's and jumps where a test says so, instead of waiting. For the code of dq a
// jump is as a pause of the process: timers that are due run once.

import { setImmediate as turn } from 'node:timers/promises';
import { onTestFinished } from 'vitest';
import { type Run, systemSource, type Timer, useTimeSource } from '../../src/runtime/time.ts';
import { until } from './until.ts';

export interface JumpingTime {
  /** The storage clock of a store that jumps, too. */
  readonly wall: () => number;
  /** Resolves when the timers that are due have run. */
  jump(ms: number): Promise<void>;
  /** As until(), and time jumps before each look: for waits whose begin a test does not see. */
  passUntil<T>(what: string, look: () => T | Promise<T>, stepMs?: number): Promise<NonNullable<T>>;
  /** Time jumps until `work` has ended. */
  outlast<T>(work: Promise<T>, stepMs?: number): Promise<T>;
}

/** For this test, whose stores and roles start after it. */
export function useJumpingTime(): JumpingTime {
  let shift = 0;
  const timers = new Set<JumpingTimer>();
  const now = () => performance.now() + shift;
  const wall = () => Date.now() + shift;
  const start = (run: Run, ms: number, repeats: boolean) =>
    new JumpingTimer({ timers, now, run, ms, repeats });
  // Values that a process keeps once hold no timer of another test.
  const scope = {};
  useTimeSource({
    ...systemSource,
    now,
    wall,
    scope: () => scope,
    setTimeout: (run, ms) => start(run, ms, false),
    setInterval: (run, ms) => start(run, ms, true),
    clearTimeout: (timer) =>
      timer instanceof JumpingTimer ? timer.clear() : systemSource.clearTimeout(timer),
    sleep: (ms, { signal } = {}) =>
      new Promise((resolve, reject) => {
        if (signal?.aborted === true) return reject(signal.reason);
        const timer = start(resolve, ms, false);
        const onAbort = () => {
          timer.clear();
          reject(signal?.reason);
        };
        return signal?.addEventListener('abort', onAbort, { once: true });
      }),
    timeoutSignal: (ms) => {
      const controller = new AbortController();
      start(() => controller.abort(new DOMException('timed out', 'TimeoutError')), ms, false).unref();
      return controller.signal;
    },
  });
  onTestFinished(() => useTimeSource(null));
  const jump = async (ms: number) => {
    shift += ms;
    const due = [...timers].sort((a, b) => a.at - b.at).map((timer) => timer.arm());
    const at = now();
    while (due.some((timer) => timers.has(timer) && timer.at <= at)) await turn();
  };
  const passUntil = <T>(what: string, look: () => T | Promise<T>, stepMs = 250) =>
    until(what, async () => {
      await jump(stepMs);
      return look();
    });
  return {
    ...{ wall, jump, passUntil },
    async outlast(work, stepMs) {
      let isOver = false;
      const end = () => {
        isOver = true;
      };
      work.then(end, end);
      await passUntil('the end of the work', () => isOver, stepMs);
      return work;
    },
  };
}

interface JumpingTimerOptions {
  readonly timers: Set<JumpingTimer>;
  readonly now: () => number;
  readonly run: Run;
  readonly ms: number;
  readonly repeats: boolean;
}

class JumpingTimer implements Timer {
  readonly #options: JumpingTimerOptions;
  #timeout: NodeJS.Timeout | undefined;
  #isRef = true;
  at = 0;

  constructor(options: JumpingTimerOptions) {
    this.#options = options;
    this.refresh();
  }

  refresh(): this {
    const { now, ms, timers } = this.#options;
    this.at = now() + Math.max(ms, 1);
    timers.add(this);
    return this.arm();
  }

  /** Waits for the rest of its time. */
  arm(): this {
    clearTimeout(this.#timeout);
    this.#timeout = setTimeout(() => this.#fire(), Math.max(0, this.at - this.#options.now()));
    if (!this.#isRef) this.#timeout.unref();
    return this;
  }

  #fire(): void {
    const { timers, run, repeats } = this.#options;
    timers.delete(this);
    if (repeats) this.refresh();
    run();
  }

  clear(): void {
    clearTimeout(this.#timeout);
    this.#options.timers.delete(this);
  }

  ref(): this {
    this.#isRef = true;
    this.#timeout?.ref();
    return this;
  }

  unref(): this {
    this.#isRef = false;
    this.#timeout?.unref();
    return this;
  }

  hasRef = (): boolean => this.#isRef;
}
