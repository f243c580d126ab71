// The total-queue run: a real daemon with real servers, a producer and receivers in processes of their own,
// faults that overlap, and a checker of the history. The seed repeats the plan, not the timing. Exit code 1:
// a promise is broken; 3: the run shows nothing.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Dice } from '../dice.ts';
import { failUsage, readFlags } from '../flags.ts';
import { whyNotInstalled } from '../services/binaries.ts';
import { residentBytes } from '../services/live-processes.ts';
import { check } from './check.ts';
import {
  addTopics,
  asTypeScript,
  type Daemon,
  type Receiver,
  settings,
  startDaemon,
  startReceiver,
} from './daemon.ts';
import { drain } from './ending.ts';
import { type Fsync, History, type Run, type StoreKind } from './history.ts';
import { Nemesis } from './nemesis.ts';
import { planFaults } from './plan.ts';
import type { ProducerOrder } from './producer.ts';
import { promiseOf, type Storage } from './promise.ts';
import { lastLine, reportText } from './report.ts';
import { type StoreServers, startStore } from './stores.ts';

interface Scale {
  readonly jobs: number;
  readonly perSecond: number;
  readonly everyMs: number;
  readonly holdMsMax: number;
  readonly longHoldMs: number;
  readonly drainMsMax: number;
  readonly memoryEveryMs: number | null;
}

const scales: Readonly<Record<string, Scale>> = {
  smoke: {
    ...{ jobs: 300, perSecond: 15, everyMs: 1_200, holdMsMax: 1_500, longHoldMs: 3_000 },
    ...{ drainMsMax: 120_000, memoryEveryMs: null },
  },
  // Long: beyond the lease of an attempt, which is 10 s.
  standard: {
    ...{ jobs: 20_000, perSecond: 111, everyMs: 3_000, holdMsMax: 3_000, longHoldMs: 14_000 },
    ...{ drainMsMax: 300_000, memoryEveryMs: null },
  },
  soak: {
    ...{ jobs: 90_000, perSecond: 50, everyMs: 6_000, holdMsMax: 4_000, longHoldMs: 14_000 },
    ...{ drainMsMax: 600_000, memoryEveryMs: 5_000 },
  },
};
/** The producer pushes to these. */
const topics = ['a', 'b'];
/** Each end of `a` begins a chain of three topics. */
const outcomes: Run['outcomes'] = { a: 'after', after: 'last' };
/** Least share of the jobs that must be delivered; others are cancelled or die. */
const deliveredShareMin = 0.5;
/** The load ends at this multiple of its planned length, also while pushes are rejected. */
const overrunMax = 2;
const stores: readonly string[] = ['sqlite', 'redis', 'shards', 'sentinel', 'cluster'];

const usage = `usage: npm run faults -- smoke|standard|soak [option …]

  --store sqlite     or redis, shards, sentinel, cluster: where the jobs are
  --journal          with a MariaDB that has a journal of the jobs
  --fsync always     or everysec, no: of Redis; default no with a journal
  --seed N           repeats the plan of the faults
  --seconds N        another length
  --out FOLDER       keeps the history; without it only a failed run keeps it`;
const fail = (text: string): never => failUsage(`faults: ${text}`, usage);

const { values, positionals } = readFlags(
  {
    store: { type: 'string', default: 'sqlite' },
    journal: { type: 'boolean', default: false },
    fsync: { type: 'string' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    seconds: { type: 'string' },
    out: { type: 'string', default: '' },
  },
  usage,
  true,
);
const named = scales[positionals[0] ?? 'smoke'] ?? fail(`smoke, standard or soak, not ${positionals[0]}`);
const seconds = Number(values.seconds ?? named.jobs / named.perSecond);
const seed = Number(values.seed);
if (!Number.isInteger(seed)) fail('--seed is a whole number');
if (!(seconds > 0)) fail('--seconds is a number above 0');
const scale: Scale = { ...named, jobs: Math.round(seconds * named.perSecond) };
if (!stores.includes(values.store)) fail(`--store is one of ${stores.join(', ')}`);
if (values.journal && values.store === 'sqlite') fail('--journal needs a Redis store');
// A journal is most needed where Redis loses everything.
const fsync = values.fsync ?? (values.journal ? 'no' : 'always');
if (!['always', 'everysec', 'no'].includes(fsync)) fail('--fsync is always, everysec or no');
const storage: Storage = {
  ...{ store: values.store as StoreKind, journal: values.journal, fsync: fsync as Fsync },
};
for (const kind of [
  ...(values.store === 'sqlite' ? [] : ['redis' as const]),
  ...(values.journal ? ['mysql' as const] : []),
]) {
  const reason = await whyNotInstalled(kind);
  if (reason !== null) fail(`${kind}: ${reason}`);
}

/** Ends what was started, in the reverse order, once. */
const cleanups: (() => Promise<unknown>)[] = [];
let cleaning: Promise<void> | null = null;
function cleanUp(): Promise<void> {
  cleaning ??= (async () => {
    for (const each of cleanups.reverse()) await each().catch((error: unknown) => console.error(error));
  })();
  return cleaning;
}
let isInterrupted = false;
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.on(signal, () => {
    isInterrupted = true;
    void cleanUp().finally(() => process.exit(130));
  });

function startProducer(order: ProducerOrder): ChildProcess {
  const command = [process.execPath, ...asTypeScript('producer.ts'), JSON.stringify(order)];
  // The kernel ends it with this process.
  const child = spawn('setpriv', ['--pdeathsig', 'KILL', ...command], {
    stdio: ['pipe', 'inherit', 'inherit'],
  });
  return child;
}

function sampleMemory(daemon: Daemon, history: History, everyMs: number): () => void {
  const timer = setInterval(() => {
    const bytes: Record<string, number> = {};
    for (const { title, pid } of daemon.workers()) bytes[title] = residentBytes(pid);
    if (daemon.process.isRunning) bytes['dq-master'] = residentBytes(daemon.process.pid);
    history.add({ kind: 'memory', bytes });
  }, everyMs);
  return () => clearInterval(timer);
}

async function main(): Promise<number> {
  const folder = values.out === '' ? mkdtempSync(join(tmpdir(), 'dq-faults-')) : values.out;
  mkdirSync(folder, { recursive: true });
  const history = new History(join(folder, `history-${values.store}-${seed}-${process.pid}.jsonl`));
  const lengthMs = (1_000 * scale.jobs) / scale.perSecond;
  const { timeoutMs, backoffMs, maxAttempts } = settings;
  const deliveredMin = Math.ceil(scale.jobs * deliveredShareMin);
  const run: Run = { kind: 'run', seed, ...storage, timeoutMs, backoffMs, deliveredMin, outcomes };
  const promise = promiseOf(storage);
  history.add(run);
  console.log(
    `faults: seed ${seed}, ${scale.jobs} jobs in ${Math.round(lengthMs / 1_000)} s, history ${history.path}`,
  );

  const store: StoreServers = await startStore(storage);
  cleanups.push(() => store.stop());
  const receivers: Receiver[] = [];
  for (const topic of [...topics, ...Object.values(outcomes)]) {
    const receiver = await startReceiver(topic, history.path);
    cleanups.push(() => receiver.process.stop());
    receivers.push(receiver);
  }
  const daemon = await startDaemon(store.args);
  cleanups.push(() => daemon.stop());
  await addTopics(daemon, receivers, outcomes);

  const producer = startProducer({
    ...{ history: history.path, url: daemon.url, topics, jobs: scale.jobs, perSecond: scale.perSecond },
    ...{ seed, maxAttempts },
  });
  cleanups.push(async () => producer.kill('SIGKILL'));
  let isProduced = false;
  const produced = once(producer, 'exit').then(([code]) => {
    isProduced = true;
    if (code !== 0) throw new Error(`the producer ended with ${code}`);
  });
  // Its repeated pushes could go on for long after the last fault.
  const late = setTimeout(() => producer.stdin?.end(), overrunMax * lengthMs + 60_000);
  cleanups.push(async () => clearTimeout(late));
  const stopSampling =
    scale.memoryEveryMs === null ? () => {} : sampleMemory(daemon, history, scale.memoryEveryMs);
  cleanups.push(async () => stopSampling());
  const roles = daemon.workers().map(({ title }) => title);
  const plan = planFaults(new Dice(seed), {
    targets: [...roles, ...[...store.servers, ...receivers].map(({ name }) => name)],
    losing: store.servers.filter(({ losing }) => losing !== undefined).map(({ name }) => name),
    ...{ lengthMs, everyMs: scale.everyMs, holdMsMax: scale.holdMsMax, longHoldMs: scale.longHoldMs },
  });
  const nemesis = new Nemesis({ daemon, store, receivers, history });
  const isOver = () => isProduced || isInterrupted;
  await Promise.all([produced, nemesis.run(plan, isOver)]);
  await drain(daemon, history, scale.drainMsMax, (events) => check(events, run, promise).counts.lost === 0);
  stopSampling();
  const events = history.read();
  const verdict = check(events, run, promise);
  console.log(reportText(verdict, events).slice(0, -lastLine(verdict).length - 1));
  const isGood = verdict.violations === 0 && verdict.vacuous.length === 0;
  if (!isGood) console.log(`history: ${history.path}`);
  else if (values.out === '') rmSync(folder, { recursive: true });
  await cleanUp();
  console.log(lastLine(verdict));
  return verdict.violations > 0 ? 1 : verdict.vacuous.length > 0 ? 3 : 0;
}

try {
  process.exitCode = await main();
} catch (error) {
  // The end of the processes causes errors of its own.
  if (!isInterrupted) console.error(error);
  process.exitCode = 1;
} finally {
  await cleanUp();
  // Faults that still wait would keep the process alive, and start servers again.
  process.exit();
}
