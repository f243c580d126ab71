// Measures the Redis memory of a waiting job: pushed through the API into a Redis without persistence.
// Counts bytes of the allocator: used_memory after minus before, divided by the jobs.

import { setTimeout as sleep } from 'node:timers/promises';
import { Agent, request } from 'undici';
import { type RedisServer, startRedis } from '../../services/redis.ts';
import type { Bench } from '../bench.ts';
import { startDaemon } from '../dq.ts';
import { print } from '../figures.ts';

const batchJobs = 1_000;
const senders = 4;
const topics = 10;
const idBytes = 16;
const bodyBytes = 110;
/** The jobs are due within this time; none is due during the measurement. */
const spreadMs = 3_600_000;

/** 1,000,000 take some minutes and about 400 MB. */
const defaultJobs = 1_000_000;

export async function memory({ build, options }: Bench): Promise<void> {
  const jobs = options.jobs || defaultJobs;
  const redis = await startRedis();
  const dq = await startDaemon({ ...build, store: 'embedded' }, '--redis', redis.url);
  try {
    for (let n = 0; n < topics; n++)
      await dq.api('POST', '/v1/topics', { topic: `bench-${n}`, callbackUrl: 'http://127.0.0.1:9/' });
    // Topics get their numbers, Redis loads the scripts, connections allocate their buffers.
    await pushBatch(dq.url, numbered(0, topics));
    const before = await memoryOf(redis);
    const from = performance.now();
    await pushAll(dq.url, topics, jobs + topics);
    const seconds = (performance.now() - from) / 1000;
    const after = await settledMemory(redis);
    console.log(
      `    ${jobs.toLocaleString('en')} jobs of ${bodyBytes} bytes, ids of ${idBytes}, ${topics} topics`,
    );
    print('memory of a job, as the allocator counts', [(after.used - before.used) / jobs], 'bytes');
    print('resident memory of Redis, of a job', [(after.resident - before.resident) / jobs], 'bytes');
    print(`pushed in batches of ${batchJobs}`, [jobs / seconds], 'jobs/s');
  } finally {
    await dq.stop();
    await redis.stop();
  }
}

async function pushAll(url: string, first: number, end: number): Promise<void> {
  const agent = new Agent({ connections: senders });
  let next = first;
  const one = async () => {
    while (next < end) {
      const at = next;
      next = Math.min(end, at + batchJobs);
      await pushBatch(url, numbered(at, next), agent);
    }
  };
  await Promise.all(Array.from({ length: senders }, one));
  await agent.close();
}

const numbered = (from: number, end: number) => Array.from({ length: end - from }, (_, n) => from + n);

async function pushBatch(url: string, numbers: readonly number[], dispatcher?: Agent): Promise<void> {
  const items = numbers.map((n) => {
    const body = JSON.stringify({ order: n, note: '' });
    return {
      topic: `bench-${n % topics}`,
      id: String(n).padStart(idBytes, '0'),
      delay: `${spreadMs + ((n * 7_919) % spreadMs)}ms`,
      body: { order: n, note: 'x'.repeat(bodyBytes - body.length) },
    };
  });
  const reply = await request(`${url}/v1/jobs`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(items),
    ...(dispatcher === undefined ? {} : { dispatcher }),
  });
  const { failed } = (await reply.body.json()) as { failed?: number };
  if (failed !== 0)
    throw new Error(`memory: a batch was answered with ${reply.statusCode}, ${failed} failed`);
}

async function memoryOf(redis: RedisServer): Promise<{ used: number; resident: number }> {
  const text = await redis.ask('INFO', 'memory');
  const of = (name: string) => Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(text)?.[1]);
  return { used: of('used_memory') - of('mem_clients_normal'), resident: of('used_memory_rss') };
}

/** Redis moves hash tables in the background: the old ones go when the new ones are filled. */
async function settledMemory(redis: RedisServer): Promise<{ used: number; resident: number }> {
  for (let last = await memoryOf(redis); ; ) {
    await sleep(1_000);
    const now = await memoryOf(redis);
    if (Math.abs(now.used - last.used) < 64 * 1024) return now;
    last = now;
  }
}
