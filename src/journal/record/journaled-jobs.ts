// The hot path with a journal: writes the changes that outcomes name, and takes them out of the outcomes.
// Records wait for the disk where a producer or operator waits for the answer. Those of attempts are written
// at once and synced within a second: the loss of one repeats a call.
// Invariants: a push or verb reaches the store only when the spool has disk space. Its outcome is `unknown`
// when the store has the change and the spool may not.

import type { JobKey, JobSnapshot } from '../../core/job.ts';
import { type Change, type Changed, type ChangedJob, instantOf } from '../../core/job-change.ts';
import type {
  AckItem,
  BuryItem,
  JobStore,
  OnStored,
  PushedOutcome,
  PushJob,
  PushOutcome,
} from '../../ports/job-store.ts';
import type { Spool } from '../../ports/spool.ts';
import { StoreError, type StoreFailure } from '../../ports/store-error.ts';
import { type MethodsOf, type RecordedVerb, storeVerbs } from '../../ports/store-verbs.ts';
import { journalStoreLimits } from '../limits.ts';

type Stored = Extract<PushOutcome, { readonly kind: 'stored' }>;
type Kept = Extract<PushOutcome, { readonly kind: 'kept' }>;

export function journaledJobs(jobs: JobStore, spool: Spool): JobStore {
  const verb = async <I extends JobKey, O extends { readonly kind: string }>(
    by: 'run' | 'reschedule' | 'requeue',
    items: readonly I[],
    call: (items: readonly I[]) => Promise<readonly O[]>,
  ): Promise<readonly (O | StoreFailure)[]> => {
    if (!spool.admits(0)) return items.map(() => spoolFull);
    return writeOutcomes(spool, items, await call(items), `jobs.${by}`, (item, change) => ({
      ...ownChange(item, change),
      kind: 'moved',
      by,
    }));
  };
  const recorded: Pick<JobStore, MethodsOf<'jobs', RecordedVerb>> = {
    push: (items, onStored) => push(jobs, spool, items, onStored),
    cancel: async (keys, as) =>
      writeOutcomes(spool, keys, await jobs.cancel(keys, as), 'jobs.cancel', (key, change) => ({
        ...ownChange(key, change),
        version: change.number,
        kind: 'ended',
        end: as ?? 'cancelled',
        attempt: null,
      })),
    run: (keys) => verb('run', keys, (its) => jobs.run(its)),
    reschedule: (items) => verb('reschedule', items, (its) => jobs.reschedule(its)),
    requeue: (keys) => verb('requeue', keys, (its) => jobs.requeue(its)),
    async edit(items) {
      if (!spool.admits(recordBytesOf(items))) return items.map(() => spoolFull);
      return writeOutcomes(spool, items, await jobs.edit(items), 'jobs.edit', (item, change) => {
        const { acceptedAt, priority, contentType, extension, body } = item;
        const pushed = { acceptedAt, priority, contentType, extension, body };
        return { ...ownChange(item, change), kind: 'accepted', ...pushed };
      });
    },
    ack: async (given) => {
      const items = fitting(spool, given);
      const ended = (item: AckItem, change: Changed): Change => ({
        ...ownChange(item, change),
        kind: 'ended',
        end: 'done',
        attempt: item.attempt,
      });
      return writeOutcomes(spool, items, await jobs.ack(items), 'jobs.ack', ended, outcomeIn);
    },
    retry: async (items) =>
      writeOutcomes(spool, items, await jobs.retry(items), 'jobs.retry', (item, change) => ({
        ...ownChange(item, change),
        kind: 'retried',
        attempt: item.attempt,
      })),
    bury: async (given) => {
      const items = fitting(spool, given);
      const dead = (item: BuryItem, change: Changed): Change => ({
        ...ownChange(item, change),
        kind: 'dead',
        reason: item.reason,
        attempt: item.attempt,
      });
      return writeOutcomes(spool, items, await jobs.bury(items), 'jobs.bury', dead, outcomeIn);
    },
  };
  return { ...jobs, ...recorded };
}

const recordBytesOf = (items: readonly Pick<PushJob, 'body'>[]): number =>
  items.reduce((sum, { body }) => sum + body.length + journalStoreLimits.recordBytes, 0);

/** The items as a spool with little space takes them: with the short bodies of their outcome jobs. */
function fitting<I extends Pick<AckItem, 'outcome'>>(spool: Spool, items: readonly I[]): readonly I[] {
  const jobs = items.flatMap(({ outcome }) => (outcome === undefined ? [] : [outcome.job]));
  if (jobs.length === 0 || spool.admits(recordBytesOf(jobs))) return items;
  return items.map((item) => {
    if (item.outcome === undefined) return item;
    const { job, short } = item.outcome;
    return { ...item, outcome: { job: { ...job, body: short }, short } };
  });
}

/** The record of the outcome job that an end pushed. */
function outcomeIn(
  { outcome }: Pick<AckItem, 'outcome'>,
  end: { readonly kind: string; readonly pushed?: PushedOutcome },
): Change | null {
  if (outcome === undefined || end.pushed === undefined) return null;
  const { id, body, ...stored } = end.pushed;
  return acceptedOf({ ...outcome.job, id, body }, stored);
}

async function push(
  jobs: JobStore,
  spool: Spool,
  items: readonly PushJob[],
  onStored: OnStored | undefined,
): Promise<readonly PushOutcome[]> {
  if (!spool.admits(recordBytesOf(items))) return items.map(() => spoolFull);
  const early = new Map<number, Promise<PushOutcome>>();
  const answerEarly = async (at: number, stored: PushOutcome, report: OnStored): Promise<PushOutcome> => {
    const [outcome = stored] = await accept(jobs, spool, items.slice(at, at + 1), [stored]);
    if (outcome.kind === 'stored' || outcome.kind === 'kept') report(at, outcome);
    return outcome;
  };
  const stored = await jobs.push(
    items,
    onStored && ((at, outcome) => void early.set(at, answerEarly(at, outcome, onStored))),
  );
  const rest = items.map((_, at) => at).filter((at) => !early.has(at));
  const accepted = await accept(
    jobs,
    spool,
    rest.map((at) => items[at] as PushJob),
    rest.map((at) => stored[at] as PushOutcome),
  );
  const outcomes = [...stored];
  for (const [i, at] of rest.entries()) outcomes[at] = accepted[i] as PushOutcome;
  for (const [at, outcome] of early) outcomes[at] = await outcome;
  return outcomes;
}

/** Writes the records of the jobs that the store has now: of stored ones as one group, of kept ones each by
 *  itself. */
async function accept(
  jobs: JobStore,
  spool: Spool,
  items: readonly PushJob[],
  outcomes: readonly PushOutcome[],
): Promise<readonly PushOutcome[]> {
  const changes: Change[] = [];
  const kept: number[] = [];
  for (const [i, outcome] of outcomes.entries()) {
    if (outcome.kind === 'stored') changes.push(acceptedOf(items[i] as PushJob, outcome));
    else if (outcome.kind === 'kept') kept.push(i);
  }
  const answers = [...outcomes];
  const keepNext = async (): Promise<void> => {
    for (let i = kept.shift(); i !== undefined; i = kept.shift())
      answers[i] = await keep(jobs, spool, items[i] as PushJob, outcomes[i] as PushOutcome);
  };
  const [failure] = await Promise.all([
    failureOf(spool, changes, 'jobs.push'),
    ...Array.from({ length: Math.min(kept.length, journalStoreLimits.keptAtOnceMax) }, keepNext),
  ]);
  for (const [i, outcome] of outcomes.entries())
    if (outcome.kind === 'stored') answers[i] = answerOf(outcome, failure);
  return answers;
}

/** The outcome of a job that the store has. `failure`: of its record */
function answerOf(outcome: Stored | Kept, failure: StoreFailure | null): PushOutcome {
  const { place, ...plain } = outcome;
  if (failure === null) return plain;
  return 'id' in plain ? { ...failure, id: plain.id } : failure;
}

function acceptedOf(
  job: PushJob,
  { version, dueAt, place, id = job.id }: Pick<Stored, 'version' | 'dueAt' | 'place' | 'id'>,
): Change {
  const { topic, priority, contentType, body, failures = 0 } = job;
  if (place === undefined) throw new Error(noChanges);
  return {
    kind: 'accepted',
    isOwn: true,
    topic,
    id,
    place,
    number: version,
    version,
    origin: version,
    dueAt,
    failures,
    // The store's clock at the push is the number's, or earlier by the numbers drawn in the same µs.
    acceptedAt: Math.min(job.acceptedAt ?? Number.POSITIVE_INFINITY, instantOf(version)),
    priority,
    contentType,
    extension: job.extension ?? null,
    body,
  };
}

/** Reads and records the job that a push kept, because an answered push must be in the journal even when the
 *  record of the first push was lost. When the job ended meanwhile, the push is repeated: it may be stored
 *  now. */
async function keep(jobs: JobStore, spool: Spool, job: PushJob, first: PushOutcome): Promise<PushOutcome> {
  let outcome = first;
  for (let round = 1; round <= journalStoreLimits.keepRoundsMax; round += 1) {
    if (outcome.kind === 'stored')
      return answerOf(outcome, await failureOf(spool, [acceptedOf(job, outcome)], 'jobs.push'));
    if (outcome.kind !== 'kept') return outcome;
    const { place } = outcome;
    if (place === undefined) throw new Error(noChanges);
    let found: JobSnapshot | null;
    try {
      found = await jobs.get(job);
    } catch (error) {
      if (error instanceof StoreError) return { kind: 'unknown', code: error.failure.code };
      throw error;
    }
    if (found !== null)
      return answerOf(outcome, await failureOf(spool, [foundOf(job, found, place)], 'jobs.push'));
    if (round < journalStoreLimits.keepRoundsMax) [outcome = outcome] = await jobs.push([job]);
  }
  return { kind: 'unknown', code: 'no_answer' };
}

/** The port does not name the stored priority: the topic's current one is close enough for a job that is put
 *  back. */
function foundOf({ priority }: PushJob, found: JobSnapshot, place: string): Change {
  const { topic, id, version, origin, dueAt, failures, acceptedAt, contentType, body } = found;
  const numbers = { number: version, version, origin, dueAt, failures };
  const pushed = { acceptedAt, priority, contentType, extension: found.extension ?? null, body };
  return { kind: 'accepted', isOwn: false, topic, id, place, ...numbers, ...pushed };
}

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
async function failureOf(
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
async function writeOutcomes<I extends JobKey, O extends { readonly kind: string }>(
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
const noChanges = 'the store names no changes: it was not opened for a journal';
