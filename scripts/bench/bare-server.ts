// The yardsticks of the intake, each in its own process: servers on bare node:http that check the JSON of a
// push and answer as dq does. What they promise is the argument: see BareKind in servers.ts. Prints its port;
// ends with its standard input.
import { fdatasyncSync, openSync, writeSync } from 'node:fs';
import { createServer, type ServerResponse } from 'node:http';
import { Redis } from 'ioredis';

const [kind, argument = ''] = process.argv.slice(2);
let received = 0;

interface Push {
  readonly body: Buffer;
  readonly response: ServerResponse;
}

/** Pushes that arrived since the last write; written together. */
let waiting: Push[] = [];
let write: ((pushes: readonly Push[]) => Promise<void>) | null = null;

if (kind === 'push-file') {
  const file = openSync(argument, 'a');
  // Not in libuv's pool of threads: with an fdatasync of 0.05 ms that took 15 % more CPU per push.
  write = async (pushes) => {
    writeSync(file, Buffer.concat(pushes.map(({ body }) => body)));
    fdatasyncSync(file);
  };
}
if (kind === 'push-redis') {
  const redis = new Redis(argument);
  write = async (pushes) => {
    const pipeline = redis.pipeline();
    for (const { body } of pushes) {
      const id = String(received++);
      pipeline.hset('jobs', id, body).zadd('due', Date.now() + 3_600_000, id);
    }
    for (const [error] of (await pipeline.exec()) ?? []) if (error !== null) throw error;
  };
}

let isWriting = false;
async function writeWaiting(): Promise<void> {
  if (write === null || isWriting) return;
  isWriting = true;
  while (waiting.length > 0) {
    const pushes = waiting;
    waiting = [];
    await write(pushes);
    for (const { response } of pushes) answer(response);
    // The next group is what the sockets have by now.
    await new Promise(setImmediate);
  }
  isWriting = false;
}

function answer(response: ServerResponse): void {
  const reply = JSON.stringify({
    topic: 'bench',
    id: String(received++),
    version: '1',
    state: 'delayed',
    dueAt: new Date().toISOString(),
  });
  response.writeHead(201, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(reply) });
  response.end(reply);
}

const server = createServer((request, response) => {
  if (kind === 'hang') return;
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    const body = chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks);
    JSON.parse(body.toString());
    if (write === null) return answer(response);
    waiting.push({ body, response });
    if (!isWriting && waiting.length === 1) setImmediate(() => void writeWaiting());
  });
});
server.listen(0, kind === 'hang' ? '0.0.0.0' : '127.0.0.1', () =>
  console.log((server.address() as { port: number }).port),
);
process.stdin.resume();
process.stdin.on('end', () => process.exit(0));
