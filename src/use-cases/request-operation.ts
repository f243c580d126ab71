// Drafts an operation as its caller requested it, and stores it for dq-upkeep.
// Invariant: the draft draws the moment, so before the answer to the request: what the caller does after the
// answer is not part of the operation.

import { DqError } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import type { OperationRecord, OperationWork } from '../core/operation.ts';
import type { StoreAdmin } from '../ports/job-store.ts';
import type { Registry } from '../ports/registry.ts';
import { randomBytes } from '../runtime/time.ts';

/** What the caller decides. */
export type RequestedOperation = Pick<
  OperationRecord,
  'kind' | 'filter' | 'topics' | 'spreadMs' | 'rate' | 'at' | 'overdue' | 'dryRun' | 'actor'
> &
  Pick<OperationWork, 'ids' | 'versions'>;

interface DraftedOperation {
  readonly record: OperationRecord;
  readonly work: OperationWork;
}

/** `now`: of the storage clock. Rejects with StoreError. */
export async function draftOperation(
  admin: StoreAdmin,
  { ids, versions, ...requested }: RequestedOperation,
  now: number,
): Promise<DraftedOperation> {
  const moment = requested.kind === 'restore' ? {} : await admin.moment();
  const { filter } = requested;
  const record: OperationRecord = {
    ...requested,
    id: randomBytes(limits.tokenIdBytes).toString('hex'),
    filter: ids === null ? filter : { ...filter, idCount: ids.length },
    state: 'not_started',
    createdAt: now,
    moment,
    startedAt: null,
    movingAt: null,
    updatedAt: now,
    endedAt: null,
    matched: null,
    done: 0,
    skipped: 0,
    failed: 0,
    failures: [],
    problem: null,
  };
  const named = versions === undefined ? {} : { versions };
  return {
    record,
    work: { ids, ...named, cursor: null, isListed: false, isCounting: false, step: [] },
  };
}

/** Rejects with too_many_operations. */
export async function storeOperation(registry: Registry, { record, work }: DraftedOperation): Promise<void> {
  if ((await registry.createOperation(record, work)) === 'full')
    throw new DqError(
      'too_many_operations',
      `${limits.operationsOpenMax} operations are open; wait for the end of one, or stop one`,
    );
}
