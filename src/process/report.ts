// Once a second a worker tells the master what it costs and what it has in hand.

import { limits } from '../core/limits.ts';
import type { MasterLink } from './role.ts';

export function startReports(link: MasterLink, inFlight: () => number): void {
  let cpu = process.cpuUsage();
  let at = performance.now();
  setInterval(() => {
    const used = process.cpuUsage(cpu);
    const now = performance.now();
    const cpuPercent = Math.round((used.user + used.system) / (now - at)) / 10;
    cpu = process.cpuUsage();
    at = now;
    const rssBytes = process.memoryUsage.rss();
    link.send({ kind: 'report', report: { inFlight: inFlight(), rssBytes, cpuPercent } });
  }, limits.reportMs).unref();
}
