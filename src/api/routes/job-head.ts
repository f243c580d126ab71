// What every answer says of a job, wherever it was found: live, dead or ended.

import { formatInstant } from '../../core/duration.ts';
import type { EndedJob, FoundJob, JobSnapshot } from '../../core/job.ts';

export function jobHead(job: JobSnapshot | EndedJob | FoundJob): object {
  return {
    topic: job.topic,
    id: job.id,
    version: String(job.version),
    state: job.state,
    dueAt: formatInstant(job.dueAt),
    createdAt: formatInstant(job.acceptedAt),
    // Finished ones: of a job that was delivered, the successful one too.
    attempt: job.state === 'done' ? job.failures + 1 : job.failures,
  };
}
