// running-time.ts waits for time in which this process runs. Of a pause of the process or of the machine one
// slice counts, so a deadline that others must meet does not end with the pause that held them up, too.

import { clearInterval, setInterval } from './time.ts';

const slices = 10;

export interface RunningTimer {
  /** Starts again; nothing once it has called or is cleared. */
  refresh(): void;
  clear(): void;
  /** It does not keep the process alive. */
  unref(): void;
}

/** Calls `late` once, after `ms` of running time. */
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
