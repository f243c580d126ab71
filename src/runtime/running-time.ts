// running-time.ts waits for time in which this process runs. Of a pause of the process or of the machine one
// slice counts, so a deadline that others must meet does not end with the pause that held them up, too.

const slices = 10;

export interface RunningTimer {
  /** starts again */
  refresh(): void;
  clear(): void;
}

/** Calls `late` once, after `ms` of running time. */
export function afterRunning(ms: number, late: () => void): RunningTimer {
  let left = slices;
  const timer = setInterval(() => {
    left -= 1;
    if (left > 0) return;
    clearInterval(timer);
    late();
  }, ms / slices);
  return {
    refresh: () => {
      left = slices;
    },
    clear: () => clearInterval(timer),
  };
}
