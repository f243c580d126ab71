// A receiver in a process of its own: logs each call when it has arrived and each answer before it is sent,
// and answers as the body of the job says. Arguments: history file, port, name.
import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { type Fate, History } from './history.ts';

const [path = '', port = '', name = ''] = process.argv.slice(2);
const history = new History(path);
/** Answers come after 0 … this, so that calls run when faults begin. */
const waitMsMax = 250;
const isSuccess: Readonly<Record<Fate, (attempt: number) => boolean>> = {
  done: () => true,
  flaky: (attempt) => attempt > 1,
  gone: () => false,
  stopped: () => false,
  exhausted: () => false,
};
let calls = 0;

function receive(request: IncomingMessage, response: ServerResponse, body: Buffer): void {
  calls += 1;
  const call = `${name}-${process.pid}-${calls}`;
  const header = (field: string) => String(request.headers[field]);
  const { tag, fate } = JSON.parse(body.toString()) as { readonly tag: string; readonly fate: Fate };
  const attempt = Number(header('dq-attempt'));
  const sha = createHash('sha256').update(body).digest('hex');
  history.add({
    ...{ kind: 'call', call, id: decodeURIComponent(header('dq-job-id')), tag, attempt, sha },
    ...{ webhookId: header('webhook-id'), dueAt: Date.parse(header('dq-due-at')) },
  });
  let isAnswered = false;
  response.on('close', () => {
    if (!isAnswered) history.add({ kind: 'broken', call });
  });
  const waitMs = (Number.parseInt(sha.slice(0, 6), 16) + 37 * attempt) % waitMsMax;
  setTimeout(() => {
    if (response.destroyed) return;
    const status = isSuccess[fate](attempt) ? 200 : fate === 'gone' ? 410 : 500;
    const final = fate === 'gone' || fate === 'stopped';
    isAnswered = true;
    history.add({ kind: 'answer', call, status, final });
    response.writeHead(status, fate === 'stopped' ? { 'dq-no-retry': 'true' } : {}).end('{}');
  }, waitMs);
}

const server = createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => receive(request, response, Buffer.concat(chunks)));
});
server.keepAliveTimeout = 60_000;
server.listen(Number(port), '127.0.0.1');
