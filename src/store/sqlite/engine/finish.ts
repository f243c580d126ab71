// The four ends of a lease: ack, retry, bury, release. Each compares version and token first and changes nothing when one
// differs. The clock does not decide: a lease that ran out still finishes its job while nobody has taken it back.

import type { Lease } from '../../../core/job.ts';
import type { BuryItem, FinishOutcome, RetryItem } from '../../../ports/job-store.ts';
import { delayed, ready, reasonCodes, reserved } from '../file/schema.ts';
import type { JobRow, LastAttempt } from './job-rows.ts';
import { dueAfter, type TransactionContext } from './transaction-context.ts';

export interface AckedLease extends Lease {
  readonly attempt: LastAttempt;
}

export function ackJob(bench: TransactionContext, item: AckedLease): FinishOutcome<'acked'> {
  const row = leased(bench, item);
  if (row === null) return { kind: 'lease_lost' };
  bench.rows.end(row, { state: 'done', at: bench.now, attempt: item.attempt });
  return { kind: 'acked' };
}

export function retryJob(bench: TransactionContext, item: RetryItem): FinishOutcome<'retried'> {
  const row = leased(bench, item);
  if (row === null) return { kind: 'lease_lost' };
  const due = dueAfter(bench.now, item.delayMs);
  if (!Number.isSafeInteger(due)) throw new Error(`no delay: ${String(item.delayMs)}`);
  const state = due > bench.now ? delayed : ready;
  bench.rows.wait(row, { state, due, version: row.version, failures: row.failures + 1, strikes: 0 });
  // On a full disk the outcome is kept, and its record dropped: without the outcome the lease would run out.
  if (!bench.isTight) bench.rows.addAttempt(row, item.attempt);
  return { kind: 'retried' };
}

export function buryJob(bench: TransactionContext, item: BuryItem): FinishOutcome<'buried'> {
  const row = leased(bench, item);
  if (row === null) return { kind: 'lease_lost' };
  const attempt = bench.isTight ? null : item.attempt;
  const reason = reasonCodes.indexOf(item.reason);
  bench.rows.bury(row, { failures: row.failures + 1, strikes: 0, at: bench.now, reason, attempt });
  if (attempt !== null) bench.rows.addAttempt(row, attempt);
  return { kind: 'buried' };
}

export function releaseJob(bench: TransactionContext, lease: Lease): FinishOutcome<'released'> {
  const row = leased(bench, lease);
  if (row === null) return { kind: 'lease_lost' };
  backInPlace(bench, row, row.strikes);
  return { kind: 'released' };
}

/** reserved → ready where it was: its due time has not changed. */
export function backInPlace(bench: TransactionContext, row: JobRow, strikes: number): void {
  const { due, version, failures } = row;
  bench.rows.wait(row, { state: ready, due, version, failures, strikes });
}

function leased(bench: TransactionContext, lease: Lease): JobRow | null {
  const row = bench.rows.find(lease.topic, lease.id);
  return row?.state === reserved && row.version === lease.version && row.token === lease.token ? row : null;
}
