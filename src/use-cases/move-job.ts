// move-job.ts holds the use cases that change one job by hand: run, reschedule, requeue, edit, cancel. Each
// returns the result, or null when there is no such job. A rejection by the job's state, a job with another
// version than the key names (job_changed), or a store that did not do it (not_stored or unknown), is a
// DqError. Repeating any of them is safe.

import { DqError, restoring } from '../core/errors.ts';
import type { JobState, VersionedKey } from '../core/job.ts';
import type { EditItem, JobStore, OtherVersion, Reversioned, When } from '../ports/job-store.ts';
import { type StoreFailure, storeFailed } from '../ports/store-error.ts';

export interface MovedJob extends Reversioned {
  readonly state: JobState;
}

/** A ready or reserved job stays unchanged. */
export async function runJob(store: Pick<JobStore, 'run'>, key: VersionedKey): Promise<MovedJob | null> {
  const [outcome = noAnswer] = await store.run([key]);
  switch (outcome.kind) {
    case 'run':
      return { ...outcome, state: 'ready' };
    case 'unchanged':
      return outcome;
    case 'dead':
      throw deadJob();
    case 'absent':
      return null;
    default:
      throw failed(outcome, 'run');
  }
}

export async function rescheduleJob(
  store: Pick<JobStore, 'reschedule'>,
  key: VersionedKey,
  when: When,
): Promise<MovedJob | null> {
  const [outcome = noAnswer] = await store.reschedule([{ ...key, when }]);
  switch (outcome.kind) {
    case 'rescheduled':
      return outcome;
    case 'in_flight':
      throw new DqError('job_in_flight', 'an attempt may be running; reschedule after its end');
    case 'dead':
      throw deadJob();
    case 'absent':
      return null;
    default:
      throw failed(outcome, 'rescheduled');
  }
}

export async function requeueJob(
  store: Pick<JobStore, 'requeue'>,
  key: VersionedKey,
): Promise<MovedJob | null> {
  const [outcome = noAnswer] = await store.requeue([key]);
  switch (outcome.kind) {
    case 'requeued':
      return { ...outcome, state: 'ready' };
    case 'not_dead':
      throw notDead(outcome.state);
    case 'absent':
      return null;
    default:
      throw failed(outcome, 'requeued');
  }
}

export async function editJob(store: Pick<JobStore, 'edit'>, item: EditItem): Promise<MovedJob | null> {
  const [outcome = noAnswer] = await store.edit([item]);
  switch (outcome.kind) {
    case 'edited':
      return outcome;
    case 'in_flight':
      throw new DqError('job_in_flight', 'an attempt may be running; edit the job after its end');
    case 'dead':
      throw new DqError('job_dead', 'the job is a dead letter; edit it with requeue, in one step');
    case 'not_dead':
      throw notDead(outcome.state);
    case 'absent':
      return null;
    default:
      throw failed(outcome, 'edited');
  }
}

/** Cancels a job in any state. `inFlight`: an attempt of the job is running, or may be: a store that may have
 *  lost the job does not know. */
export async function cancelJob(
  store: Pick<JobStore, 'cancel'>,
  key: VersionedKey,
): Promise<{ readonly inFlight: boolean } | null> {
  const [outcome = noAnswer] = await store.cancel([key]);
  switch (outcome.kind) {
    case 'cancelled':
      return { inFlight: outcome.inFlight };
    case 'absent':
      // The store may have lost it, and it does not come back.
      return outcome.isRecorded === true ? { inFlight: true } : null;
    default:
      throw failed(outcome, 'cancelled');
  }
}

const noAnswer: StoreFailure = { kind: 'unknown', code: 'no_answer' };

const notDead = (state: JobState): DqError =>
  new DqError('not_dead', `the job is ${state}, not dead; only dead jobs can be requeued`);

function deadJob(): DqError {
  return new DqError('job_dead', 'the job is a dead letter; requeue it');
}

function failed(outcome: StoreFailure | OtherVersion, done: string): DqError {
  if (outcome.kind === 'other_version')
    return new DqError(
      'job_changed',
      `the job was not ${done}: it has another version by now; read it again, then decide`,
    );
  const { kind, code } = outcome;
  if (code === 'restoring') return restoring();
  return kind === 'not_stored'
    ? storeFailed('not_stored', `the job was not ${done}`, outcome, 'try again')
    : new DqError('unknown', `the job may or may not be ${done} (${code}); trying again is safe`);
}
