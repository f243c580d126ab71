// timeout.ts bounds the time that a caller waits for a promise, and waits for time in which this process
// runs. The awaited work itself goes on; a late rejection of it is ignored.

import { clearInterval, clearTimeout, setInterval, setTimeout, type Timer as TimerHandle } from './time.ts';

/** Settles as `work` does, or rejects with `late()` after `ms`. The timer ends with `work`. */
export async function within<T>(ms: number, work: Promise<T>, late: () => Error): Promise<T> {
  const timer = new Timer(ms);
  try {
    return await Promise.race([
      work,
      timer.over.then(() => {
        throw late();
      }),
    ]);
  } finally {
    timer.clear();
  }
}

/** Settles as `work` does, or resolves with `otherwise` after `ms`. */
export async function orAfter<T, U>(ms: number, work: Promise<T>, otherwise: U): Promise<T | U> {
  const timer = new Timer(ms);
  try {
    return await Promise.race([work, timer.over.then(() => otherwise)]);
  } finally {
    timer.clear();
  }
}

class Timer {
  readonly over: Promise<void>;
  #timer: TimerHandle | undefined;

  constructor(ms: number) {
    this.over = new Promise((resolve) => {
      this.#timer = setTimeout(resolve, Math.max(0, ms));
    });
  }

  clear(): void {
    clearTimeout(this.#timer);
  }
}

const slices = 10;

export interface RunningTimer {
  /** Starts again; nothing once it has called or is cleared. */
  refresh(): void;
  clear(): void;
  /** It does not keep the process alive. */
  unref(): void;
}

/** Calls `late` once, after `ms` of running time. Of a pause of the process or of the machine one slice
 *  counts, so a deadline that others must meet does not end with the pause that held them up, too. */
export function afterRunning(ms: number, late: () => void): RunningTimer {
  let left = slices;
  const timer = setInterval(() => {
    left -= 1;
    if (left > 0) return;
    clear();
    late();
  }, ms / slices);
  const clear = (): void => {
    left = 0;
    clearInterval(timer);
  };
  return {
    refresh: () => {
      if (left === 0) return;
      left = slices;
      timer.refresh();
    },
    clear,
    unref: () => void timer.unref(),
  };
}
