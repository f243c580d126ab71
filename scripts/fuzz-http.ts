// Sends random and damaged requests to a daemon: `npm run fuzz:http [-- --seconds 60 --seed 1]`. For every
// request: the reply has its shape and reports no server failure, no process dies, the error log stays
// empty, and memory stays flat. Callbacks go to ports of this machine without a listener.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { thisBuild } from './bench/bench.ts';
import { startDaemon } from './bench/dq.ts';
import { Dice } from './dice.ts';
import { failUsage, readFlags } from './flags.ts';
import { judgeReplies } from './fuzz-http/replies.ts';
import { type Description, RequestMaker } from './fuzz-http/requests.ts';

/** The configuration of a daemon for fuzzing. */
export const fuzzConfig = { egress: { policy: 'allowlist', allow: ['127.0.0.1/32'] } } as const;

const connections = 48;
/** Memory that a garbage collector may not have freed. A leak of 1 KiB per request is ten times that in a
 *  minute. */
const grownMiBMax = 64;
/** A client ends a connection that has sent nothing for this long: damaged requests wait for more bytes. */
const usualPatienceMs = 400;

export interface FuzzHttpReport {
  readonly requests: number;
  /** replies by status */
  readonly statuses: Readonly<Record<number, number>>;
  /** each with the bytes that reproduce it; at most 20 */
  readonly failures: readonly string[];
  /** resident memory of the servers together, sampled twice a second */
  readonly rssBytes: readonly number[];
}

/** Runs for `seconds`, and longer while a slow machine has sent fewer than `requestsMin`. With little
 *  patience a slow machine answers no write in time. */
export async function fuzzHttp(
  url: string,
  seconds: number,
  seed: number,
  { requestsMin = 0, patienceMs = usualPatienceMs } = {},
): Promise<FuzzHttpReport> {
  const dice = new Dice(seed);
  const maker = new RequestMaker((await getJson(url, '/openapi.json')) as Description, dice);
  const statuses: Record<number, number> = {};
  const failures: string[] = [];
  const rssBytes: number[] = [];
  const before = await processesOf(url);
  const end = performance.now() + seconds * 1_000;
  let requests = 0;
  const goesOn = () => (performance.now() < end || requests < requestsMin) && failures.length < 20;
  const client = async () => {
    while (goesOn()) {
      const bytes = maker.make();
      requests += 1;
      const judged = judgeReplies(await exchange(url, bytes, { leaves: dice.chance(0.05), patienceMs }));
      if (typeof judged === 'string')
        failures.push(`${judged}\n  ${JSON.stringify(bytes.toString('latin1').slice(0, 1_500))}`);
      else for (const status of judged) statuses[status] = (statuses[status] ?? 0) + 1;
    }
  };
  const sampler = setInterval(() => {
    // The process check below judges a missing sample.
    void processesOf(url).then(
      (now) =>
        rssBytes.push(
          now.filter(({ role }) => role === 'server').reduce((sum, one) => sum + one.rssBytes, 0),
        ),
      () => {},
    );
  }, 500);
  await Promise.all(Array.from({ length: connections }, client));
  clearInterval(sampler);
  const after = await processesOf(url);
  const lives = (processes: readonly ProcessLine[]) =>
    processes.map(({ title, pid }) => `${title} ${pid}`).sort();
  if (String(lives(before)) !== String(lives(after)))
    failures.push(`processes died: ${lives(before)} became ${lives(after)}`);
  return { requests, statuses, failures, rssBytes };
}

/** Flat: the last third of the samples is at most `grownMiBMax` above the middle third. */
export function growthOf(rssBytes: readonly number[]): number {
  const third = Math.floor(rssBytes.length / 3);
  const mean = (samples: readonly number[]) => samples.reduce((sum, one) => sum + one, 0) / samples.length;
  return mean(rssBytes.slice(-third)) - mean(rssBytes.slice(third, 2 * third));
}

/** Every byte until the server closes, or is silent for `patienceMs`. `leaves`: does not wait for the
 *  answer. */
function exchange(
  url: string,
  bytes: Buffer,
  { leaves, patienceMs }: { readonly leaves: boolean; readonly patienceMs: number },
): Promise<Buffer> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true });
    const finish = () => {
      socket.destroy();
      resolve(Buffer.concat(chunks));
    };
    // End our side first, then close.
    socket.setTimeout(patienceMs, () => (socket.writableEnded ? finish() : socket.end()));
    socket.on('data', (chunk: Buffer) => chunks.push(chunk));
    // The server answers some damaged requests with a reset.
    socket.on('error', finish);
    socket.on('end', finish);
    socket.on('close', finish);
    socket.write(bytes, () => {
      if (leaves) finish();
    });
  });
}

interface ProcessLine {
  readonly title: string;
  readonly role: string;
  readonly pid: number;
  readonly rssBytes: number;
}

async function processesOf(url: string): Promise<readonly ProcessLine[]> {
  return ((await getJson(url, '/v1/processes')) as { processes: readonly ProcessLine[] }).processes;
}

async function getJson(url: string, path: string): Promise<unknown> {
  const response = await fetch(url + path, { signal: AbortSignal.timeout(10_000) });
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  return response.json();
}

async function main(): Promise<void> {
  const usage = 'usage: npm run fuzz:http -- [--seconds 60] [--seed N]';
  const { values } = readFlags({ seconds: { type: 'string' }, seed: { type: 'string' } }, usage);
  const seconds = Number(values.seconds ?? 60);
  const seed = Number(values.seed ?? Math.floor(Math.random() * 2 ** 32));
  if (!(seconds > 0 && seconds <= 3_600) || !Number.isSafeInteger(seed)) {
    failUsage('not whole numbers', usage);
  }
  console.log(`seed ${seed}`);
  const directory = mkdtempSync(join(tmpdir(), 'dq-fuzz-'));
  const file = join(directory, 'dq.yaml');
  writeFileSync(file, stringify(fuzzConfig));
  const daemon = await startDaemon(thisBuild, '-c', file);
  const report = await fuzzHttp(daemon.url, seconds, seed).finally(() => daemon.stop());
  rmSync(directory, { recursive: true });
  for (const failure of report.failures) console.error(failure);
  const grown = growthOf(report.rssBytes) / 2 ** 20;
  console.log(
    `${report.requests} requests, replies ${JSON.stringify(report.statuses)}, ${report.failures.length} failures, memory of the servers ${grown.toFixed(1)} MiB more in the last third than in the middle one`,
  );
  if (report.failures.length > 0 || grown > grownMiBMax) process.exit(1);
}

if (process.argv[1] === import.meta.filename) await main();
