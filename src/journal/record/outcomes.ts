// Writes the changes that outcomes name, and takes them out of the outcomes.

import type { JobKey } from '../../core/job.ts';
import type { Change, Changed, ChangedJob } from '../../core/job-change.ts';
import type { Spool } from '../../ports/spool.ts';
import { StoreError, type StoreFailure } from '../../ports/store-error.ts';
import { type RecordedVerb, storeVerbs } from '../../ports/store-verbs.ts';

/** The outcome of a push or verb that the spool has no disk space for: the store was not called. */
export const spoolFull: StoreFailure = { kind: 'not_stored', code: 'spool_full' };

/** The members of a change of this process. */
export const ownChange = ({ topic, id }: JobKey, change: Changed): ChangedJob & { readonly isOwn: true } => ({
  topic,
  id,
  ...change,
  isOwn: true,
});

/** null: the records are written. Else the outcome of their jobs: the store has changed them, but the journal
 *  may not have the change. */
export async function failureOf(
  spool: Spool,
  changes: readonly Change[],
  verb: RecordedVerb,
  until: 'written' | 'synced' = storeVerbs[verb].record,
): Promise<StoreFailure | null> {
  if (changes.length === 0) return null;
  try {
    await spool.write(changes, until);
    return null;
  } catch (error) {
    if (error instanceof StoreError) return { kind: 'unknown', code: error.failure.code };
    throw error;
  }
}

/** Kinds of outcomes that always name a change. */
const changing: ReadonlySet<string> = new Set(
  'cancelled run rescheduled requeued edited acked retried buried'.split(' '),
);

/** Writes the records of the items that changed, as one group. Returns the outcomes without their changes. */
export async function writeOutcomes<I extends JobKey, O extends { readonly kind: string }>(
  spool: Spool,
  items: readonly I[],
  outcomes: readonly O[],
  verb: RecordedVerb,
  changeOf: (item: I, change: Changed) => Change,
  /** the record of the job that the change pushed; null: none */
  acceptedOf: (item: I, outcome: O) => Change | null = () => null,
): Promise<readonly (O | StoreFailure)[]> {
  const changes: Change[] = [];
  const accepted: Change[] = [];
  for (const [i, outcome] of outcomes.entries()) {
    const change = changeIn(outcome);
    if (change === undefined) continue;
    changes.push(changeOf(items[i] as I, change));
    const pushed = acceptedOf(items[i] as I, outcome);
    if (pushed !== null) accepted.push(pushed);
  }
  // Pushed jobs first: of a torn group the end may be missing, and its repeat pushes nothing.
  const until = accepted.length > 0 ? 'synced' : undefined;
  const failure = await failureOf(spool, [...accepted, ...changes], verb, until);
  return outcomes.map((outcome) => {
    if (changeIn(outcome) === undefined) return outcome;
    return failure ?? withoutChange(outcome);
  });
}

function changeIn(outcome: { readonly kind: string; readonly change?: Changed }): Changed | undefined {
  if (outcome.change === undefined && changing.has(outcome.kind)) throw new Error(noChanges);
  return outcome.change;
}

function withoutChange<O extends object>(outcome: O): O {
  const { change, pushed, ...rest } = outcome as O & { readonly change?: Changed; readonly pushed?: unknown };
  return rest as O;
}

/** A bug: a job would be in the store and not in the journal. */
export const noChanges = 'the store names no changes: it was not opened for a journal';
