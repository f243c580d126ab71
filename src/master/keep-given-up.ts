// Records in the data directory that the daemon has given up, if dq-upkeep could not: the next start mails
// it. Invariant: called when every worker has ended, so that no other process writes incidents.

import { reasonOf } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import {
  givenUp,
  givenUpDetail,
  IncidentFiles,
  newIncident,
  openIncidents,
} from '../process/incident-files.ts';
import { printable } from '../runtime/printable-text.ts';
import type { Log } from '../telemetry/log.ts';

/** Never rejects: the log and the exit code report it, too. */
export async function keepGivenUp(dataDir: string, reason: string, log: Log): Promise<void> {
  try {
    const files = new IncidentFiles(dataDir);
    const known = await files.list();
    // dq-upkeep has recorded it, or no start has lasted since an earlier one.
    if (openIncidents(known).some(({ kind }) => kind === givenUp.kind)) return;
    const detail = printable(givenUpDetail(reason)).slice(0, limits.logValueMax);
    const ids = known.map(({ id }) => id);
    await files.write(newIncident({ ...givenUp, state: 'begun', detail }, ids));
  } catch (error) {
    log.error('master: cannot record that the daemon gave up', undefined, { reason: reasonOf(error) });
  }
}
