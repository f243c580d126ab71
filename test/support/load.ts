// Constant load on the HTTP API of a daemon: pushes at a steady rate, half on kept and half on new
// connections, and a receiver that counts arrivals. A push is never repeated; each failure is kept.
import { Agent, createServer, type IncomingMessage, request } from 'node:http';
import { onTestFinished } from 'vitest';
import { listening } from './listening.ts';
import { until } from './until.ts';

export interface LoadOptions {
  /** base of the API; read for each push, so a port may move */
  readonly url: () => string;
  readonly topic: string;
  readonly perSecond: number;
  /** pushes are due after 0 … delayMs, evenly */
  readonly delayMs?: number;
  /** start of the ids, where several loads push to one topic */
  readonly ids?: string;
}

export interface LoadFailure {
  readonly id: string;
  /** `ECONNREFUSED`, `ECONNRESET`, `status 503 {"code":…}` */
  readonly what: string;
  readonly kept: boolean;
  /** ms since the start of the load */
  readonly atMs: number;
}

export interface LoadResult {
  readonly pushed: number;
  readonly acknowledged: ReadonlySet<string>;
  readonly failures: readonly LoadFailure[];
  /** pushes that were answered, per second */
  readonly perSecond: number;
  /** from the request to its answer */
  readonly slowestMs: number;
}

export interface Load {
  readonly acknowledged: ReadonlySet<string>;
  readonly failures: readonly LoadFailure[];
  /** Resolves when every push has its answer. */
  stop(): Promise<LoadResult>;
}

/** At more pushes without an answer the machine is too slow: the load skips pushes until some have
 *  answers. */
const inFlightMax = 1_000;
const tickMs = 10;
/** dq keeps a connection for 5 s after its reply. A pause of this process may hide that time, and the next
 *  push would meet the end of the connection. After a pause this long none is kept that was idle in it, or
 *  whose reply is read after it. */
const pauseMs = 1_000;

export function startLoad({ url, topic, perSecond, delayMs = 500, ids = 'job-' }: LoadOptions): Load {
  // In turn, so that no connection is idle until its advertised time ends.
  const kept = new Agent({ keepAlive: true, maxSockets: 64, scheduling: 'fifo' });
  const acknowledged = new Set<string>();
  const failures: LoadFailure[] = [];
  const from = performance.now();
  let [pushed, inFlight, slowestMs] = [0, 0, 0];
  /** performance.now() of the last tick, and of the last one after a pause */
  let [tickedAt, pausedAt] = [from, Number.NEGATIVE_INFINITY];

  const push = (n: number) => {
    const id = `${ids}${n}`;
    const isKept = n % 2 === 0;
    const startedAt = performance.now();
    let over = false;
    const end = (what: string | null) => {
      if (over) return;
      over = true;
      inFlight -= 1;
      slowestMs = Math.max(slowestMs, performance.now() - startedAt);
      if (what === null) acknowledged.add(id);
      else failures.push({ id, what, kept: isKept, atMs: Math.round(startedAt - from) });
    };
    inFlight += 1;
    const sent = request(
      `${url()}/v1/topics/${topic}/jobs?id=${id}&delay=${(n * 7_919) % Math.max(delayMs, 1)}ms`,
      { method: 'POST', agent: isKept ? kept : false, headers: { 'content-type': 'application/json' } },
      (response: IncomingMessage) => {
        const { socket } = response;
        let text = '';
        response.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
        response.on('end', () => {
          const { statusCode = 0 } = response;
          if (performance.now() - pausedAt < pauseMs) socket.destroy();
          end(statusCode >= 200 && statusCode < 300 ? null : `status ${statusCode} ${text}`);
        });
        response.on('error', (error: NodeJS.ErrnoException) => end(error.code ?? error.message));
      },
    );
    sent.on('error', (error: NodeJS.ErrnoException) => end(error.code ?? error.message));
    sent.end(`{"n":${n}}`);
  };
  const timer = setInterval(() => {
    const now = performance.now();
    if (now - tickedAt > pauseMs) {
      pausedAt = now;
      for (const idle of Object.values(kept.freeSockets)) for (const socket of idle ?? []) socket.destroy();
    }
    tickedAt = now;
    const due = Math.floor(((performance.now() - from) * perSecond) / 1000);
    for (; pushed < due && inFlight < inFlightMax; pushed += 1) push(pushed);
  }, tickMs);
  let result: LoadResult | null = null;
  const stop = async (): Promise<LoadResult> => {
    if (result !== null) return result;
    clearInterval(timer);
    const seconds = (performance.now() - from) / 1000;
    await until('every push has its answer', () => inFlight === 0);
    kept.destroy();
    const answered = acknowledged.size + failures.length;
    result = {
      pushed,
      acknowledged,
      failures,
      perSecond: Math.round(answered / seconds),
      slowestMs: Math.round(slowestMs),
    };
    return result;
  };
  onTestFinished(() => {
    clearInterval(timer);
    kept.destroy();
  });
  return { acknowledged, failures, stop };
}

export interface Receiver {
  readonly url: string;
  /** id → how often it has arrived */
  readonly arrivals: ReadonlyMap<string, number>;
  /** callbacks without an answer */
  open(): number;
}

/** Answers each callback after 0 … waitMs, so that some always run. */
export async function startReceiver(waitMs = 200): Promise<Receiver> {
  const arrivals = new Map<string, number>();
  let open = 0;
  const server = createServer((incoming, response) => {
    const id = String(incoming.headers['dq-job-id']);
    arrivals.set(id, (arrivals.get(id) ?? 0) + 1);
    open += 1;
    response.on('close', () => (open -= 1));
    incoming.resume();
    setTimeout(() => response.writeHead(200).end('{"code":200}'), (arrivals.size * 7) % Math.max(waitMs, 1));
  });
  server.keepAliveTimeout = 60_000;
  const port = await listening(server);
  return {
    url: `http://127.0.0.1:${port}/`,
    arrivals,
    open: () => open,
  };
}
