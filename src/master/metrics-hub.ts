// Sums the metrics of the workers, adds those of the processes, and answers scrapes.
// Invariant: a scrape asks no worker. A worker that hangs or died delays no scrape, and its counts stay.

import { readdirSync } from 'node:fs';
import { messageOf } from '../core/errors.ts';
import type { ProcessInfo, RoleName, ToMaster } from '../process/messages.ts';
import type { Log } from '../telemetry/log.ts';
import { exposition, MetricTally } from '../telemetry/metric-tally.ts';
import { MetricBuffer, type Metrics } from '../telemetry/metrics.ts';
import type { WorkerProcess } from './workers/worker-process.ts';

interface MetricsHubOptions {
  readonly version: string;
  /** the master first */
  readonly processes: () => readonly ProcessInfo[];
  readonly log: Log;
  /** lines that the master's log has dropped */
  readonly dropped: () => number;
  readonly delivers: boolean;
}

export class MetricsHub {
  readonly #options: MetricsHubOptions;
  readonly #tally = new MetricTally();
  readonly #own = new MetricBuffer();
  #countedCpuMs = 0;
  #countedDrops = 0;
  #fullReported = false;

  constructor(options: MetricsHubOptions) {
    this.#options = options;
  }

  get metrics(): Metrics {
    return this.#own;
  }

  /** Handles a worker's message; ignores messages of other kinds. */
  receive(from: Pick<WorkerProcess, 'title' | 'send'>, message: ToMaster): void {
    if (message.kind === 'metrics') this.#tally.addReport(message.metrics);
    else if (message.kind === 'report') this.#countCpu(from.title, message.report.cpuMs);
    else if (message.kind === 'scrape') void this.#answer(from, message.call);
  }

  workerDied(role: RoleName): void {
    this.#own.count('dq_worker_deaths_total', 1, role);
  }

  /** All metrics in Prometheus exposition format. */
  async text(): Promise<string> {
    this.#measure();
    const report = this.#own.take();
    if (report !== null) this.#tally.addReport(report);
    if (this.#tally.dropped > 0 && !this.#fullReported)
      this.#options.log.error('metrics: too many series, new ones are omitted');
    this.#fullReported = this.#tally.dropped > 0;
    return exposition(this.#tally.families());
  }

  async #answer(from: Pick<WorkerProcess, 'send'>, call: number): Promise<void> {
    try {
      from.send({ kind: 'scrape', call, text: await this.text() });
    } catch (error) {
      // Without a reply the server answers 503.
      this.#options.log.error('metrics: cannot write the exposition', error, { reason: messageOf(error) });
    }
  }

  #countCpu(title: string, cpuMs: number): void {
    this.#own.count('dq_process_cpu_seconds_total', cpuMs / 1_000, title);
  }

  #measure(): void {
    const { version, delivers, dropped } = this.#options;
    const processes = this.#options.processes();
    const used = process.cpuUsage();
    const cpuMs = (used.user + used.system) / 1_000;
    this.#countCpu('dq-master', cpuMs - this.#countedCpuMs);
    this.#countedCpuMs = cpuMs;
    const lines = dropped();
    this.#own.count('dq_log_lines_dropped_total', lines - this.#countedDrops);
    this.#countedDrops = lines;
    const own = this.#own;
    own.set('dq_info', [[version, 1]]);
    own.set('dq_deliveries_enabled', [[delivers ? 1 : 0]]);
    own.set('dq_in_flight', [
      ...summed(
        processes.filter(({ role }) => role !== 'master'),
        ({ role }) => role as RoleName,
        ({ inFlight }) => inFlight,
      ),
    ]);
    // In a reload two processes have the same title: their values are added.
    const byTitle = (numberOf: (info: ProcessInfo) => number) => [
      ...summed(processes, ({ title }) => title, numberOf),
    ];
    own.set(
      'dq_process_resident_memory_bytes',
      // 0: the worker has not reported yet.
      byTitle(({ rssBytes }) => rssBytes).filter(([, bytes]) => bytes > 0),
    );
    own.set(
      'dq_process_open_fds',
      byTitle(({ pid }) => openFilesOf(pid)).filter(([, n]) => n > 0),
    );
    const started = new Map(processes.map(({ title, startedAt }) => [title, startedAt / 1_000]));
    own.set('dq_process_start_time_seconds', [...started]);
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

/** 0 = unknown: the process has ended, or there is no /proc. */
function openFilesOf(pid: number): number {
  try {
    return readdirSync(`/proc/${pid}/fd`).length;
  } catch {
    return 0;
  }
}
