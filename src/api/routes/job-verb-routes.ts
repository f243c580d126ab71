// POST /v1/topics/{topic}/jobs/{id}/run, /reschedule, /requeue: move one job by hand. Each makes a new
// version of the job, and works also for a job whose topic is no longer registered. With If-Match only the
// version that the caller has read is moved.

import { requeueJobSchema, rescheduleJobSchema, runJobSchema } from '../../contract/api/job.ts';
import { formatInstant } from '../../core/duration.ts';
import { invalidField } from '../../core/errors.ts';
import type { VersionedKey } from '../../core/job.ts';
import { readWhen } from '../../use-cases/accept-job.ts';
import { type MovedJob, requeueJob, rescheduleJob, runJob } from '../../use-cases/move-job.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { absentJob, readVersionedKey } from './job-key.ts';

const config = { access: { scope: 'operate', topics: 'path' } } as const;

const url = '/v1/topics/:topic/jobs/:id';

export function jobVerbRoutes(api: Api, { role }: ApiContext): void {
  const { topics } = role;
  const { jobs } = role.store;

  api.post(`${url}/run`, { schema: runJobSchema, config }, (request) =>
    moved(readVersionedKey(request), (key) => runJob(jobs, key)),
  );

  api.post(`${url}/reschedule`, { schema: rescheduleJobSchema, config }, (request) => {
    const key = readVersionedKey(request);
    const when = readWhen({ ...request.query, inQuery: true }, role.clock.now());
    if (when === null) throw invalidField('delay', 'is required; give delay or at');
    return moved(key, () => rescheduleJob(jobs, key, when));
  });

  api.post(`${url}/requeue`, { schema: requeueJobSchema, config }, (request) =>
    moved(readVersionedKey(request), (key) => requeueJob(jobs, key)),
  );

  async function moved(key: VersionedKey, move: (key: VersionedKey) => Promise<MovedJob | null>) {
    const job = await move(key);
    if (job === null) throw await absentJob(topics, key.topic);
    const { version, state, dueAt } = job;
    return { topic: key.topic, id: key.id, version: String(version), state, dueAt: formatInstant(dueAt) };
  }
}
