// Keeps in the data directory that the daemon has given up, where no dq-upkeep was left to be told: the next start mails it.
// Invariant: called when every worker has ended, so that nobody else writes incidents.

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

/** Never rejects: the log and the exit code tell too. */
export async function keepGivenUp(dataDir: string, reason: string, log: Log): Promise<void> {
  try {
    const files = new IncidentFiles(dataDir);
    const known = await files.list();
    // dq-upkeep was there, or an earlier end has not been followed by a start that lasted.
    if (openIncidents(known).some(({ kind }) => kind === givenUp.kind)) return;
    const detail = printable(givenUpDetail(reason)).slice(0, limits.logValueMax);
    const ids = known.map(({ id }) => id);
    await files.write(newIncident({ ...givenUp, state: 'begun', detail }, ids));
  } catch (error) {
    log.error('nobody will be mailed that the daemon has ended', undefined, { reason: reasonOf(error) });
  }
}
