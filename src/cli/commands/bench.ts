// dq bench: measures how fast a running daemon accepts jobs, and with --e2e how late it delivers them.
// Works on a topic of its own and deletes it with its jobs at the end, also after Ctrl-C. Slows the other
// jobs of that daemon meanwhile.

import { setMaxListeners } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createHistogram } from 'node:perf_hooks';
import type { Command } from 'commander';
import { Pool } from 'undici';
import { isLoopback } from '../../config/cross-checks.ts';
import { limits } from '../../core/limits.ts';
import { monotonicNow, randomBytes, sleep, wallNow } from '../../runtime/time.ts';
import { ApiClient, ApiRefusal } from '../daemon/api-client.ts';
import { withDataDirectory } from '../daemon/daemon-options.ts';
import { type Daemon, type DaemonFlags, findDaemon } from '../daemon/find-daemon.ts';
import { Exit } from '../exit.ts';
import { durationOf, wholeOf } from '../flags.ts';
import { cliLimits } from '../limits.ts';
import { printData, printTable, say } from '../output/output.ts';

interface BenchFlags extends DaemonFlags {
  readonly connections: string;
  readonly duration: string;
  readonly size: string;
  readonly rate?: string;
  readonly e2e?: boolean;
  readonly json?: boolean;
}

interface Report {
  readonly pushesPerSecond: number;
  readonly accepted: number;
  readonly refused: Readonly<Record<string, number>>;
  readonly push: Percentiles;
  /** null without --e2e */
  readonly lateness: Percentiles | null;
}

export function register(program: Command): void {
  const command = program
    .command('bench')
    .description('load a running daemon with pushes and measure their latency')
    .option('-n, --connections <n>', 'concurrent pushes', '64')
    .option('-d, --duration <duration>', 'duration of the load', '10s')
    .option('--size <bytes>', 'body size', '64')
    .option('--rate <n>', 'pushes per second; default: maximum, with --e2e 100')
    .option('--e2e', 'deliver the jobs to this command and measure lateness; same machine only')
    .option('--url <url>', 'address of the daemon (DQ_URL)')
    .option('--token <token>', 'access token with the scope admin (DQ_TOKEN)');
  withDataDirectory(command, 'data directory of a daemon on this machine (DQ_DATA_DIR)')
    .option('--json', 'one JSON object')
    .addHelpText('after', '\nExit code 5: some pushes were not accepted, or some jobs not delivered')
    .action(bench);
}

async function bench(flags: BenchFlags): Promise<void> {
  const connections = wholeOf('--connections', flags.connections, 1, cliLimits.benchConnectionsMax);
  const size = wholeOf('--size', flags.size, 1, cliLimits.pushInputBytesMax);
  const rate = flags.rate === undefined ? null : wholeOf('--rate', flags.rate, 1, limits.topicRateMax);
  const durationMs = durationOf('--duration', flags.duration);
  if (durationMs === 0 || durationMs > cliLimits.benchMsMax)
    throw new Exit('usage', '--duration must be from 1ms to 10m');
  const daemon = findDaemon(flags, process.env);
  if (flags.e2e && !isLoopback(new URL(daemon.url).hostname.replaceAll(/[[\]]/g, '')))
    throw new Exit('usage', '--e2e needs one clock: run it on the machine of the daemon');

  const ending = new AbortController();
  for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => ending.abort());
  const client = new ApiClient(daemon);
  const topic = `bench-${randomBytes(4).toString('hex')}`;
  const receiver = flags.e2e ? await openReceiver() : null;
  try {
    const callbackUrl = receiver?.url ?? 'http://127.0.0.1:1/';
    const concurrency = limits.topicConcurrencyMax;
    const json = { topic, callbackUrl, concurrency, title: 'dq bench; it removes this topic at its end' };
    await client.call({ method: 'POST', path: ['v1', 'topics'], json });
    try {
      const load = await pushLoad({
        daemon,
        topic,
        // Without a receiver no job may become due.
        query: receiver === null ? 'delay=1h' : 'delay=1s',
        connections,
        durationMs,
        body: Buffer.alloc(size, 'x'),
        rate: rate ?? (receiver === null ? null : cliLimits.benchLatenessRate),
        signal: ending.signal,
      });
      if (receiver !== null) await receiver.until(load.accepted, ending.signal);
      const report = {
        pushesPerSecond: Math.round((load.accepted * 1_000) / load.elapsedMs),
        accepted: load.accepted,
        refused: Object.fromEntries(load.refused),
        push: load.latencies.percentiles(),
        lateness: receiver?.lateness.percentiles() ?? null,
      };
      show(report, flags.json === true);
      const missing = receiver === null ? 0 : load.accepted - receiver.lateness.count;
      if (missing > 0 && !ending.signal.aborted)
        throw new Exit('partlyFailed', `${missing} of ${load.accepted} jobs were not delivered`);
      if (load.refused.size > 0) throw new Exit('partlyFailed', 'some pushes were not accepted');
    } finally {
      await removeTopic(client, topic);
    }
  } finally {
    receiver?.close();
  }
}

function show(report: Report, asJson: boolean): void {
  if (asJson) {
    printData(JSON.stringify(report));
    return;
  }
  const row = (what: string, of: Percentiles) => [
    what,
    of.count,
    ...[of.p50Ms, of.p90Ms, of.p99Ms, of.p999Ms, of.maxMs].map((ms) => ms.toFixed(1)),
  ];
  printTable(
    ['MS', 'COUNT', 'P50', 'P90', 'P99', 'P99.9', 'MAX'],
    [row('push', report.push), ...(report.lateness === null ? [] : [row('lateness', report.lateness)])],
  );
  say(`dq: ${report.pushesPerSecond} accepted per second`);
  for (const [what, n] of Object.entries(report.refused)) say(`dq: not accepted: ${n} × ${what}`);
}

/** Repeats the call: one call purges a bounded number of jobs. */
async function removeTopic(client: ApiClient, topic: string): Promise<void> {
  for (;;) {
    try {
      await client.call({ method: 'DELETE', path: ['v1', 'topics', topic], query: { jobs: 'purge' } });
      return;
    } catch (error) {
      if (error instanceof ApiRefusal && error.problem.code === 'topic_has_jobs') continue;
      say(`dq: the topic ${topic} still exists; remove it with dq topic rm ${topic} --purge`);
      throw error;
    }
  }
}

interface Receiver {
  readonly url: string;
  readonly lateness: Latencies;
  /** Resolves when `count` jobs came, or when none came for cliLimits.benchSilenceMs. */
  until(count: number, signal: AbortSignal): Promise<void>;
  close(): void;
}

async function openReceiver(): Promise<Receiver> {
  const lateness = new Latencies();
  const server = createServer((request, response) => {
    request.resume();
    const dueAt = Date.parse(String(request.headers['dq-due-at']));
    // A retry is late by its backoff.
    if (request.headers['dq-attempt'] === '1') lateness.record(wallNow() - dueAt);
    response.writeHead(204).end();
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, '127.0.0.1', resolve);
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    lateness,
    async until(count, signal) {
      let [seen, at] = [lateness.count, monotonicNow()];
      while (lateness.count < count && !signal.aborted) {
        if (lateness.count > seen) [seen, at] = [lateness.count, monotonicNow()];
        if (monotonicNow() - at > cliLimits.benchSilenceMs) return;
        await sleep(cliLimits.workPollMs / 10);
      }
    },
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}

interface PushLoadOptions {
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

interface PushLoadResult {
  readonly latencies: Latencies;
  readonly accepted: number;
  /** HTTP status or error code of pushes that were not accepted → count */
  readonly refused: ReadonlyMap<string, number>;
  readonly elapsedMs: number;
}

/** Pushes jobs through `connections` connections for a time, at full speed or at a rate. At a rate a latency
 *  starts at the planned time of the push, not when a connection became free: otherwise a daemon that stops
 *  for a second would show one slow push. */
async function pushLoad(options: PushLoadOptions): Promise<PushLoadResult> {
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
    latencies.record(monotonicNow() - since);
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

interface Percentiles {
  readonly count: number;
  readonly p50Ms: number;
  readonly p90Ms: number;
  readonly p99Ms: number;
  readonly p999Ms: number;
  readonly maxMs: number;
}

/** A histogram of three figures: its memory does not grow with the run. */
class Latencies {
  readonly #histogram = createHistogram({ figures: 3 });

  /** Counts less than a microsecond as one. */
  record(ms: number): void {
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
