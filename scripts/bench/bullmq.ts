// The peer BullMQ as a user would set it up: `server FOLDER REDIS` is a bare HTTP server in front of
// Queue.add(), `worker FOLDER REDIS SINK` a worker that calls the sink with undici. Prints its port; ends
// with its standard input. FOLDER has the installed packages: they are not dependencies of dq.
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { Agent, request } from 'undici';
import { bodyOf, callbackHeaders } from './generators.ts';

interface BullQueue {
  add(name: string, data: unknown, options: { delay?: number }): Promise<{ id?: string }>;
  addBulk(jobs: readonly { name: string; data: unknown }[]): Promise<unknown>;
  pause(): Promise<void>;
  resume(): Promise<void>;
}

const [kind, folder = '', redisUrl = '', sinkUrl = ''] = process.argv.slice(2);
const { Queue, Worker } = createRequire(join(folder, 'package.json'))('bullmq') as {
  Queue: new (name: string, options: object) => BullQueue;
  Worker: new (name: string, work: (job: { data: unknown }) => Promise<void>, options: object) => object;
};
const { hostname: host, port } = new URL(redisUrl);
const connection = { host, port: Number(port), maxRetriesPerRequest: null };

const server = createServer();
if (kind === 'server') {
  const queue = new Queue('bench', { connection });
  server.on('request', (request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', async () => {
      if (request.url === '/jobs') {
        const data: unknown = JSON.parse(Buffer.concat(chunks).toString());
        const { id } = await queue.add('job', data, { delay: 3_600_000 });
        const reply = JSON.stringify({ id });
        response.writeHead(201, { 'content-type': 'application/json', 'content-length': reply.length });
        response.end(reply);
        return;
      }
      const jobs = Number(new URL(request.url ?? '', 'http://bench').searchParams.get('jobs'));
      if (jobs === 0) await queue.resume();
      else await queue.pause();
      for (let n = 0; n < jobs; n += 1_000)
        await queue.addBulk(
          Array.from({ length: Math.min(1_000, jobs - n) }, (_, at) => ({
            name: 'job',
            data: JSON.parse(bodyOf(n + at)) as unknown,
          })),
        );
      response.end();
    });
  });
} else {
  const agent = new Agent({ pipelining: 1 });
  const call = async ({ data }: { data: unknown }) => {
    const headers = { ...callbackHeaders };
    const body = JSON.stringify(data);
    const reply = await request(sinkUrl, { method: 'POST', headers, body, dispatcher: agent });
    await reply.body.dump();
    if (reply.statusCode !== 200) throw new Error(String(reply.statusCode));
  };
  new Worker('bench', call, { connection, concurrency: 256 });
}
server.listen(0, '127.0.0.1', () => console.log((server.address() as { port: number }).port));
process.stdin.resume();
process.stdin.on('end', () => process.exit(0));
