// POST /v1/topics/{topic}/jobs/{id}/run, /reschedule, /requeue: move one job by hand. Each makes a new version of the same job.
// A job whose topic is no longer registered can be moved too.

import { Type } from 'typebox';
import { formatInstant } from '../../core/duration.ts';
import { invalidField } from '../../core/errors.ts';
import type { JobKey } from '../../core/job.ts';
import { readWhen } from '../../use-cases/accept-job.ts';
import { type MovedJob, requeueJob, rescheduleJob, runJob } from '../../use-cases/move-job.ts';
import type { Api, ApiContext } from '../api-context.ts';
import {
  closed,
  durationText,
  Instant,
  instantText,
  jobParams,
  problems,
  reply,
  StateName,
  VersionText,
} from '../http/schemas.ts';
import { absentJob, readKey } from './job-key.ts';

const Moved = closed({
  topic: Type.String(),
  id: Type.String(),
  version: VersionText,
  state: StateName,
  dueAt: Instant,
});
const params = closed(jobParams);
const config = { access: { scope: 'operate', topics: 'path' } } as const;
const response = { 200: reply('the job as it is now', Moved), ...problems(404, 409, 413, 503) };
const tags = ['jobs'];

export function jobVerbRoutes(api: Api, { role }: ApiContext): void {
  const { topics } = role;
  const { jobs } = role.store;

  api.post(
    '/v1/topics/:topic/jobs/:id/run',
    {
      schema: {
        operationId: 'runJob',
        tags,
        summary: 'Deliver now; without effect when it is ready or reserved',
        params,
        response,
      },
      config,
    },
    (request) => moved(readKey(request.params), (key) => runJob(jobs, key)),
  );

  api.post(
    '/v1/topics/:topic/jobs/:id/reschedule',
    {
      schema: {
        operationId: 'rescheduleJob',
        tags,
        summary: 'Deliver at another time: delay or at; attempts made stay counted',
        params,
        querystring: closed({ delay: durationText('from now'), at: instantText('when it is due') }),
        response,
      },
      config,
    },
    (request) => {
      const key = readKey(request.params);
      const when = readWhen({ ...request.query, inQuery: true }, role.clock.now());
      if (when === null) throw invalidField('delay', 'give delay or at');
      return moved(key, () => rescheduleJob(jobs, key, when));
    },
  );

  api.post(
    '/v1/topics/:topic/jobs/:id/requeue',
    {
      schema: {
        operationId: 'requeueJob',
        tags,
        summary: 'Bring a dead letter back; its attempts start again',
        params,
        response,
      },
      config,
    },
    (request) => moved(readKey(request.params), (key) => requeueJob(jobs, key)),
  );

  async function moved(key: JobKey, move: (key: JobKey) => Promise<MovedJob | null>): Promise<object> {
    const job = await move(key);
    if (job === null) throw await absentJob(topics, key.topic);
    const { version, state, dueAt } = job;
    return { ...key, version: String(version), state, dueAt: formatInstant(dueAt) };
  }
}
