// The producer in a process of its own: pushes jobs with unique ids at a steady rate, some of them again or
// with a cancel, and logs each request before it is sent and each answer. Ends when each has its answer, or
// after the end of its standard input. Argument: a ProducerOrder in JSON.
import { createHash } from 'node:crypto';
import { request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { Dice } from '../dice.ts';
import { type EventBody, type Fate, History } from './history.ts';

export interface ProducerOrder {
  readonly history: string;
  readonly url: string;
  readonly topics: readonly string[];
  readonly jobs: number;
  readonly perSecond: number;
  readonly seed: number;
  /** of the topics */
  readonly maxAttempts: number;
}

/** More requests without an answer wait: a stopped daemon must not fill the memory. */
const inFlightMax = 400;
/** Without an answer for so long a request counts as unknown. dq answers within 3 s while it runs. */
const answerMsMax = 15_000;
/** Longer in all than a daemon on a busy machine takes to start. */
const triesMax = 60;
const againMs = 500;
const tickMs = 10;

const order = JSON.parse(process.argv[2] ?? '') as ProducerOrder;
const history = new History(order.history);
const dice = new Dice(order.seed);
let [begun, open, ops, isStopped] = [0, 0, 0, false];

interface Reply {
  readonly status: number;
  readonly body: Readonly<Record<string, unknown>>;
}

/** A new connection each: a kept one may end while it is idle, which is the fault of no process. */
function send(method: string, path: string, body: string): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const sent = request(
      order.url + path,
      { method, agent: false, headers: { 'content-type': 'application/json' } },
      (response) => {
        let text = '';
        response.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
        response.on('error', reject);
        response.on('end', () => {
          try {
            resolve({ status: response.statusCode ?? 0, body: JSON.parse(text) as Reply['body'] });
          } catch (error) {
            reject(error);
          }
        });
      },
    );
    sent.setTimeout(answerMsMax, () => sent.destroy(new Error(`no answer within ${answerMsMax} ms`)));
    sent.on('error', reject);
    sent.end(body);
  });
}

/** Logs the request and its result. */
async function operate(
  asked: (op: string) => EventBody,
  ask: () => Promise<Reply>,
  answered: (op: string, reply: Reply) => EventBody | null,
): Promise<'done' | 'rejected' | 'unknown'> {
  ops += 1;
  const op = String(ops);
  history.add(asked(op));
  try {
    const reply = await ask();
    const result = answered(op, reply);
    if (result !== null) {
      history.add(result);
      return 'done';
    }
    const why = `status ${reply.status} ${String(reply.body['code'])}`;
    const isUnknown =
      reply.status >= 500 && reply.body['code'] !== 'not_stored' && reply.body['code'] !== 'restoring';
    history.add(
      isUnknown ? { kind: 'unknown', op, why } : { kind: 'rejected', op, status: reply.status, why },
    );
    return isUnknown ? 'unknown' : 'rejected';
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const why = code ?? message;
    const isRefused = code === 'ECONNREFUSED';
    history.add(isRefused ? { kind: 'rejected', op, status: 0, why } : { kind: 'unknown', op, why });
    return isRefused ? 'rejected' : 'unknown';
  }
}

interface Plan {
  readonly topic: string;
  readonly id: string;
  readonly fate: Fate;
  readonly delayMs: number;
}

function push(
  { topic, id, fate, delayMs }: Plan,
  tag: string,
  mode: 'replace' | 'keep',
): ReturnType<typeof operate> {
  const body = JSON.stringify({ id, tag, fate, pad: 'ä'.repeat(dice.below(200)) });
  const sha = createHash('sha256').update(body).digest('hex');
  const maxAttempts = fate === 'exhausted' ? 2 : order.maxAttempts;
  const own = fate === 'exhausted' ? `&maxAttempts=${maxAttempts}` : '';
  const query = `id=${id}&delay=${delayMs}ms&mode=${mode}${own}`;
  return operate(
    (op) => ({ kind: 'push', op, topic, id, tag, mode, delayMs, fate, maxAttempts, sha }),
    () => send('POST', `/v1/topics/${topic}/jobs?${query}`, body),
    (op, reply) => {
      const { dueAt, replaced, duplicate, inFlight } = reply.body;
      if (reply.status >= 300) return null;
      const flags = { replaced: replaced === true, duplicate: duplicate === true };
      return { kind: 'pushed', op, dueAt: Date.parse(String(dueAt)), ...flags, inFlight: inFlight === true };
    },
  );
}

function cancel({ topic, id }: Plan): ReturnType<typeof operate> {
  return operate(
    (op) => ({ kind: 'cancel', op, id }),
    () => send('DELETE', `/v1/topics/${topic}/jobs/${id}`, ''),
    (op, { status, body }) => {
      const absent = status === 404 && body['code'] === 'job_not_found';
      if (status !== 200 && !absent) return null;
      return { kind: 'cancelled', op, absent, inFlight: body['inFlight'] === true };
    },
  );
}

async function produce(n: number): Promise<void> {
  const id = `j${n}`;
  const topic = order.topics[n % order.topics.length] ?? '';
  const share = dice.next();
  const delayMs = dice.chance(0.3) ? 0 : dice.below(2_500);
  const fates: readonly Fate[] = ['gone', 'stopped', 'exhausted'];
  const fate = share < 0.05 ? dice.pick(fates) : share < 0.12 ? 'flaky' : 'done';
  const plan = { topic, id, fate, delayMs };
  const second = share > 0.72 ? dice.pick(['cancel', 'replace', 'keep'] as const) : null;
  const gapMs = dice.below(2_000);
  // As a producer does that needs its job: again, each time with another body.
  for (let tried = 1; (await push(plan, `${id}.${tried}`, 'replace')) !== 'done'; tried++) {
    if (tried === triesMax || isStopped) return;
    await sleep(againMs);
  }
  if (second === null) return;
  await sleep(gapMs);
  if (second === 'cancel') await cancel(plan);
  else await push({ ...plan, delayMs: dice.below(1_500) }, `${id}.${second}`, second);
}

process.stdin.resume();
process.stdin.on('end', () => {
  isStopped = true;
});
const from = performance.now();
const timer = setInterval(() => {
  const due = Math.min(order.jobs, Math.floor(((performance.now() - from) * order.perSecond) / 1_000));
  for (; !isStopped && begun < due && open < inFlightMax; begun += 1) {
    open += 1;
    void produce(begun).finally(() => {
      open -= 1;
    });
  }
  if ((!isStopped && begun < order.jobs) || open > 0) return;
  clearInterval(timer);
  process.exit(0);
}, tickMs);
