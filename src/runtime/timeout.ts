// timeout.ts bounds the time that a caller waits for a promise. The work itself goes on; a late rejection of
// it is ignored.

import { clearTimeout, setTimeout, type Timer as TimerHandle } from './time.ts';
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
