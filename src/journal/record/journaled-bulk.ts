// Bulk work and alerts with a journal. The records of a step are written before the next step begins, so a
// process that dies leaves at most one step of jobs that is in the store and not in the journal.

import { durabilityWithJournal } from '../../core/durability.ts';
import type { JobKey, Version } from '../../core/job.ts';
import type { Change, ChangedJob } from '../../core/job-change.ts';
import type { AlertOutbox, DeadLetters, OnChanged, StoreAdmin } from '../../ports/job-store.ts';
import type { Spool } from '../../ports/spool.ts';
import { StoreError } from '../../ports/store-error.ts';
import { type MethodsOf, type RecordedVerb, storeVerbs } from '../../ports/store-verbs.ts';
import { journalStoreLimits } from '../limits.ts';
import { ownChange, spoolFull } from './outcomes.ts';

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
  ...{ kind: 'ended', end: 'expired', attempt: null },
});
const purged = (job: ChangedJob): Change => ({
  ...ownChange(job, job),
  ...{ version: job.number, kind: 'ended', end: 'purged', attempt: null },
});

export function journaledDead(dead: DeadLetters, spool: Spool): DeadLetters {
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

export function journaledAdmin(admin: StoreAdmin, spool: Spool): StoreAdmin {
  return {
    ...admin,
    async health() {
      const health = await admin.health();
      const { trouble } = spool;
      return {
        ...health,
        ok: health.ok && trouble === null,
        durability: health.ok ? durabilityWithJournal : health.durability,
        warnings: [...(trouble === null ? [] : [`journal: the spool ${trouble}`]), ...health.warnings],
      };
    },
    purgeTopic: (topic, max, onChanged) =>
      admin.purgeTopic(topic, max, stepsTo(spool, 'admin.purgeTopic', purged, onChanged)),
  };
}

/** Remembers the jobs of claimed alerts, because they are settled by version alone. A claim of another
 *  process leaves no record: a job that is put back then owes its alert again. */
export function journaledAlerts(alerts: AlertOutbox, spool: Spool): AlertOutbox {
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
