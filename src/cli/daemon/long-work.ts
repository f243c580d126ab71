// Starts a long work of the daemon and waits for its end. An interrupted command leaves the work running; its end can be asked for
// over the API.

import { setTimeout as sleep } from 'node:timers/promises';
import { Exit } from '../exit.ts';
import { cliLimits } from '../limits.ts';
import { say } from '../output/output.ts';
import type { ApiCall, ApiClient, ApiReply } from './api-client.ts';

interface Work {
  readonly state: 'none' | 'running' | 'done' | 'failed';
  readonly reason?: string;
}

/** `doing`: "copying". Answers the reply that says done; throws Exit for a work that failed or was lost. */
export async function doLongWork<R>(client: ApiClient, start: ApiCall, doing: string): Promise<ApiReply<R>> {
  await client.call(start);
  const since = performance.now();
  const timer = setInterval(() => {
    say(`dq: ${doing} for ${Math.round((performance.now() - since) / 1_000)} s`);
  }, cliLimits.progressEveryMs);
  try {
    for (;;) {
      const reply = await client.call<R & Work>({ method: 'GET', path: start.path });
      const { state, reason } = reply.json;
      if (state === 'done') return reply;
      if (state === 'failed') throw new Exit('failed', reason ?? 'it failed');
      if (state === 'none') throw new Exit('failed', 'the store was started again meanwhile; start over');
      await sleep(cliLimits.workPollMs);
    }
  } finally {
    clearInterval(timer);
  }
}
