// Reads /readyz of a local daemon: running processes do not prove that Redis or MySQL answers.

import { messageOf } from '../../core/errors.ts';
import { readRunRecord } from '../../master/data/run-record.ts';
import { monotonicNow, sleep, timeoutSignal } from '../../runtime/time.ts';
import { Exit } from '../exit.ts';
import { cliLimits } from '../limits.ts';

/** Reason in one line; null = ready. Never rejects. `url`: of the daemon on `dataDir`. */
export async function whyNotReady(url: string, dataDir: string): Promise<string | null> {
  try {
    // Without a token /readyz omits the reason.
    const token = readRunRecord(dataDir)?.adminToken;
    const reply = await fetch(`${url}/readyz`, {
      // A stop or reload would wait for an idle connection.
      headers: { connection: 'close', ...(token !== undefined && { authorization: `Bearer ${token}` }) },
      signal: timeoutSignal(cliLimits.readyAskMs),
    });
    if (reply.ok) return null;
    const { detail } = (await reply.json()) as { detail?: unknown };
    return typeof detail === 'string' ? detail : `/readyz answers ${reply.status}`;
  } catch (error) {
    return `${unanswered}: ${messageOf(error)}`;
  }
}

/** The end of a command that started a daemon. A script learns that Redis or MySQL is missing; the daemon
 *  waits for them. */
export const runsNotReady = (why: string): Exit =>
  new Exit('notReady', `the daemon runs, and is not ready: ${why}`);

const unanswered = '/readyz does not answer';

/** Calls `report` with the first look: null, or why dq is not ready; then with each further reason within
 *  cliLimits.readyReasonsMs, and with null once dq is ready. A server that is slow at first may reject the
 *  password later. */
export async function watchReadiness(
  url: string,
  dataDir: string,
  report: (why: string | null) => void,
): Promise<void> {
  const reasons = new Set<string>();
  const end = monotonicNow() + cliLimits.readyReasonsMs;
  for (;;) {
    const why = await whyNotReady(url, dataDir);
    if (why === null) {
      report(null);
      return;
    }
    // Later it may be ending: no reason to report.
    const isNew = !why.startsWith(unanswered) && !reasons.has(why) && monotonicNow() < end;
    if (reasons.size === 0 || isNew) {
      report(why);
      reasons.add(why);
    }
    await sleep(cliLimits.readyLookMs, { ref: false });
  }
}
