// Runs the benchmark: `npm run bench [-- case …] [--redis] [--runs 5]`. Cases: intake, delivery, lateness,
// isolation, idle, start. Five more run only by name: `memory [--jobs 1000000]`, what a waiting job costs in
// Redis; `neighbours [--counts 0,12,30,400,2000] [--timeout 60s] [--names] [--cold]`, how late a healthy
// topic is beside topics that hang; `consoles`, ten open consoles against none; `compat`, pushes by clients
// of other queues; `journal`, what a journal costs, and how fast it heals. `--dq path/to/bin/dq` measures the
// daemon of another checkout. Reports, never asserts: figures of a shared machine vary by a quarter between
// runs, so compare ratios whose two sides were measured in one run.

import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { Agent, request } from 'undici';
import { compat } from './compat.ts';
import { type BenchDaemon, startDaemon, useLauncher, useRedis } from './dq.ts';
import { cpuSeconds, measureSync, median, percentile, print, printMachine, pssBytes } from './figures.ts';
import { journal } from './journal.ts';
import { batchOf, pushLoad, startBareServer } from './load.ts';
import { memory } from './memory.ts';
import { neighbours } from './neighbours.ts';
import { openConsoles } from './open-consoles.ts';

const loadSeconds = 5;
const batchJobs = 100;
const batchConnections = 16;
const dueJobs = 20_000;
const latenessJobs = 500;
const latenessPerSecond = 50;
const hangingJobs = 2_000;
const idleSeconds = 10;
const consoleCount = 10;

async function intake(runs: number): Promise<void> {
  const bare = await startBareServer('push');
  const dq = await startDaemon();
  await dq.api('POST', '/v1/topics', { topic: 'bench', callbackUrl: bare.url, delay: '1h' });
  const pushUrl = `${dq.url}/v1/topics/bench/jobs`;
  await pushLoad(pushUrl, 1);
  await pushLoad(bare.url, 1);
  const rates: number[] = [];
  const bareRates: number[] = [];
  const p99: number[] = [];
  for (let run = 0; run < runs; run++) {
    const limit = await pushLoad(bare.url, loadSeconds);
    const result = await pushLoad(pushUrl, loadSeconds);
    if (result.non2xx + result.errors > 0)
      throw new Error(`intake: ${result.non2xx} rejected, ${result.errors} errors`);
    bareRates.push(limit.perSecond);
    rates.push(result.perSecond);
    p99.push(result.p99);
  }
  await dq.stop();
  await bare.stop();
  print('intake, 64 connections, one push a request', rates, 'pushes/s');
  print('bare node:http', bareRates, 'requests/s');
  print(
    'ratio',
    rates.map((rate, run) => rate / (bareRates[run] ?? Number.NaN)),
    '',
  );
  print('reply time p99', p99, 'ms');
}

/** Each run has its own daemon: a file with a million jobs would change the next run. */
async function batch(runs: number): Promise<void> {
  const rates: number[] = [];
  const p99: number[] = [];
  for (let run = 0; run < runs; run++) {
    const dq = await startDaemon();
    await dq.api('POST', '/v1/topics', { topic: 'bench', callbackUrl: 'http://127.0.0.1:9/', delay: '1h' });
    await pushLoad(`${dq.url}/v1/jobs`, 1, batchConnections, batchOf(batchJobs));
    const result = await pushLoad(`${dq.url}/v1/jobs`, loadSeconds, batchConnections, batchOf(batchJobs));
    await dq.stop();
    if (result.non2xx + result.errors > 0)
      throw new Error(`batch: ${result.non2xx} rejected, ${result.errors} errors`);
    rates.push(result.perSecond * batchJobs);
    p99.push(result.p99);
  }
  print(`batches of ${batchJobs}, ${batchConnections} connections`, rates, 'jobs/s');
  print('reply time p99', p99, 'ms');
}

/** Calls a sink at full speed with one bare undici loop, `width` calls at once. */
async function bareCalls(url: string, calls: number, width: number): Promise<number> {
  const agent = new Agent({ pipelining: 1 });
  const from = performance.now();
  let left = calls;
  const one = async () => {
    while (left-- > 0) {
      const reply = await request(url, { method: 'POST', body: '{"order":1}', dispatcher: agent });
      await reply.body.dump();
    }
  };
  await Promise.all(Array.from({ length: width }, one));
  const seconds = (performance.now() - from) / 1000;
  await agent.close();
  return calls / seconds;
}

async function received(sinkUrl: string): Promise<{ received: number; lateness: number[] }> {
  return (await (await fetch(sinkUrl)).json()) as { received: number; lateness: number[] };
}

/** Jobs per second from the first arrival to the last, of jobs that wait in paused topics. */
async function deliverDue(dq: BenchDaemon, sinkUrl: string, topics: readonly string[]): Promise<number> {
  await received(sinkUrl);
  for (const topic of topics) await dq.api('POST', `/v1/topics/${topic}/pause`);
  await pushMany(dq.url, topics, dueJobs);
  // A change of a topic reaches every process within two seconds, so no job below leaves before its topic
  // resumes.
  for (const topic of topics) await dq.api('POST', `/v1/topics/${topic}/resume`);
  const from = performance.now();
  let arrived = 0;
  let firstAt = 0;
  while (arrived < dueJobs) {
    await sleep(5);
    arrived += (await received(sinkUrl)).received;
    if (firstAt === 0 && arrived > 0) firstAt = performance.now();
    if (performance.now() - from > 60_000) throw new Error(`delivery: ${arrived} of ${dueJobs} in a minute`);
  }
  return dueJobs / ((performance.now() - firstAt + 5) / 1000);
}

async function delivery(runs: number): Promise<void> {
  const sink = await startBareServer('sink');
  const dq = await startDaemon();
  const topics = ['a', 'b', 'c', 'd'];
  for (const topic of topics)
    await dq.api('POST', '/v1/topics', { topic, callbackUrl: sink.url, concurrency: 256 });
  const rates: number[] = [];
  const bareRates: number[] = [];
  for (let run = 0; run <= runs; run++) {
    const bareRate = await bareCalls(sink.url, dueJobs, 128);
    const rate = await deliverDue(dq, sink.url, topics);
    // The first run warms up all processes.
    if (run === 0) continue;
    rates.push(rate);
    bareRates.push(bareRate);
  }
  await dq.stop();
  await sink.stop();
  print(`delivery of ${dueJobs} due jobs, 2 notifiers`, rates, 'jobs/s');
  print('bare undici loop, one process', bareRates, 'calls/s');
  print(
    'ratio',
    rates.map((rate, run) => rate / (bareRates[run] ?? Number.NaN)),
    '',
  );
}

async function pushMany(url: string, topics: readonly string[], jobs: number, query = ''): Promise<void> {
  const agent = new Agent({ pipelining: 1 });
  let next = 0;
  const one = async () => {
    for (let n = next++; n < jobs; n = next++) {
      const reply = await request(`${url}/v1/topics/${topics[n % topics.length]}/jobs${query}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: `{"order":${n},"note":"${'x'.repeat(80)}"}`,
        dispatcher: agent,
      });
      if (reply.statusCode !== 201) throw new Error(`push: ${reply.statusCode} ${await reply.body.text()}`);
      await reply.body.dump();
    }
  };
  await Promise.all(Array.from({ length: 64 }, one));
  await agent.close();
}

/** Lateness of latenessJobs jobs pushed one by one, as the sink sees it. */
async function latenessOf(dqUrl: string, sinkUrl: string, topic: string): Promise<number[]> {
  const all: number[] = [];
  for (let n = 0; n < latenessJobs; n++) {
    await fetch(`${dqUrl}/v1/topics/${topic}/jobs?delay=1s`, { method: 'POST', body: String(n) });
    await sleep(1000 / latenessPerSecond - 1);
  }
  const end = performance.now() + 10_000;
  while (all.length < latenessJobs && performance.now() < end) {
    await sleep(200);
    all.push(...(await received(sinkUrl)).lateness);
  }
  if (all.length < latenessJobs) throw new Error(`lateness: ${all.length} of ${latenessJobs} arrived`);
  return all;
}

async function lateness(runs: number): Promise<void> {
  const sink = await startBareServer('sink');
  const dq = await startDaemon();
  await dq.api('POST', '/v1/topics', { topic: 'late', callbackUrl: sink.url });
  const p50: number[] = [];
  const p99: number[] = [];
  const sync99: number[] = [];
  for (let run = 0; run < runs; run++) {
    sync99.push(percentile(measureSync(), 0.99));
    const all = await latenessOf(dq.url, sink.url, 'late');
    p50.push(percentile(all, 0.5));
    p99.push(percentile(all, 0.99));
  }
  await dq.stop();
  await sink.stop();
  print(`lateness at ${latenessPerSecond} jobs/s, p50`, p50, 'ms');
  print(`lateness at ${latenessPerSecond} jobs/s, p99`, p99, 'ms');
  print('fdatasync of 4 KiB beside it, p99', sync99, 'ms');
}

/** The same lateness beside a topic with 2,000 due jobs whose endpoint accepts and never answers. */
async function isolation(runs: number): Promise<void> {
  const sink = await startBareServer('sink');
  const hanging = createServer(() => {}).listen(0, '127.0.0.1');
  await once(hanging, 'listening');
  const { port } = hanging.address() as AddressInfo;
  const dq = await startDaemon();
  await dq.api('POST', '/v1/topics', { topic: 'late', callbackUrl: sink.url });
  const hangs = {
    topic: 'hangs',
    callbackUrl: `http://127.0.0.1:${port}/`,
    concurrency: 10_000,
    timeout: '3s',
  };
  await dq.api('POST', '/v1/topics', { ...hangs, maxAttempts: 100, backoff: ['1s'] });
  const quiet: number[] = [];
  const beside: number[] = [];
  for (let run = 0; run < runs; run++) {
    quiet.push(percentile(await latenessOf(dq.url, sink.url, 'late'), 0.99));
    await pushMany(dq.url, ['hangs'], hangingJobs);
    beside.push(percentile(await latenessOf(dq.url, sink.url, 'late'), 0.99));
    await dq.api('DELETE', '/v1/topics/hangs?jobs=purge');
    await dq.api('POST', '/v1/topics', { ...hangs, maxAttempts: 100, backoff: ['1s'] });
  }
  await dq.stop();
  hanging.closeAllConnections();
  hanging.close();
  await sink.stop();
  print('lateness, p99', quiet, 'ms');
  print(`lateness beside ${hangingJobs} hanging jobs, p99`, beside, 'ms');
}

async function idle(runs: number): Promise<void> {
  const dq = await startDaemon();
  await sleep(3_000);
  const processes = await dq.processes();
  const totals: number[] = [];
  for (let run = 0; run < runs; run++) {
    const before = processes.map(({ pid }) => cpuSeconds(pid));
    await sleep(idleSeconds * 1000);
    const used = processes.map(({ pid }, n) => cpuSeconds(pid) - (before[n] ?? 0));
    totals.push((100 * used.reduce((sum, seconds) => sum + seconds, 0)) / idleSeconds);
  }
  print('idle, all processes, of one core', totals, '%');
  for (const { title, pid } of processes)
    console.log(`    ${title.padEnd(20)} ${(pssBytes(pid) / 2 ** 20).toFixed(1).padStart(7)} MiB PSS`);
  const sum = processes.reduce((bytes, { pid }) => bytes + pssBytes(pid), 0);
  console.log(`    ${'all'.padEnd(20)} ${(sum / 2 ** 20).toFixed(1).padStart(7)} MiB PSS`);
  await dq.stop();
}

async function start(runs: number): Promise<void> {
  const times: number[] = [];
  for (let run = 0; run < Math.max(runs, 10); run++) {
    const dq = await startDaemon();
    times.push(dq.startMs);
    await dq.stop();
  }
  print('dq start to every role ready', times, 'ms');
}

/** Pushes and deliveries with ten open consoles and without, in turn; the start and an idle daemon with
 *  dq-console and without. */
async function consoles(runs: number): Promise<void> {
  const sink = await startBareServer('sink');
  const dq = await startDaemon();
  await dq.api('POST', '/v1/topics', { topic: 'push', callbackUrl: sink.url, delay: '1h' });
  const topics = ['a', 'b', 'c', 'd'];
  for (const topic of topics)
    await dq.api('POST', '/v1/topics', { topic, callbackUrl: sink.url, concurrency: 256 });
  const job = 'seen';
  await dq.api('POST', `/v1/topics/push/jobs?id=${job}&delay=1h`, {});
  const pushUrl = `${dq.url}/v1/topics/push/jobs`;
  const work: readonly (readonly [name: string, () => Promise<number>])[] = [
    ['pushes/s', async () => (await pushLoad(pushUrl, loadSeconds)).perSecond],
    ['deliveries/s', () => deliverDue(dq, sink.url, topics)],
  ];
  for (const [name, measure] of work) {
    await measure();
    const results: { readonly open: number[]; readonly none: number[] } = { open: [], none: [] };
    const replies: Record<string, number> = {};
    for (let run = 0; run < runs; run++)
      // The second of a pair finds more jobs in the store: each side goes first in turn.
      for (const kind of run % 2 === 0 ? (['none', 'open'] as const) : (['open', 'none'] as const)) {
        const opened = kind === 'open' ? await openConsoles(dq, consoleCount, 'push', job) : null;
        results[kind].push(await measure());
        for (const [status, count] of Object.entries((await opened?.close()) ?? {}))
          replies[status] = (replies[status] ?? 0) + count;
      }
    print(`${name} with ${consoleCount} open consoles`, results.open, '');
    print(`${name} without`, results.none, '');
    print(
      'ratio',
      results.open.map((rate, run) => rate / (results.none[run] ?? Number.NaN)),
      '',
    );
    console.log(`    replies to the consoles by status: ${JSON.stringify(replies)}`);
  }
  await dq.stop();
  await sink.stop();
  await consoleCosts(runs);
}

async function consoleCosts(runs: number): Promise<void> {
  const kinds = [
    ['with dq-console', []],
    ['without', ['--no-console']],
  ] as const;
  const starts: number[][] = [[], []];
  for (let run = 0; run < Math.max(runs, 10); run++)
    for (const [n, [, args]] of kinds.entries()) {
      const dq = await startDaemon(...args);
      starts[n]?.push(dq.startMs);
      await dq.stop();
    }
  for (const [n, [name]] of kinds.entries())
    print(`dq start to every role ready, ${name}`, starts[n] ?? [], 'ms');
  const daemons = [await startDaemon(), await startDaemon('--no-console')];
  await daemons[0]?.consoleUrl();
  await sleep(3_000);
  const processes = await Promise.all(daemons.map((dq) => dq.processes()));
  const totals: number[][] = [[], []];
  const ofConsole: number[] = [];
  const used = () => processes.map((ones) => ones.map(({ pid }) => cpuSeconds(pid)));
  for (let run = 0; run < runs; run++) {
    const before = used();
    await sleep(idleSeconds * 1000);
    for (const [n, seconds] of used().entries()) {
      const percents = seconds.map((now, i) => (100 * (now - (before[n]?.[i] ?? 0))) / idleSeconds);
      totals[n]?.push(percents.reduce((sum, percent) => sum + percent, 0));
      const at = processes[n]?.findIndex(({ title }) => title.startsWith('dq-console')) ?? -1;
      if (at >= 0) ofConsole.push(percents[at] ?? Number.NaN);
    }
  }
  for (const [n, [name]] of kinds.entries()) {
    print(`idle, all processes, of one core, ${name}`, totals[n] ?? [], '%');
    const bytes = processes[n]?.reduce((sum, { pid }) => sum + pssBytes(pid), 0) ?? 0;
    console.log(`    PSS of all processes, ${name}: ${(bytes / 2 ** 20).toFixed(1)} MiB`);
  }
  if (ofConsole.length > 0) print('idle, dq-console alone', ofConsole, '%');
  for (const { title, pid } of processes[0] ?? [])
    if (title.startsWith('dq-console'))
      console.log(`    PSS of ${title}: ${(pssBytes(pid) / 2 ** 20).toFixed(1)} MiB`);
  for (const dq of daemons) await dq.stop();
}

const cases: Readonly<Record<string, (runs: number) => Promise<void>>> = {
  isolation,
  intake,
  batch,
  delivery,
  lateness,
  idle,
  start,
  consoles,
  compat,
  journal: (runs) => journal(runs, deliverDue),
  memory: () => memory(jobs),
  neighbours: () => neighbours({ counts, timeout, names, cold }),
};
/** Too long, and equal in every run. */
const onRequest = ['compat', 'consoles', 'journal', 'memory', 'neighbours'];

const args = process.argv.slice(2);
const flag = (name: string): boolean => {
  const at = args.indexOf(name);
  if (at >= 0) args.splice(at, 1);
  return at >= 0;
};
const value = (name: string, otherwise: string): string => {
  const at = args.indexOf(name);
  return at < 0 ? otherwise : (args.splice(at, 2)[1] ?? '');
};
const onRedis = flag('--redis');
if (onRedis) useRedis();
const launcher = value('--dq', '');
if (launcher !== '') useLauncher(launcher);
const runs = Number(value('--runs', '5'));
const jobs = Number(value('--jobs', '1000000'));
const counts = value('--counts', '0,12,30,400,2000').split(',').map(Number);
const timeout = value('--timeout', '60s');
const names = flag('--names');
const cold = flag('--cold');
const unknown = args.filter((name) => !(name in cases));
if (unknown.length > 0 || !(runs >= 1) || !(jobs >= 1) || counts.some((count) => !(count >= 0))) {
  console.error(
    `usage: npm run bench [-- ${Object.keys(cases).join(' | ')} …] [--redis] [--dq path/to/bin/dq] [--runs 5] [--jobs 1000000]
       [--counts 0,12,30,400,2000] [--timeout 60s] [--names] [--cold]`,
  );
  process.exit(2);
}
printMachine();
if (onRedis) console.log('jobs in Redis, appendonly yes, appendfsync everysec');
console.log(`fdatasync of 4 KiB: p50 ${median(measureSync()).toFixed(2)} ms`);
for (const name of args.length > 0 ? args : Object.keys(cases).filter((each) => !onRequest.includes(each))) {
  console.log(name);
  await cases[name]?.(runs);
}
