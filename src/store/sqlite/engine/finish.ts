// Implements the finishing writes (ack, retry, bury, release) and extend. Each compares version and token
// first and changes nothing when either differs, nor for a pull client that shows the lease of a process. The
// clock does not decide: an expired lease still finishes
// its job until recovery returns it. Only the end of an expired lease (ifExpired) compares the clock too: the
// lease may have been extended after recovery listed it.

import { lastAttemptOf } from '../../../core/job.ts';
import { deadReasonCodes } from '../../../core/stored-codes.ts';
import type {
  BuryItem,
  EndingLease,
  ExtendItem,
  ExtendOutcome,
  FinishOutcome,
  Outcome,
  RetryItem,
  ShownLease,
} from '../../../ports/job-store.ts';
import { delayed, ready } from '../file/schema.ts';
import type { JobRow, LastAttempt } from './job-rows.ts';
import { pushOutcome } from './push.ts';
import { dueAfter, type TransactionContext } from './transaction-context.ts';

export interface AckedLease extends ShownLease {
  readonly attempt: LastAttempt;
  readonly outcome?: Outcome | undefined;
}

export function ackJob(tx: TransactionContext, item: AckedLease): FinishOutcome<'acked'> {
  const row = leased(tx, item);
  if (row === null) return { kind: 'lease_lost' };
  tx.rows.end(row, { state: 'done', at: tx.now, attempt: tx.isDiskFull ? null : item.attempt });
  pushOutcome(tx, item.outcome);
  return { kind: 'acked' };
}

export function retryJob(tx: TransactionContext, item: RetryItem): FinishOutcome<'retried'> {
  const row = leased(tx, item);
  if (row === null) return { kind: 'lease_lost' };
  const due = dueAfter(tx.now, item.delayMs);
  if (!Number.isSafeInteger(due)) throw new Error(`invalid delay: ${String(item.delayMs)}`);
  const state = due > tx.now ? delayed : ready;
  const { attempt, extension } = item;
  const failures = row.failures + (attempt === null ? 0 : 1);
  tx.rows.wait(row, { state, due, version: row.version, failures, strikes: 0 });
  if (extension !== undefined) tx.rows.setOptions(row, extension);
  // On a full disk the outcome is stored without its record: without the outcome the lease would expire.
  if (attempt !== null && !tx.isDiskFull) tx.rows.addAttempt(row, attempt);
  return { kind: 'retried' };
}

export function buryJob(tx: TransactionContext, item: BuryItem): FinishOutcome<'buried'> {
  const row = leased(tx, item);
  if (row === null) return { kind: 'lease_lost' };
  const reason = deadReasonCodes.indexOf(item.reason);
  const death = { strikes: 0, at: tx.now, reason };
  if (item.attempt === null) {
    const { failures } = row;
    const strikes = item.reason === 'poison' ? row.strikes + 1 : 0;
    const attempt = lastAttemptOf({ attempts: tx.rows.attemptsOf(row.n), failures });
    tx.rows.bury(row, { ...death, failures, strikes, attempt });
  } else {
    const attempt = tx.isDiskFull ? null : item.attempt;
    tx.rows.bury(row, { ...death, failures: row.failures + 1, attempt });
    if (attempt !== null) tx.rows.addAttempt(row, attempt);
  }
  pushOutcome(tx, item.outcome);
  return { kind: 'buried' };
}

export function releaseJob(tx: TransactionContext, lease: EndingLease): FinishOutcome<'released'> {
  const row = leased(tx, lease);
  if (row === null) return { kind: 'lease_lost' };
  backToReady(tx, row, row.strikes);
  return { kind: 'released' };
}

export function extendJob(tx: TransactionContext, item: ExtendItem): ExtendOutcome {
  const row = leased(tx, item);
  const until = tx.now + Math.ceil(item.leaseMs);
  if (row === null || !tx.rows.extend(row, until)) return { kind: 'lease_lost' };
  return { kind: 'extended', until };
}

/** reserved → ready in its old place: the due time does not change. */
export function backToReady(tx: TransactionContext, row: JobRow, strikes: number): void {
  const { due, version, failures } = row;
  tx.rows.wait(row, { state: ready, due, version, failures, strikes });
}

function leased(tx: TransactionContext, lease: ShownLease & Pick<EndingLease, 'ifExpired'>): JobRow | null {
  const row = tx.rows.leased(lease);
  if (row !== null && lease.isPulled === true && !tx.rows.isPulled(row)) return null;
  return row !== null && lease.ifExpired === true && tx.rows.leaseUntil(row) > tx.now ? null : row;
}
