// run, reschedule and requeue: what an operator does to one job. Each makes a new version of the same origin and is one step
// of the transaction it runs in; everything is checked before the first write. Body, content type, priority and acceptedAt
// stay in their rows, untouched.

import type { JobKey } from '../../../core/job.ts';
import type {
  RequeueOutcome,
  RescheduleItem,
  RescheduleOutcome,
  RunOutcome,
} from '../../../ports/job-store.ts';
import { dead, delayed, ready, reserved } from '../file/schema.ts';
import type { JobRow } from './job-rows.ts';
import { dueWhen, type TransactionContext } from './transaction-context.ts';

const liveStates = ['delayed', 'ready', 'reserved'] as const;

export function runJob(bench: TransactionContext, key: JobKey): RunOutcome {
  const row = bench.rows.find(key.topic, key.id);
  if (row === undefined) return { kind: 'absent' };
  if (row.state === dead) return { kind: 'dead' };
  if (row.state !== delayed)
    return {
      kind: 'unchanged',
      state: row.state === ready ? 'ready' : 'reserved',
      version: row.version,
      dueAt: row.due,
    };
  // Overdue and not promoted yet: it keeps its place before what became due after it.
  const due = Math.min(row.due, bench.now);
  return { kind: 'run', version: waitAnew(bench, row, due), dueAt: due };
}

export function rescheduleJob(bench: TransactionContext, item: RescheduleItem): RescheduleOutcome {
  const row = bench.rows.find(item.topic, item.id);
  if (row === undefined) return { kind: 'absent' };
  if (row.state === dead) return { kind: 'dead' };
  if (row.state === reserved) return { kind: 'in_flight' };
  const due = dueWhen(bench.now, item.when);
  const version = waitAnew(bench, row, due);
  return { kind: 'rescheduled', state: due > bench.now ? 'delayed' : 'ready', version, dueAt: due };
}

export function requeueJob(bench: TransactionContext, key: JobKey): RequeueOutcome {
  const row = bench.rows.find(key.topic, key.id);
  if (row === undefined) return { kind: 'absent' };
  if (row.state !== dead) return { kind: 'not_dead', state: liveStates[row.state] };
  return { kind: 'requeued', version: requeueRow(bench, row), dueAt: bench.now };
}

/** A dead letter from the start again: no failure, no strike, no attempt. Answers the new version. */
export function requeueRow(bench: TransactionContext, row: JobRow): number {
  bench.rows.forgetAttempts(row);
  return waitAnew(bench, { ...row, failures: 0, strikes: 0 }, bench.now);
}

function waitAnew(bench: TransactionContext, row: JobRow, due: number): number {
  const { failures, strikes } = row;
  const version = bench.ledger.draw(bench.now);
  const state = due > bench.now ? delayed : ready;
  bench.rows.wait(row, { state, due, version, failures, strikes });
  return version;
}
