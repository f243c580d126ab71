// Opens consoles as browsers do: sessions on the console's port that poll what the pages overview, topic and
// job poll (src/console/web/screens). Compares pushes, deliveries, the start and an idle daemon with and
// without them, interleaved in one run.

import { Agent, request } from 'undici';
import type { BenchDaemon } from './dq.ts';

/** Paths and their intervals in ms. The job is due soon, as a page polls it most often. */
const pollsOf = (topic: string, job: string): readonly (readonly [path: string, everyMs: number])[] => [
  ['/v1/summary', 5_000],
  ['/v1/series?from=24h&step=10m', 15_000],
  ['/v1/horizon', 30_000],
  [`/v1/series/topics?names=${topic}`, 60_000],
  [`/v1/topics/${topic}`, 5_000],
  [`/v1/topics/${topic}/stats`, 5_000],
  [`/v1/topics/${topic}/capacity`, 5_000],
  [`/v1/series?from=24h&step=10m&topic=${topic}`, 15_000],
  [`/v1/series?from=5m&topic=${topic}`, 15_000],
  [`/v1/horizon?topic=${topic}`, 30_000],
  [`/v1/attempts?topic=${topic}`, 5_000],
  [`/v1/endpoints?topic=${topic}`, 5_000],
  [`/v1/topics/${topic}/jobs/${job}`, 1_000],
];

export interface OpenConsoles {
  /** Ends the polls; returns the replies by status. */
  close(): Promise<Readonly<Record<string, number>>>;
}

/** `count` sessions, which begin at different times of the interval. */
export async function openConsoles(
  dq: BenchDaemon,
  count: number,
  topic: string,
  job: string,
): Promise<OpenConsoles> {
  const url = await dq.consoleUrl();
  const agent = new Agent({ pipelining: 1 });
  const replies: Record<string, number> = {};
  const timers = new Set<NodeJS.Timeout>();
  const running = new Set<Promise<void>>();
  let isOpen = true;
  for (let n = 0; n < count; n++) {
    const headers = await signIn(url);
    for (const [path, everyMs] of pollsOf(topic, job)) {
      const look = async (): Promise<void> => {
        const status = await request(url + path, { headers, dispatcher: agent }).then(
          async ({ statusCode, body }) => {
            await body.dump();
            return String(statusCode);
          },
          (error: NodeJS.ErrnoException) => error.code ?? 'error',
        );
        replies[status] = (replies[status] ?? 0) + 1;
        if (isOpen) later(everyMs);
      };
      const later = (ms: number): void => {
        const timer = setTimeout(() => {
          timers.delete(timer);
          const polled = look().finally(() => running.delete(polled));
          running.add(polled);
        }, ms);
        timers.add(timer);
      };
      later((Math.min(everyMs, 5_000) * n) / count);
    }
  }
  return {
    async close() {
      isOpen = false;
      for (const timer of timers) clearTimeout(timer);
      await Promise.all(running);
      await agent.close();
      return replies;
    },
  };
}

/** Both halves of a new session. */
async function signIn(url: string): Promise<Record<string, string>> {
  const reply = await fetch(`${url}/v1/session`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: '{}',
  });
  if (!reply.ok) throw new Error(`sign-in: ${reply.status} ${await reply.text()}`);
  const { key } = (await reply.json()) as { key: string };
  const [cookie = ''] = (reply.headers.get('set-cookie') ?? '').split(';');
  return { cookie, 'x-dq-key': key };
}
