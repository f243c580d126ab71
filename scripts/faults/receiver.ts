// A receiver in a process of its own: logs each call when it has arrived and each answer before it is sent,
// and answers as the body of the job says. Arguments: history file, port, topic.
import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { type EventOf, type Fate, History } from './history.ts';

const [path = '', port = '', topic = ''] = process.argv.slice(2);
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

type Described = Pick<EventOf<'call'>, 'tag' | 'follows'> & { readonly fate: Fate };

/** What the body of a pushed job says, or of an outcome job, which has the body of the ended one in it. */
function described(body: string, webhookId: string): Described {
  const { tag, fate, type, ...ended } = JSON.parse(body);
  if (type === undefined) return { tag, fate };
  const isDead = type === 'dq.dead';
  // A spool with little space leaves the body out (jobs.ts).
  const pushed = ended.body === null ? {} : JSON.parse(ended.body);
  const follows = { tag: pushed.tag ?? ended.webhookId, isDead };
  return { tag: webhookId, fate: 'done', follows };
}

function receive(request: IncomingMessage, response: ServerResponse, body: Buffer): void {
  calls += 1;
  const call = `${topic}-${process.pid}-${calls}`;
  const header = (field: string) => String(request.headers[field]);
  const webhookId = header('webhook-id');
  const { fate, ...its } = described(body.toString(), webhookId);
  const attempt = Number(header('dq-attempt'));
  const sha = createHash('sha256').update(body).digest('hex');
  history.add({
    ...{ kind: 'call', call, topic, id: decodeURIComponent(header('dq-job-id')), ...its, attempt, sha },
    ...{ webhookId, dueAt: Date.parse(header('dq-due-at')) },
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
