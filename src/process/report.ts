// Reports the cost and the running work of a worker to the master at every tick.

import { monotonicNow } from '../runtime/time.ts';
import type { MasterLink } from './role.ts';

/** Returns the function for each tick. */
export function reporter(link: MasterLink, inFlight: () => number): () => void {
  let cpu = process.cpuUsage();
  let at = monotonicNow();
  return () => {
    const used = process.cpuUsage(cpu);
    const now = monotonicNow();
    const cpuMs = (used.user + used.system) / 1_000;
    const cpuPercent = Math.round((cpuMs * 1_000) / (now - at)) / 10;
    cpu = process.cpuUsage();
    at = now;
    const rssBytes = process.memoryUsage.rss();
    link.send({ kind: 'report', report: { inFlight: inFlight(), rssBytes, cpuPercent, cpuMs } });
  };
}
