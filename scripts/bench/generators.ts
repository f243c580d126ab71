// The loads of the benchmark: pushes at full speed by wrk or autocannon in their own process, pushes at a
// fixed rate, batches, and the bare undici loop that is the yardstick of delivery.
import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { Agent, type Dispatcher, request } from 'undici';

export const bodyBytes = 110;
const digits = 12;
const zeros = '0'.repeat(digits);

/** The query of README's push, with the number of the job as its id. */
export const readmeQuery = `?id=${zeros}&delay=30m`;

/** A job of 110 bytes; no two of one run are equal. */
export const bodyOf = (n: number): string => template.replace(zeros, String(n).padStart(digits, '0'));
const template = `{"order":"${zeros}","note":"${'x'.repeat(bodyBytes - digits - 22)}"}`;

export interface LoadResult {
  readonly requests: number;
  readonly perSecond: number;
  /** ms from request to reply */
  readonly p50: number;
  readonly p99: number;
}

export interface PushLoad {
  /** may end with `readmeQuery` */
  readonly url: string;
  readonly seconds: number;
  readonly connections: number;
  /** body of a request from the JSON of a job; default: the job itself */
  readonly wrap?: (job: string) => string;
}

/** wrk takes 7–10 µs per request of one core, autocannon 25–35 µs, as much as a bare server. */
export const hasWrk = (process.env['PATH'] ?? '')
  .split(delimiter)
  .some((directory) => existsSync(join(directory, 'wrk')));

export const generatorText = hasWrk
  ? 'wrk, one thread, each job numbered'
  : 'autocannon, because wrk is not on the PATH: it costs as much CPU as a bare server, and sends equal jobs without an id';

/** Rejects unless every request is answered with 2xx. */
export async function pushLoad(load: PushLoad): Promise<LoadResult> {
  const { failed, ...result } = await (hasWrk ? wrkLoad(load) : autocannonLoad(load));
  if (failed > 0 || result.requests === 0)
    throw new Error(`${load.url}: ${failed} of ${result.requests} requests failed`);
  return result;
}

type Outcome = LoadResult & { readonly failed: number };
let loads = 0;

async function wrkLoad({ url, seconds, connections, wrap = (job) => job }: PushLoad): Promise<Outcome> {
  const directory = mkdtempSync(join(tmpdir(), 'dq-bench-wrk-'));
  // Numbers differ between the loads of one run, so that ids made of them do.
  const first = ++loads * 1e8;
  try {
    const script = join(directory, 'push.lua');
    const lines = [
      'wrk.method = "POST"',
      'wrk.headers["content-type"] = "application/json"',
      `local n = ${first}`,
      'local pieces = {}',
      // The request is built once: only its number changes, in the query and in the body.
      'init = function()',
      `  local text = wrk.format(nil, nil, nil, [==[${wrap(template)}]==])`,
      `  for piece in string.gmatch(text .. "${zeros}", "(.-)${zeros}") do pieces[#pieces + 1] = piece end`,
      'end',
      'request = function()',
      '  n = n + 1',
      `  return table.concat(pieces, string.format("%0${digits}.0f", n))`,
      'end',
      // One line of figures: the printed ones are rounded.
      'done = function(summary, latency)',
      '  local e = summary.errors',
      '  print(string.format("figures %d %d %d %d %d", summary.requests, summary.duration,',
      '    latency:percentile(50), latency:percentile(99), e.status + e.connect + e.read + e.write + e.timeout))',
      'end',
    ];
    writeFileSync(script, lines.join('\n'));
    // wrk counts a reply after its timeout as an error. The default of 2 s fails runs beside a busy disk.
    const args = ['-t1', '-c', String(connections), '-d', String(seconds), '--timeout', '30s'];
    args.push('-s', script, url);
    const { stdout } = await promisify(execFile)('wrk', args);
    const [requests = 0, us = 1, p50 = 0, p99 = 0, failed = 0] =
      /^figures (.*)$/m.exec(stdout)?.[1]?.split(' ').map(Number) ?? [];
    return { requests, perSecond: (requests * 1e6) / us, p50: p50 / 1e3, p99: p99 / 1e3, failed };
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

async function autocannonLoad({
  url,
  seconds,
  connections,
  wrap = (job) => job,
}: PushLoad): Promise<Outcome> {
  const cannon = join(import.meta.dirname, '../../node_modules/autocannon/autocannon.js');
  const args = [
    ...[cannon, '-c', String(connections), '-d', String(seconds), '-m', 'POST'],
    ...['-H', 'content-type=application/json', '-b', wrap(bodyOf(++loads)), '-j', '-n'],
    // One id for all pushes would make them replace one job.
    url.replace(`id=${zeros}&`, ''),
  ];
  const { stdout } = await promisify(execFile)(process.execPath, args, { maxBuffer: 16 * 1024 * 1024 });
  const { requests, latency, non2xx, errors } = JSON.parse(stdout) as {
    requests: { average: number; total: number };
    latency: { p50: number; p99: number };
    non2xx: number;
    errors: number;
  };
  return {
    requests: requests.total,
    perSecond: requests.average,
    ...{ p50: latency.p50, p99: latency.p99, failed: non2xx + errors },
  };
}

/** One job of a batch: `delay` and `at` as in the API. */
export interface BatchItem {
  readonly topic: string;
  readonly at?: string;
  readonly delay?: string;
}

const batchSenders = 4;

/** Pushes `jobs` jobs in batches of 500. Rejects unless all are accepted. */
export async function pushBatches(
  url: string,
  jobs: number,
  itemOf: (n: number) => BatchItem,
): Promise<void> {
  const batchJobs = 500;
  const agent = new Agent({ connections: batchSenders });
  let next = 0;
  const one = async () => {
    while (next < jobs) {
      const from = next;
      next = Math.min(jobs, from + batchJobs);
      const items = Array.from({ length: next - from }, (_, n) => itemText(itemOf(from + n), from + n));
      const reply = await request(`${url}/v1/jobs`, {
        ...{ method: 'POST', headers: { 'content-type': 'application/json' }, dispatcher: agent },
        body: `[${items.join(',')}]`,
      });
      const { failed } = (await reply.body.json()) as { failed?: number };
      if (failed !== 0) throw new Error(`batch: ${reply.statusCode}, ${failed} jobs failed`);
    }
  };
  await Promise.all(Array.from({ length: batchSenders }, one));
  await agent.close();
}

function itemText({ topic, at, delay }: BatchItem, n: number): string {
  const when = at !== undefined ? `,"at":"${at}"` : delay !== undefined ? `,"delay":"${delay}"` : '';
  return `{"topic":"${topic}"${when},"body":${bodyOf(n)}}`;
}

/** Pushes one by one at a fixed rate. Rejects unless all are accepted. */
export async function pacedPushes(url: string, perSecond: number, jobs: number): Promise<void> {
  const agent = new Agent({ pipelining: 1 });
  const from = performance.now();
  const running: Promise<void>[] = [];
  for (let n = 0; n < jobs; ) {
    const due = Math.min(jobs, Math.floor(((performance.now() - from) * perSecond) / 1000) + 1);
    for (; n < due; n++) running.push(pushOne(url, bodyOf(n), agent));
    await sleep(Math.max(1, from + (n * 1000) / perSecond - performance.now()));
  }
  await Promise.all(running);
  await agent.close();
}

export async function pushOne(url: string, body: string, dispatcher: Dispatcher): Promise<void> {
  const headers = { 'content-type': 'application/json' };
  const reply = await request(url, { method: 'POST', headers, body, dispatcher });
  if (reply.statusCode !== 201) throw new Error(`push: ${reply.statusCode} ${await reply.body.text()}`);
  await reply.body.dump();
}

/** The headers of a callback, as many and as long as dq sends. The signature is constant: a yardstick does
 *  not compute it. */
export const callbackHeaders: Readonly<Record<string, string>> = {
  'content-type': 'application/json',
  'accept-encoding': 'identity',
  'user-agent': 'dq/0.1.0',
  'webhook-id': `msg_${'2'.repeat(27)}`,
  'webhook-timestamp': '1790000000',
  'webhook-signature': `v1,${'A'.repeat(43)}=`,
  'dq-topic': 'bench',
  'dq-job-id': '01991d3c-7a52-7f43-9c5e-3b1f6f2f8a10',
  'dq-attempt': '1',
  'dq-max-attempts': '16',
  'dq-due-at': '2026-01-01T00:00:00.000Z',
};

/** Calls a sink at full speed with one bare undici loop, `width` calls at once. */
export async function bareCalls(url: string, calls: number, width: number): Promise<void> {
  const agent = new Agent({ pipelining: 1 });
  const body = Buffer.from(bodyOf(0));
  let [started, ended] = [0, 0];
  await new Promise<void>((resolve, reject) => {
    const call = () => {
      if (started++ >= calls) return;
      agent.dispatch(
        { origin: url, path: '/', method: 'POST', headers: { ...callbackHeaders }, body },
        {
          onRequestStart() {},
          onResponseStart(_controller, status) {
            if (status !== 200) reject(new Error(`sink: ${status}`));
          },
          onResponseData() {},
          onResponseEnd() {
            ended += 1;
            if (ended === calls) resolve();
            else call();
          },
          onResponseError: (_controller, error) => reject(error),
        },
      );
    };
    for (let n = 0; n < width; n++) call();
  });
  await agent.close();
}
