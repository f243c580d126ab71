// DELETE /v1/topics/{topic}/jobs/{id}: cancel one job. POST …/run, /reschedule, /requeue: move one job by
// hand, which makes a new version of it. They also work for a job whose topic is no longer registered. With
// If-Match only the version that the caller has read is changed.

import type { FastifyRequest } from 'fastify';
import { cancelSchema, requeueJobSchema, rescheduleJobSchema, runJobSchema } from '../../contract/api/job.ts';
import { formatInstant } from '../../core/duration.ts';
import { invalidField } from '../../core/errors.ts';
import type { JobKey, VersionedKey } from '../../core/job.ts';
import { monotonicNow } from '../../runtime/time.ts';
import { readWhen } from '../../use-cases/accept-job.ts';
import { absentJob, checkedKey } from '../../use-cases/find-job.ts';
import { cancelJob, type MovedJob, requeueJob, rescheduleJob, runJob } from '../../use-cases/move-job.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { readIfMatch } from '../http/request-head.ts';
import { elapsedMs, logRequest } from '../http/request-log.ts';
import { needs } from '../http/route-access.ts';

const config = needs('operate', 'path');

const url = '/v1/topics/:topic/jobs/:id';

export function jobVerbRoutes(api: Api, { role }: ApiContext): void {
  const { counters, log } = role;
  const { jobs } = role.store;

  api.delete(
    url,
    { schema: cancelSchema, config: { ...needs('push', 'path'), requestLog: true } },
    async (request, answer) => {
      const since = monotonicNow();
      const key = readVersionedKey(request);
      const { topic, id } = key;
      const cancelled = await cancelJob(jobs, key);
      if (cancelled === null) throw await absentJob(role, key);
      counters.add(topic, 'cancelled');
      const line = { code: null, version: null, dueAt: null, bytes: 0, ms: elapsedMs(since) };
      logRequest(log, { method: 'DELETE', topic, id, status: 200, ...line });
      return answer.send({ cancelled: true, inFlight: cancelled.inFlight });
    },
  );

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
    if (job === null) throw await absentJob(role, key);
    const { version, state, dueAt } = job;
    return { topic: key.topic, id: key.id, version: String(version), state, dueAt: formatInstant(dueAt) };
  }
}

/** The job of the path, with the version that the caller has read (If-Match). */
function readVersionedKey(request: FastifyRequest<{ Params: JobKey }>): VersionedKey {
  const key = checkedKey(request.params);
  const version = readIfMatch(request, 'version of the job');
  return version === null ? key : { ...key, version };
}
