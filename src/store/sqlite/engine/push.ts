// Implements push and cancel: a producer's moves of one job. Each is one step of its transaction, with all
// checks before the first write.

import type { EndState, JobKey } from '../../../core/job.ts';
import { priorityCodes, stateCodes } from '../../../core/stored-codes.ts';
import type { CancelOutcome, PushJob, PushOutcome } from '../../../ports/job-store.ts';
import { dead, delayed, ready, reserved } from '../file/schema.ts';
import { isEnded } from './job-rows.ts';
import { dueWhen, type TransactionContext } from './transaction-context.ts';

export function pushJob(tx: TransactionContext, job: PushJob): PushOutcome {
  const { counters, rows, now } = tx;
  const place = rows.place(job.topic, job.id);
  const old = place === undefined || isEnded(place) ? undefined : place;
  const live = old !== undefined && old.state !== dead;
  if (live && job.mode !== 'replace') {
    const kind = job.mode === 'keep' ? 'kept' : 'job_exists';
    return { kind, version: old.version, dueAt: old.due, state: stateCodes[old.state] ?? 'dead' };
  }
  const due = dueWhen(now, job.when);
  const state = due > now ? delayed : ready;
  const fresh = {
    topic: counters.ensureTopicNumber(job.topic),
    id: Buffer.from(job.id),
    state,
    prio: priorityCodes.indexOf(job.priority),
    due,
    version: counters.nextNumber(now),
    acceptedAt: Math.min(job.acceptedAt ?? now, now),
    failures: job.failures ?? 0,
    contentType: job.contentType,
    body: job.body,
    extension: job.extension ?? null,
  } as const;
  if (place === undefined) rows.insert(fresh);
  else rows.replace(place, fresh);
  return {
    kind: 'stored',
    version: fresh.version,
    dueAt: due,
    state: state === delayed ? 'delayed' : 'ready',
    replaced: live,
    inFlight: old?.state === reserved,
  };
}

export function cancelJob(tx: TransactionContext, key: JobKey, as: EndState): CancelOutcome {
  const row = tx.rows.find(key.topic, key.id);
  if (row === undefined) return { kind: 'absent' };
  tx.rows.end(row, { state: as, at: tx.now });
  return { kind: 'cancelled', inFlight: row.state === reserved };
}
