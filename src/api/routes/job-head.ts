// jobHead returns the members that every reply about a job has, whether the job is live, dead or ended.

import { formatInstant } from '../../core/duration.ts';
import type { EndedJob, FoundJob, JobSnapshot } from '../../core/job.ts';

export function jobHead(job: JobSnapshot | EndedJob | FoundJob) {
  return {
    topic: job.topic,
    id: job.id,
    version: String(job.version),
    state: job.state,
    dueAt: formatInstant(job.dueAt),
    createdAt: formatInstant(job.acceptedAt),
    // Finished attempts: for a delivered job, including the successful one.
    attempt: job.state === 'done' ? job.failures + 1 : job.failures,
  };
}
