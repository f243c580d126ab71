// Reports the cost and the running work of a worker to the master at every tick.

import { monotonicNow } from '../runtime/time.ts';
import type { OwnProcess } from './own-process.ts';

/** Returns the function for each tick. */
export function reporter(
  { channel, usage }: Pick<OwnProcess, 'channel' | 'usage'>,
  inFlight: () => number,
): () => void {
  let before = usage().cpuMs;
  let at = monotonicNow();
  return () => {
    const { cpuMs: used, rssBytes } = usage();
    const now = monotonicNow();
    const cpuMs = used - before;
    const cpuPercent = Math.round((cpuMs * 1_000) / (now - at)) / 10;
    before = used;
    at = now;
    channel.send({ kind: 'report', report: { inFlight: inFlight(), rssBytes, cpuPercent, cpuMs } });
  };
}
