// The use cases that move one job by hand: run it now, give it another time, bring it back from the dead. Each answers what
// became of it, or null when there is no such job; a refusal, or a store that did not do it, is a DqError. Repeating any of them
// is safe.

import { DqError } from '../core/errors.ts';
import type { JobKey, JobState } from '../core/job.ts';
import type { JobStore, Reversioned, StoreFailure, When } from '../ports/job-store.ts';

export interface MovedJob extends Reversioned {
  readonly state: JobState;
}

/** One that is ready or reserved stays as it is. */
export async function runJob(store: Pick<JobStore, 'run'>, key: JobKey): Promise<MovedJob | null> {
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
  key: JobKey,
  when: When,
): Promise<MovedJob | null> {
  const [outcome = noAnswer] = await store.reschedule([{ ...key, when }]);
  switch (outcome.kind) {
    case 'rescheduled':
      return outcome;
    case 'in_flight':
      throw new DqError('job_in_flight', 'an attempt of the job may be running; it keeps its time');
    case 'dead':
      throw deadJob();
    case 'absent':
      return null;
    default:
      throw failed(outcome, 'rescheduled');
  }
}

export async function requeueJob(store: Pick<JobStore, 'requeue'>, key: JobKey): Promise<MovedJob | null> {
  const [outcome = noAnswer] = await store.requeue([key]);
  switch (outcome.kind) {
    case 'requeued':
      return { ...outcome, state: 'ready' };
    case 'not_dead':
      throw new DqError('not_dead', `the job is ${outcome.state}, not dead`);
    case 'absent':
      return null;
    default:
      throw failed(outcome, 'requeued');
  }
}

const noAnswer: StoreFailure = { kind: 'unknown', code: 'no_answer' };

function deadJob(): DqError {
  return new DqError('job_dead', 'the job is a dead letter; requeue brings it back');
}

function failed({ kind, code }: StoreFailure, done: string): DqError {
  return kind === 'not_stored'
    ? new DqError('not_stored', `the job was not ${done} (${code}); try again`)
    : new DqError('unknown', `the job may or may not be ${done} (${code}); trying again is safe`);
}
