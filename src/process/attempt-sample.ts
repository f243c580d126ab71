// AttemptSample is an attempt as dq-upkeep keeps it in its ring: for people who watch, not for jobs.
// Notifiers send samples in the message `attempts`. JSON.

import type { AttemptRecord, JobKey, Version } from '../core/job.ts';

export interface AttemptSample
  extends JobKey,
    Pick<
      AttemptRecord,
      'attempt' | 'startedAt' | 'durationMs' | 'outcome' | 'reason' | 'status' | 'replyExcerpt' | 'notifier'
    > {
  readonly version: Version;
  /** from the due time to the start, ms */
  readonly latenessMs: number;
  /** of the URL that was called */
  readonly origin: string;
  /** the failure of a call without a whole reply; '' otherwise */
  readonly detail: string;
}
