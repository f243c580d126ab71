// Reads /readyz of a local daemon: running processes do not prove that Redis or MySQL answers.

import { reasonOf } from '../../core/errors.ts';
import { readRunRecord } from '../../master/data/run-record.ts';
import { cliLimits } from '../limits.ts';

/** Reason in one line; null = ready. Never rejects. `url`: of the daemon on `dataDir`. */
export async function whyNotReady(url: string, dataDir: string): Promise<string | null> {
  try {
    // Without a token /readyz omits the reason.
    const token = readRunRecord(dataDir)?.adminToken;
    const reply = await fetch(`${url}/readyz`, {
      headers: token === undefined ? {} : { authorization: `Bearer ${token}` },
      signal: AbortSignal.timeout(cliLimits.readyAskMs),
    });
    if (reply.ok) return null;
    const { detail } = (await reply.json()) as { detail?: unknown };
    return typeof detail === 'string' ? detail : `/readyz answers ${reply.status}`;
  } catch (error) {
    return `/readyz does not answer: ${reasonOf(error)}`;
  }
}
