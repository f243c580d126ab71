// Starts long work of the daemon and waits for its end. The work goes on when the command is interrupted; the
// API still reports its result.

import { clearInterval, monotonicNow, setInterval, sleep } from '../../runtime/time.ts';
import { Exit } from '../exit.ts';
import { cliLimits } from '../limits.ts';
import { say } from '../output/output.ts';
import type { ApiCall, ApiClient, ApiReply } from './api-client.ts';

interface Work {
  readonly state: 'none' | 'running' | 'done' | 'failed';
  readonly reason?: string;
}

/** `doing`: "copying". Returns the reply with state done; throws Exit when the work failed or was lost. */
export async function doLongWork<R>(client: ApiClient, start: ApiCall, doing: string): Promise<ApiReply<R>> {
  await client.call(start);
  const since = monotonicNow();
  const timer = setInterval(() => {
    say(`dq: ${doing} for ${Math.round((monotonicNow() - since) / 1_000)} s`);
  }, cliLimits.progressEveryMs);
  try {
    for (;;) {
      const reply = await client.call<R & Work>({ path: start.path });
      const { state, reason } = reply.json;
      if (state === 'done') return reply;
      if (state === 'failed') throw new Exit('failed', reason ?? 'the work failed');
      if (state === 'none') throw new Exit('failed', 'dq-store restarted and lost the work; run this again');
      await sleep(cliLimits.workPollMs);
    }
  } finally {
    clearInterval(timer);
  }
}
