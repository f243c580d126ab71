// The metrics of this instance: what the workers report, added up, and what only the master knows about its processes. A scrape
// is answered from here alone and asks no worker, so one that hangs or has died neither delays nor empties it: its last numbers
// stand, and what it had counted stays counted.

import { readdirSync } from 'node:fs';
import { reasonOf } from '../core/errors.ts';
import type { ProcessInfo, RoleName, ToMaster } from '../process/messages.ts';
import { exposition } from '../telemetry/exposition.ts';
import type { Log } from '../telemetry/log.ts';
import { MetricBuffer } from '../telemetry/metric-buffer.ts';
import { MetricTally } from '../telemetry/metric-tally.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { WorkerProcess } from './workers/worker-process.ts';

export interface MetricsHubOptions {
  readonly version: string;
  /** the master first */
  readonly processes: () => readonly ProcessInfo[];
  readonly log: Log;
  /** lines that the master's own log has dropped */
  readonly dropped: () => number;
}

export class MetricsHub {
  readonly #options: MetricsHubOptions;
  readonly #tally = new MetricTally();
  readonly #own = new MetricBuffer();
  #cpuTold = 0;
  #droppedTold = 0;
  #fullTold = false;

  constructor(options: MetricsHubOptions) {
    this.#options = options;
  }

  /** For what the master itself counts. */
  get metrics(): Metrics {
    return this.#own;
  }

  heard(from: Pick<WorkerProcess, 'title' | 'send'>, message: ToMaster): void {
    if (message.kind === 'metrics') this.#tally.add(message.metrics);
    else if (message.kind === 'report') this.#countCpu(from.title, message.report.cpuMs);
    else if (message.kind === 'scrape') void this.#answer(from, message.call);
  }

  workerDied(role: RoleName): void {
    this.#own.count('dq_worker_deaths_total', 1, role);
  }

  /** Exposition format of Prometheus. */
  async text(): Promise<string> {
    this.#lookAround();
    const report = this.#own.take();
    if (report !== null) this.#tally.add(report);
    if (this.#tally.dropped > 0 && !this.#fullTold)
      this.#options.log.error('metrics: too many series; new series are left out until others are dropped');
    this.#fullTold = this.#tally.dropped > 0;
    return exposition(this.#tally.families());
  }

  async #answer(from: Pick<WorkerProcess, 'send'>, call: number): Promise<void> {
    try {
      from.send({ kind: 'scrape', call, text: await this.text() });
    } catch (error) {
      // The server answers 503 when nothing comes.
      this.#options.log.error('the metrics cannot be written', error, { reason: reasonOf(error) });
    }
  }

  /** Workers of an earlier version say nothing of it. */
  #countCpu(title: string, cpuMs: number | undefined): void {
    if (cpuMs !== undefined) this.#own.count('dq_process_cpu_seconds_total', cpuMs / 1_000, title);
  }

  #lookAround(): void {
    const { version, dropped } = this.#options;
    const processes = this.#options.processes();
    const used = process.cpuUsage();
    const cpuMs = (used.user + used.system) / 1_000;
    this.#countCpu('dq-master', cpuMs - this.#cpuTold);
    this.#cpuTold = cpuMs;
    const lines = dropped();
    this.#own.count('dq_log_lines_dropped_total', lines - this.#droppedTold);
    this.#droppedTold = lines;
    const own = this.#own;
    own.set('dq_info', [[version, 1]]);
    own.set('dq_in_flight', [
      ...summed(
        processes.filter(({ role }) => role !== 'master'),
        ({ role }) => role as RoleName,
        ({ inFlight }) => inFlight,
      ),
    ]);
    // In a reload two processes have one title: they count as one.
    const byTitle = (numberOf: (info: ProcessInfo) => number) => [
      ...summed(processes, ({ title }) => title, numberOf),
    ];
    own.set(
      'dq_process_resident_memory_bytes',
      // Of one that has not reported yet nobody knows.
      byTitle(({ rssBytes }) => rssBytes).filter(([, bytes]) => bytes > 0),
    );
    own.set(
      'dq_process_open_fds',
      byTitle(({ pid }) => openFilesOf(pid)).filter(([, n]) => n > 0),
    );
    const begun = new Map(processes.map(({ title, startedAt }) => [title, startedAt / 1_000]));
    own.set('dq_process_start_time_seconds', [...begun]);
  }
}

function summed<K extends string>(
  processes: readonly ProcessInfo[],
  keyOf: (info: ProcessInfo) => K,
  numberOf: (info: ProcessInfo) => number,
): ReadonlyMap<K, number> {
  const sums = new Map<K, number>();
  for (const info of processes) sums.set(keyOf(info), (sums.get(keyOf(info)) ?? 0) + numberOf(info));
  return sums;
}

/** 0 where it cannot be told: the process has ended, or there is no /proc. */
function openFilesOf(pid: number): number {
  try {
    return readdirSync(`/proc/${pid}/fd`).length;
  } catch {
    return 0;
  }
}
