// Implements push and cancel: a producer's moves of one job, and the push of an outcome job. Each is one step
// of its transaction, with all checks before the first write.

import { type EndState, isInWindow, type VersionedKey } from '../../../core/job.ts';
import { priorityCodes, stateCodes } from '../../../core/stored-codes.ts';
import type { CancelOutcome, Outcome, PushJob, PushOutcome } from '../../../ports/job-store.ts';
import { dead, delayed, ready, reserved } from '../file/schema.ts';
import { type EndedRow, isEnded, type JobRow, type NewJob, namesOther } from './job-rows.ts';
import { dueWhen, type TransactionContext } from './transaction-context.ts';

type Stored = Extract<PushOutcome, { readonly kind: 'stored' }>;
type Ended = Extract<PushOutcome, { readonly kind: 'ended' }>;

export function pushJob(tx: TransactionContext, job: PushJob): PushOutcome {
  const { rows } = tx;
  // A generated id is almost certainly new: the unique index of the insert checks it without a look-up.
  const likelyNew =
    job.mode === 'replace' && job.windowMs === undefined && isUuid7(job.id) ? newJob(tx, job) : null;
  if (likelyNew !== null && rows.insert(likelyNew)) return stored(likelyNew, undefined);
  const place = rows.place(job.topic, job.id);
  const old = place === undefined || isEnded(place) ? undefined : place;
  if (old !== undefined && old.state !== dead && job.mode !== 'replace') {
    const kind = job.mode === 'keep' ? 'kept' : 'job_exists';
    return { kind, version: old.version, dueAt: old.due, state: stateCodes[old.state] ?? 'dead' };
  }
  const last = place === undefined || job.windowMs === undefined ? null : lastEnd(tx, place, job.windowMs);
  if (last !== null) return last;
  const fresh = likelyNew ?? newJob(tx, job);
  if (place !== undefined) rows.replace(place, fresh);
  else if (!rows.insert(fresh))
    throw new Error(`the unique index holds ${job.topic}/${job.id}, the table does not`);
  return stored(fresh, old);
}

/** An id that the file has, live or ended, is of an earlier run of the same end. */
export function pushOutcome(tx: TransactionContext, outcome: Outcome | undefined): void {
  if (outcome === undefined) return;
  const { job, short } = outcome;
  if (tx.rows.place(job.topic, job.id) !== undefined) return;
  tx.rows.insert(newJob(tx, tx.isDiskFull ? { ...job, body: short } : job));
}

/** The end or death of the last job of an id, if it is within the window of a push. */
function lastEnd(
  { rows, now }: TransactionContext,
  place: JobRow | EndedRow,
  windowMs: number,
): Ended | null {
  const { version, due: dueAt, deadAt } = place;
  const end = isEnded(place)
    ? rows.endOf(place)
    : deadAt === null
      ? null
      : { state: 'dead' as const, at: deadAt };
  if (end === null || !isInWindow(end, now, windowMs)) return null;
  return { kind: 'ended', version, dueAt, state: end.state, endedAt: end.at };
}

function newJob({ counters, now }: TransactionContext, job: PushJob): NewJob {
  const due = dueWhen(now, job.when);
  return {
    topic: counters.ensureTopicNumber(job.topic),
    id: Buffer.from(job.id),
    state: due > now ? delayed : ready,
    prio: priorityCodes.indexOf(job.priority),
    due,
    version: counters.nextNumber(now),
    acceptedAt: Math.min(job.acceptedAt ?? now, now),
    failures: job.failures ?? 0,
    contentType: job.contentType,
    body: job.body,
    extension: job.extension ?? null,
  };
}

function stored({ version, due, state }: NewJob, old: JobRow | undefined): Stored {
  return {
    kind: 'stored',
    version,
    dueAt: due,
    state: state === delayed ? 'delayed' : 'ready',
    replaced: old !== undefined && old.state !== dead,
    inFlight: old?.state === reserved,
  };
}

/** Of the shape of the ids that accept-job.ts generates; a producer's own id may have it, too. */
function isUuid7(id: string): boolean {
  return id.length === 36 && id[14] === '7';
}

export function cancelJob(tx: TransactionContext, key: VersionedKey, as: EndState): CancelOutcome {
  const row = tx.rows.find(key.topic, key.id);
  if (row === undefined) return { kind: 'absent' };
  if (namesOther(key, row)) return { kind: 'other_version' };
  tx.rows.end(row, { state: as, at: tx.now });
  return { kind: 'cancelled', inFlight: row.state === reserved };
}
