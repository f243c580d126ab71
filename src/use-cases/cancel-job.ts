// The use case of a cancel: one job goes, whatever its state. Repeating it is safe; a repeat answers that there is none.

import { DqError } from '../core/errors.ts';
import type { JobKey } from '../core/job.ts';
import type { JobStore } from '../ports/job-store.ts';

/** Answers null when there is no such job. Rejects with `not_stored` or `unknown`. */
export async function cancelJob(
  store: Pick<JobStore, 'cancel'>,
  key: JobKey,
): Promise<{ readonly inFlight: boolean } | null> {
  const [outcome] = await store.cancel([key]);
  switch (outcome?.kind) {
    case 'cancelled':
      return { inFlight: outcome.inFlight };
    case 'absent':
      return null;
    case 'not_stored':
      throw new DqError('not_stored', `the job was not cancelled (${outcome.code}); cancel it again`);
    default:
      throw new DqError(
        'unknown',
        `the job may or may not be cancelled (${outcome?.code ?? 'no_answer'}); cancelling it again is safe`,
      );
  }
}
