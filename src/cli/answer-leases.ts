// Answers leases of pulled jobs: dq ack, dq nack, dq extend. Reports each lease that dq did not accept.

import type { ApiCall } from './daemon/api-client.ts';
import { clientOf, type DaemonOptions } from './daemon/daemon-options.ts';
import { Exit } from './exit.ts';
import { printData, say } from './output/output.ts';

export interface LeaseResults {
  readonly results: readonly {
    readonly status: number;
    readonly code?: string;
    readonly leaseUntil?: string;
  }[];
}

export const leaseCall = (verb: 'ack' | 'nack' | 'extend', json: object): ApiCall => ({
  method: 'POST',
  path: ['v1', 'leases', verb],
  json,
  needs: ['results'],
});

/** Prints the ends of extended leases, one per line. Throws Exit when a lease was not accepted. */
export async function answerLeases(
  verb: 'ack' | 'nack' | 'extend',
  leases: readonly string[],
  more: Readonly<Record<string, unknown>>,
  flags: DaemonOptions,
): Promise<void> {
  const names = { for: '--for', delay: '--delay', reason: '--reason', dead: '--dead', release: '--release' };
  const reply = await clientOf(flags).call<LeaseResults>({
    ...leaseCall(verb, { leases, ...more }),
    flags: names,
  });
  const { results } = reply.json;
  if (flags.json) printData(reply.text);
  else for (const { leaseUntil } of results) if (leaseUntil !== undefined) printData(leaseUntil);
  const failed = results.flatMap(({ status, code }, n) =>
    status === 200 ? [] : [{ n, code: code ?? status }],
  );
  for (const { n, code } of failed) say(`dq: ${leases[n]}: ${code}`);
  if (failed.length === 0) return;
  throw new Exit(
    failed.length < results.length ? 'partlyFailed' : 'failed',
    `${failed.length} of ${results.length} leases failed`,
  );
}
