// The job store with a journal: a decorator of the port, for a store that names its changes. It calls the
// store, then writes the outcomes to the spool, then answers; so a rejected push leaves no record, and a
// record holds what the store decided. Roles and routes do not know it.
// Invariant: each verb that has a `record` in storeVerbs leaves one. No other verb changes anything that
// a job needs when it is put back.
// Rejected: records before the store's call. They cost two records per push, and one without an outcome would
// be a loss or a job that no producer knows.

import type { Store } from '../../ports/job-store.ts';
import type { Spool } from '../../ports/spool.ts';
import { journaledAdmin, journaledAlerts, journaledDead } from './journaled-bulk.ts';
import { journaledJobs } from './journaled-jobs.ts';

export function journaled(store: Store, spool: Spool): Store {
  return {
    ...store,
    jobs: journaledJobs(store.jobs, spool),
    dead: journaledDead(store.dead, spool),
    alerts: journaledAlerts(store.alerts, spool),
    admin: journaledAdmin(store.admin, spool),
    /** The store first: no record follows the end of the stream. */
    async close() {
      try {
        await store.close();
      } finally {
        await spool.close();
      }
    },
  };
}
