// Reads /readyz of a local daemon: running processes do not prove that Redis or MySQL answers.

import { messageOf } from '../../core/errors.ts';
import { readRunRecord } from '../../master/data/run-record.ts';
import { exchange } from '../../runtime/exchange.ts';
import { monotonicNow, sleep, timeoutSignal } from '../../runtime/time.ts';
import { Exit } from '../exit.ts';
import { cliLimits } from '../limits.ts';
import { escapeControls, say } from '../output/output.ts';

export interface Readiness {
  /** one line; null = ready */
  readonly why: string | null;
  /** dangerous settings, stores that are not in force; empty while it is not ready */
  readonly warnings: readonly string[];
}

/** Never rejects. `url`: of the daemon on `dataDir`. */
export async function readinessOf(url: string, dataDir: string): Promise<Readiness> {
  try {
    // Without a token /readyz omits the reason.
    const token = readRunRecord(dataDir)?.adminToken;
    const { status, text } = await exchange(`${url}/readyz`, {
      headers: token === undefined ? {} : { authorization: `Bearer ${token}` },
      signal: timeoutSignal(cliLimits.readyAskMs),
    });
    const { detail, warnings = [] } = JSON.parse(text) as { detail?: unknown; warnings?: string[] };
    if (status === 200) return { why: null, warnings };
    return { why: typeof detail === 'string' ? detail : `/readyz answers ${status}`, warnings: [] };
  } catch (error) {
    return { why: `${unanswered}: ${messageOf(error)}`, warnings: [] };
  }
}

/** A line for people. */
export const warningLine = (warning: string): string => `dq: warning: ${escapeControls(warning)}`;

/** Waits at most cliLimits.readyWaitMs until a daemon that was started is ready. Prints why it is not, and
 *  its warnings. Returns the end of the command, null = ready: a script learns that Redis or MySQL is
 *  missing, and the daemon waits for them. `look`: for tests */
export async function untilReady(
  url: string,
  dataDir: string,
  look: typeof readinessOf = readinessOf,
): Promise<Exit | null> {
  const end = monotonicNow() + cliLimits.readyWaitMs;
  for (let known: string | null = null; ; ) {
    const { why, warnings } = await look(url, dataDir);
    for (const warning of warnings) say(warningLine(warning));
    if (why === null) return null;
    if (monotonicNow() >= end) return new Exit('notReady', `the daemon runs, and is not ready: ${why}`);
    if (why !== known) say(`dq: not ready yet: ${why}`);
    known = why;
    await sleep(cliLimits.workPollMs);
  }
}

const unanswered = '/readyz does not answer';

/** Calls `report` with the first look; then with each further reason within cliLimits.readyReasonsMs, and
 *  once dq is ready. A server that is slow at first may reject the password later. */
export async function watchReadiness(
  url: string,
  dataDir: string,
  report: (found: Readiness) => void,
): Promise<void> {
  const reasons = new Set<string>();
  const end = monotonicNow() + cliLimits.readyReasonsMs;
  for (;;) {
    const found = await readinessOf(url, dataDir);
    const { why } = found;
    if (why === null) {
      report(found);
      return;
    }
    // Later it may be ending: no reason to report.
    const isNew = !why.startsWith(unanswered) && !reasons.has(why) && monotonicNow() < end;
    if (reasons.size === 0 || isNew) {
      report(found);
      reasons.add(why);
    }
    await sleep(cliLimits.readyLookMs, { ref: false });
  }
}
