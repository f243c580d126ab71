// Shows the progress of long work: a bar on a terminal, else a line every cliLimits.progressEveryMs in
// which something happened. Writes to stderr alone. Its timer does not keep the process alive.

import cliProgress from 'cli-progress';
import { clearInterval, setInterval } from '../../runtime/time.ts';
import { cliLimits } from '../limits.ts';
import { say } from './output.ts';

export interface Progress {
  add(n: number): void;
  /** Removes the bar. The caller prints the result. */
  stop(): void;
}

/** `done`: a participle, as in "120 of 4000 requeued". `total`: null = unknown. */
export function startProgress(done: string, total: number | null): Progress {
  return process.stderr.isTTY ? bar(done, total) : lines(done, total);
}

function bar(done: string, total: number | null): Progress {
  const known = `{bar} {percentage}%  {value} of {total} ${done}  {eta_formatted}`;
  const format = total === null ? `{value} ${done}` : known;
  const shown = new cliProgress.SingleBar(
    { format, stream: process.stderr, clearOnComplete: true, hideCursor: true, etaBuffer: 20 },
    cliProgress.Presets.shades_classic,
  );
  shown.start(total ?? 0, 0);
  let value = 0;
  return {
    add(n) {
      value += n;
      // New items appeared after the count.
      if (total === null || value > shown.getTotal()) shown.setTotal(value);
      shown.update(value);
    },
    stop: () => shown.stop(),
  };
}

function lines(done: string, total: number | null): Progress {
  let value = 0;
  let said: number | null = null;
  const timer = setInterval(() => {
    if (value === said) return;
    said = value;
    say(`dq: ${value}${total === null ? '' : ` of ${total}`} ${done}`);
  }, cliLimits.progressEveryMs);
  timer.unref();
  return {
    add: (n) => {
      value += n;
    },
    stop: () => clearInterval(timer),
  };
}
