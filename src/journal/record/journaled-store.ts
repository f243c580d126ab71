// The job store with a journal: a decorator of the port, for a store that names its changes. It calls the
// store, then writes the outcomes to the spool, then answers; so a rejected push leaves no record, and a
// record holds what the store decided. Roles and routes do not know it.
// Invariants: each verb that has a `record` in storeVerbs leaves one; no other verb changes anything that a
// job needs when it is put back. The records of a step of bulk work are written before the next step begins,
// so a process that dies leaves at most one step of jobs that is in the store and not in the journal.
// Rejected: records before the store's call. They cost two records per push, and one without an outcome would
// be a loss or a job that no producer knows.

import { durabilityWithJournal } from '../../core/durability.ts';
import type { JobKey, Version } from '../../core/job.ts';
import type { Change, ChangedJob } from '../../core/job-change.ts';
import type { AlertOutbox, DeadLetters, OnChanged, Store, StoreAdmin } from '../../ports/job-store.ts';
import type { Spool } from '../../ports/spool.ts';
import { StoreError } from '../../ports/store-error.ts';
import { type MethodsOf, type RecordedVerb, storeVerbs } from '../../ports/store-verbs.ts';
import { journalStoreLimits } from '../limits.ts';
import { journaledJobs, ownChange, spoolFull } from './journaled-jobs.ts';

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

/** Writes the jobs of a step, then reports them to the caller. */
function stepsTo(
  spool: Spool,
  verb: RecordedVerb,
  changeOf: (job: ChangedJob) => Change,
  onChanged: OnChanged | undefined,
): OnChanged {
  return async (jobs) => {
    await spool.write(jobs.map(changeOf), storeVerbs[verb].record);
    await onChanged?.(jobs);
  };
}

const requeued = (job: ChangedJob): Change => ({ ...ownChange(job, job), kind: 'moved', by: 'requeue' });
const expired = (job: ChangedJob): Change => ({
  ...ownChange(job, job),
  kind: 'ended',
  end: 'expired',
  attempt: null,
});
const purged = (job: ChangedJob): Change => ({
  ...ownChange(job, job),
  version: job.number,
  kind: 'ended',
  end: 'purged',
  attempt: null,
});

function journaledDead(dead: DeadLetters, spool: Spool): DeadLetters {
  const recorded: Pick<DeadLetters, MethodsOf<'dead', RecordedVerb>> = {
    async requeue(filter, max, onChanged) {
      if (!spool.admits(0)) throw new StoreError(spoolFull);
      return dead.requeue(filter, max, stepsTo(spool, 'dead.requeue', requeued, onChanged));
    },
    purge: (filter, max, onChanged) =>
      dead.purge(filter, max, stepsTo(spool, 'dead.purge', purged, onChanged)),
    expire: (olderThanMs, max, onChanged) =>
      dead.expire(olderThanMs, max, stepsTo(spool, 'dead.expire', expired, onChanged)),
  };
  return { ...dead, ...recorded };
}

function journaledAdmin(admin: StoreAdmin, spool: Spool): StoreAdmin {
  return {
    ...admin,
    async health() {
      const health = await admin.health();
      const { rejectReason } = spool;
      return {
        ...health,
        ok: health.ok && rejectReason === null,
        durability: health.ok ? durabilityWithJournal : health.durability,
        warnings: [
          ...(rejectReason === null ? [] : [`journal: the spool ${rejectReason}`]),
          ...health.warnings,
        ],
      };
    },
    purgeTopic: (topic, max, onChanged) =>
      admin.purgeTopic(topic, max, stepsTo(spool, 'admin.purgeTopic', purged, onChanged)),
  };
}

/** Remembers the jobs of claimed alerts, because they are settled by version alone. A claim of another
 *  process leaves no record: a job that is put back then owes its alert again. */
function journaledAlerts(alerts: AlertOutbox, spool: Spool): AlertOutbox {
  const claimed = new Map<Version, JobKey>();
  return {
    ...alerts,
    async claim(topic, claimMs, max) {
      const entries = await alerts.claim(topic, claimMs, max);
      for (const { version, id } of entries) claimed.set(version, { topic, id });
      for (const version of claimed.keys()) {
        if (claimed.size <= journalStoreLimits.claimsMax) break;
        claimed.delete(version);
      }
      return entries;
    },
    async settle(versions, as) {
      await alerts.settle(versions, as);
      const changes = versions.flatMap((version): Change | readonly Change[] => {
        const key = claimed.get(version);
        if (key === undefined || as === 'owed') return [];
        const numbers = { number: version, version, origin: version, dueAt: 0, failures: 0 };
        return { ...key, ...numbers, place: '', isOwn: false, kind: 'alert' };
      });
      if (changes.length > 0) await spool.write(changes, storeVerbs['alerts.settle'].record);
      for (const version of versions) claimed.delete(version);
    },
  };
}
