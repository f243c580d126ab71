// Describes the master's own process for the process table: memory, and processor time since the last tick.

import { limits } from '../core/limits.ts';
import { version } from '../core/version.ts';
import type { ProcessInfo } from '../process/messages.ts';
import type { SecondTicker } from '../runtime/second-ticker.ts';
import { masterTitle } from './workers/process-table.ts';

/** Returns a function that reads the current values. `daemon`: state and generation of the daemon. */
export function selfInfo(
  startedAt: number,
  ticker: SecondTicker,
  daemon: () => Pick<ProcessInfo, 'state' | 'generation'>,
): () => ProcessInfo {
  let cpu = process.cpuUsage();
  let cpuPercent = 0;
  ticker.each(() => {
    const used = process.cpuUsage(cpu);
    cpuPercent = Math.round((used.user + used.system) / limits.tickMs) / 10;
    cpu = process.cpuUsage();
  });
  return () => ({
    title: masterTitle,
    role: 'master',
    pid: process.pid,
    version,
    generation: daemon().generation,
    state: daemon().state,
    startedAt,
    restarts: 0,
    inFlight: 0,
    rssBytes: process.memoryUsage.rss(),
    cpuPercent,
  });
}
