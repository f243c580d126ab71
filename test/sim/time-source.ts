// Time, timers and chance of the code of dq in a simulated world.
// Invariant: a timer belongs to the process that runs when it is set; code that sets one outside every
// process throws.

import type { Run, SleepOptions, Timer, TimeSource } from '../../src/runtime/time.ts';
import type { SimEvent } from './event-queue.ts';
import { type Loop, phases } from './loop.ts';
import type { Process, WaitingImmediate } from './process.ts';

/** monotonicNow() of a process at its birth: Node has started, and loaded its code. */
const startMs = 40;
/** The longest wait of Node's timers; a longer one becomes 1 ms. */
const timerMsMax = 2_147_483_647;

export function timeSourceOf(loop: Loop): TimeSource {
  const fill = (bytes: Uint8Array): void => {
    for (let i = 0; i < bytes.length; i += 1) bytes[i] = loop.dice.below(256);
  };
  const start = (run: Run, ms: number, repeats: boolean) =>
    new SimTimer({ loop, process: running(loop), run, ms, repeats });
  const immediate = (run: Run): WaitingImmediate => {
    const process = running(loop);
    const entry: WaitingImmediate = { run, isCancelled: false, ref: () => entry, unref: () => entry };
    if (process.immediates.length === 0) loop.turnSoon(process);
    process.immediates.push(entry);
    return entry;
  };
  return {
    now: () => loop.at - (loop.current?.bornAt ?? 0) + startMs,
    origin: () => (loop.current?.wallAtBirth ?? 0) - startMs,
    wall: () => loop.wall,
    setTimeout: (run, ms) => start(run, ms, false),
    setInterval: (run, ms) => start(run, ms, true),
    clearTimeout: (timer) => (timer as SimTimer).clear(),
    setImmediate: immediate,
    clearImmediate: (entry) => {
      (entry as WaitingImmediate).isCancelled = true;
    },
    sleep: (ms, options) => sleep(start, ms, options),
    turn: () => new Promise((resolve) => void immediate(resolve)),
    timeoutSignal: (ms) => {
      const controller = new AbortController();
      start(() => controller.abort(new DOMException('timed out', 'TimeoutError')), ms, false);
      return controller.signal;
    },
    random: () => loop.dice.next(),
    fill,
    bytes: (count) => {
      const bytes = Buffer.alloc(count);
      fill(bytes);
      return bytes;
    },
    int: (min, max) => min + loop.dice.below(max - min),
    scope: () => loop.current?.scope ?? loop,
  };
}

/** Time stands still. */
export function frozenSourceOf(loop: Loop): TimeSource {
  const timer: Timer = { ref: () => timer, unref: () => timer, hasRef: () => false, refresh: () => timer };
  const immediate = { ref: () => immediate, unref: () => immediate };
  const never = () => new Promise<never>(() => {});
  return {
    ...timeSourceOf(loop),
    setTimeout: () => timer,
    setInterval: () => timer,
    clearTimeout() {},
    setImmediate: () => immediate,
    clearImmediate() {},
    sleep: never,
    turn: never,
    timeoutSignal: () => new AbortController().signal,
  };
}

/** Libraries set the timers of Node: within a world these are those of the world. Returns what ends that. */
export function replaceTimers({ setTimeout, clearTimeout }: TimeSource): () => void {
  const own = { setTimeout: globalThis.setTimeout, clearTimeout: globalThis.clearTimeout };
  const replaced = {
    setTimeout: (run: (...given: unknown[]) => void, ms = 0, ...given: unknown[]) =>
      setTimeout(() => run(...given), ms),
    clearTimeout: (timer: Timer | null | undefined) => {
      if (timer !== null && timer !== undefined) clearTimeout(timer);
    },
  };
  Object.assign(globalThis, replaced);
  return () => void Object.assign(globalThis, own);
}

function running({ current }: Loop): Process {
  if (current === null) throw new Error('code of dq sets a timer outside an event of a process');
  return current;
}

function sleep(
  start: (run: Run, ms: number, repeats: boolean) => SimTimer,
  ms: number,
  { signal }: SleepOptions = {},
): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted === true) {
      reject(signal.reason);
      return;
    }
    const end = () => {
      signal?.removeEventListener('abort', onAbort);
      resolve();
    };
    const timer = start(end, ms, false);
    const onAbort = () => {
      timer.clear();
      reject(signal?.reason);
    };
    signal?.addEventListener('abort', onAbort, { once: true });
  });
}

interface SimTimerOptions {
  readonly loop: Loop;
  readonly process: Process;
  readonly run: Run;
  readonly ms: number;
  readonly repeats: boolean;
}

class SimTimer implements Timer {
  readonly #options: SimTimerOptions;
  readonly #ms: number;
  #event: SimEvent | null = null;

  constructor(options: SimTimerOptions) {
    const { ms } = options;
    this.#options = options;
    this.#ms = ms >= 1 && ms <= timerMsMax ? Math.trunc(ms) : 1;
    this.#arm();
  }

  clear(): void {
    if (this.#event !== null) this.#event.isCancelled = true;
    this.#event = null;
  }

  refresh(): this {
    this.clear();
    this.#arm();
    return this;
  }

  ref(): this {
    return this;
  }

  unref(): this {
    return this;
  }

  hasRef(): boolean {
    return true;
  }

  #arm(): void {
    const { loop, process, run, repeats } = this.#options;
    const { dice } = process;
    // Node's timers run up to 1 ms early by performance.now(), and late on a busy machine.
    const early = dice.next();
    const late = dice.next() * (dice.chance(0.05) ? 8 : 0.3);
    const fire = () => {
      this.#event = null;
      if (repeats) this.#arm();
      run();
    };
    const at = loop.at + Math.max(0.2, this.#ms - early + late);
    this.#event = loop.schedule(process, at, 'timer', fire, phases.timer);
  }
}
