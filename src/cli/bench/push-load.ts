// Pushes jobs through `connections` connections for a time, at full speed or at a rate.
// At a rate a latency starts at the planned time of the push, not when a connection became free: otherwise a
// daemon that stops for a second would show one slow push.

import { setMaxListeners } from 'node:events';
import { createHistogram } from 'node:perf_hooks';
import { Pool } from 'undici';
import { monotonicNow, sleep } from '../../runtime/time.ts';
import type { Daemon } from '../daemon/find-daemon.ts';

export interface PushLoadOptions {
  readonly daemon: Daemon;
  readonly topic: string;
  readonly query: string;
  readonly connections: number;
  readonly durationMs: number;
  readonly body: Buffer;
  /** pushes per second; null = full speed */
  readonly rate: number | null;
  readonly signal: AbortSignal;
}

export interface PushLoadResult {
  readonly latencies: Latencies;
  readonly accepted: number;
  /** HTTP status or error code of pushes that were not accepted → count */
  readonly refused: ReadonlyMap<string, number>;
  readonly elapsedMs: number;
}

export async function pushLoad(options: PushLoadOptions): Promise<PushLoadResult> {
  const { daemon, topic, query, connections, durationMs, body, rate, signal } = options;
  const pool = new Pool(new URL(daemon.url).origin, { connections, pipelining: 1 });
  const path = `${new URL(daemon.url).pathname.replace(/\/$/, '')}/v1/topics/${topic}/jobs?${query}`;
  const headers: Record<string, string> = { 'content-type': 'application/octet-stream' };
  if (daemon.token !== null) headers['authorization'] = `Bearer ${daemon.token}`;
  const latencies = new Latencies();
  // Each connection sleeps on the signal; Node warns of a leak above 10 listeners.
  setMaxListeners(connections, signal);
  const refused = new Map<string, number>();
  let accepted = 0;
  let turn = 0;
  const from = monotonicNow();
  const end = from + durationMs;

  const pushOnce = async (since: number): Promise<void> => {
    let outcome: string;
    try {
      const reply = await pool.request({ method: 'POST', path, headers, body });
      await reply.body.dump();
      outcome = String(reply.statusCode);
    } catch (error) {
      outcome = (error as NodeJS.ErrnoException).code ?? 'error';
    }
    latencies.add(monotonicNow() - since);
    if (outcome === '201' || outcome === '200') accepted += 1;
    else refused.set(outcome, (refused.get(outcome) ?? 0) + 1);
  };
  const connection = async (): Promise<void> => {
    while (!signal.aborted) {
      const at = rate === null ? monotonicNow() : from + (turn++ * 1_000) / rate;
      if (at >= end) return;
      const waitMs = at - monotonicNow();
      if (waitMs > 0) await sleep(waitMs, { signal }).catch(() => undefined);
      if (!signal.aborted) await pushOnce(at);
      if (monotonicNow() >= end) return;
    }
  };
  await Promise.all(Array.from({ length: connections }, connection));
  const elapsedMs = monotonicNow() - from;
  await pool.close();
  return { latencies, accepted, refused, elapsedMs };
}

export interface Percentiles {
  readonly count: number;
  readonly p50Ms: number;
  readonly p90Ms: number;
  readonly p99Ms: number;
  readonly p999Ms: number;
  readonly maxMs: number;
}

/** A histogram of three figures: its memory does not grow with the run. */
export class Latencies {
  readonly #histogram = createHistogram({ figures: 3 });

  /** Counts less than a microsecond as one. */
  add(ms: number): void {
    this.#histogram.record(Math.max(1, Math.round(ms * 1_000)));
  }

  get count(): number {
    return Number(this.#histogram.count);
  }

  percentiles(): Percentiles {
    const at = (percent: number) => this.#histogram.percentile(percent) / 1_000;
    if (this.count === 0) return { count: 0, p50Ms: 0, p90Ms: 0, p99Ms: 0, p999Ms: 0, maxMs: 0 };
    const maxMs = this.#histogram.max / 1_000;
    return { count: this.count, p50Ms: at(50), p90Ms: at(90), p99Ms: at(99), p999Ms: at(99.9), maxMs };
  }
}
