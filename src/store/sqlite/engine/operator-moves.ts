// Implements run, reschedule, requeue and edit: an operator's moves of one job. Each makes a new version and
// is one step of its transaction, with all checks before the first write. Only an edit changes body, content
// type, options and priority, under a new origin.

import type { VersionedKey } from '../../../core/job.ts';
import { priorityCodes } from '../../../core/stored-codes.ts';
import type {
  EditItem,
  EditOutcome,
  RequeueOutcome,
  RescheduleItem,
  RescheduleOutcome,
  RunOutcome,
} from '../../../ports/job-store.ts';
import { dead, delayed, ready, reserved } from '../file/schema.ts';
import { type JobRow, namesOther } from './job-rows.ts';
import { dueWhen, type TransactionContext } from './transaction-context.ts';

const liveStates = ['delayed', 'ready', 'reserved'] as const;

export function runJob(tx: TransactionContext, key: VersionedKey): RunOutcome {
  const row = tx.rows.find(key.topic, key.id);
  if (row === undefined) return { kind: 'absent' };
  if (namesOther(key, row)) return { kind: 'other_version' };
  if (row.state === dead) return { kind: 'dead' };
  if (row.state !== delayed)
    return {
      kind: 'unchanged',
      state: row.state === ready ? 'ready' : 'reserved',
      version: row.version,
      dueAt: row.due,
    };
  // Overdue but not promoted: it keeps its place before jobs that became due later.
  const due = Math.min(row.due, tx.now);
  return { kind: 'run', version: newVersion(tx, row, due), dueAt: due };
}

export function rescheduleJob(tx: TransactionContext, item: RescheduleItem): RescheduleOutcome {
  const row = tx.rows.find(item.topic, item.id);
  if (row === undefined) return { kind: 'absent' };
  if (namesOther(item, row)) return { kind: 'other_version' };
  if (row.state === dead) return { kind: 'dead' };
  if (row.state === reserved) return { kind: 'in_flight' };
  const due = dueWhen(tx.now, item.when);
  const version = newVersion(tx, row, due);
  return { kind: 'rescheduled', state: due > tx.now ? 'delayed' : 'ready', version, dueAt: due };
}

export function requeueJob(tx: TransactionContext, key: VersionedKey): RequeueOutcome {
  const row = tx.rows.find(key.topic, key.id);
  if (row === undefined) return { kind: 'absent' };
  if (namesOther(key, row)) return { kind: 'other_version' };
  if (row.state !== dead) return { kind: 'not_dead', state: liveStates[row.state] };
  return { kind: 'requeued', version: requeueRow(tx, row), dueAt: tx.now };
}

export function editJob(tx: TransactionContext, item: EditItem): EditOutcome {
  const row = tx.rows.find(item.topic, item.id);
  if (row === undefined) return { kind: 'absent' };
  if (namesOther(item, row)) return { kind: 'other_version' };
  if (item.requeue && row.state !== dead) return { kind: 'not_dead', state: liveStates[row.state] };
  if (!item.requeue && row.state === dead) return { kind: 'dead' };
  if (row.state === reserved) return { kind: 'in_flight' };
  const due = item.when === null ? (item.requeue ? tx.now : row.due) : dueWhen(tx.now, item.when);
  const origin = tx.counters.nextNumber(tx.now);
  const version = tx.counters.nextNumber(tx.now);
  const state = due > tx.now ? delayed : ready;
  const { failures, strikes } = item.requeue ? { failures: 0, strikes: 0 } : row;
  const prio = priorityCodes.indexOf(item.priority);
  tx.rows.edit(row, { state, due, version, failures, strikes }, { ...item, origin, prio });
  return { kind: 'edited', state: state === delayed ? 'delayed' : 'ready', version, dueAt: due };
}

/** Restarts a dead letter: no failures, strikes and snoozes. Its attempts stay, for readers. Returns the
 *  version. */
export function requeueRow(tx: TransactionContext, row: JobRow): number {
  tx.rows.forgetSnoozes(row);
  return newVersion(tx, { ...row, failures: 0, strikes: 0 }, tx.now);
}

function newVersion(tx: TransactionContext, row: JobRow, due: number): number {
  const { failures, strikes } = row;
  const version = tx.counters.nextNumber(tx.now);
  const state = due > tx.now ? delayed : ready;
  tx.rows.wait(row, { state, due, version, failures, strikes });
  return version;
}
