// How far long work is: a bar on a terminal, a line every cliLimits.progressEveryMs elsewhere. Writes to stderr alone; data never
// passes through here. Its timer holds no process open.

import cliProgress from 'cli-progress';
import { cliLimits } from '../limits.ts';
import { say } from './output.ts';

export interface Progress {
  add(n: number): void;
  /** Takes the bar away. Whoever started it says the result. */
  stop(): void;
}

/** `done`: what happens to each, as in "120 of 4000 requeued". `total`: null when nobody knows. */
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
      // More than were counted came to be while they were being worked on.
      if (total === null || value > shown.getTotal()) shown.setTotal(value);
      shown.update(value);
    },
    stop: () => shown.stop(),
  };
}

function lines(done: string, total: number | null): Progress {
  let value = 0;
  const timer = setInterval(() => {
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
