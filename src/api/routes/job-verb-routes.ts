// POST /v1/topics/{topic}/jobs/{id}/run, /reschedule, /requeue: move one job by hand. Each makes a new
// version of the job, and works also for a job whose topic is no longer registered. With If-Match only the
// version that the caller has read is moved.

import { formatInstant } from '../../core/duration.ts';
import { invalidField } from '../../core/errors.ts';
import type { VersionedKey } from '../../core/job.ts';
import { readWhen } from '../../use-cases/accept-job.ts';
import { type MovedJob, requeueJob, rescheduleJob, runJob } from '../../use-cases/move-job.ts';
import type { Api, ApiContext } from '../api-context.ts';
import {
  closed,
  DueAt,
  durationText,
  instantText,
  JobId,
  jobParams,
  problems,
  reply,
  State,
  TopicName,
  Version,
} from '../http/schemas.ts';
import { absentJob, readVersionedKey, versionCondition } from './job-key.ts';

const Moved = closed(
  { topic: TopicName, id: JobId, version: Version, state: State, dueAt: DueAt },
  { title: 'MovedJob' },
);
const shared = {
  tags: ['jobs'],
  params: closed(jobParams),
  description: versionCondition,
  response: { 200: reply('the job after the call', Moved), ...problems(404, 409, 412, 413, 503) },
};
const runSchema = {
  ...shared,
  operationId: 'runJob',
  summary: 'Deliver now; no effect when the job is ready or reserved',
};
const rescheduleSchema = {
  ...shared,
  operationId: 'rescheduleJob',
  summary: 'Deliver at another time (delay or at); finished attempts still count',
  querystring: closed({
    delay: durationText('time from now until the next attempt'),
    at: instantText('when the next attempt is due'),
  }),
};
const requeueSchema = {
  ...shared,
  operationId: 'requeueJob',
  summary: 'Requeue a dead letter; its attempts start again',
};
const config = { access: { scope: 'operate', topics: 'path' } } as const;
const url = '/v1/topics/:topic/jobs/:id';

export function jobVerbRoutes(api: Api, { role }: ApiContext): void {
  const { topics } = role;
  const { jobs } = role.store;

  api.post(`${url}/run`, { schema: runSchema, config }, (request) =>
    moved(readVersionedKey(request), (key) => runJob(jobs, key)),
  );

  api.post(`${url}/reschedule`, { schema: rescheduleSchema, config }, (request) => {
    const key = readVersionedKey(request);
    const when = readWhen({ ...request.query, inQuery: true }, role.clock.now());
    if (when === null) throw invalidField('delay', 'is required; give delay or at');
    return moved(key, () => rescheduleJob(jobs, key, when));
  });

  api.post(`${url}/requeue`, { schema: requeueSchema, config }, (request) =>
    moved(readVersionedKey(request), (key) => requeueJob(jobs, key)),
  );

  async function moved(
    key: VersionedKey,
    move: (key: VersionedKey) => Promise<MovedJob | null>,
  ): Promise<object> {
    const job = await move(key);
    if (job === null) throw await absentJob(topics, key.topic);
    const { version, state, dueAt } = job;
    return { topic: key.topic, id: key.id, version: String(version), state, dueAt: formatInstant(dueAt) };
  }
}
