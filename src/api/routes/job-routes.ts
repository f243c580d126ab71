// GET /v1/topics/{topic}/jobs/{id}: read one job, also when its topic is no longer registered. POST
// …/request: its callback as dq would send it now.

import { getJobSchema, jobRequestSchema } from '../../contract/api/job.ts';
import { createClock } from '../../core/calendar.ts';
import { callbackRequest } from '../../core/callback-request.ts';
import { callbackHeaders } from '../../core/delivery.ts';
import { formatInstant } from '../../core/duration.ts';
import { DqError } from '../../core/errors.ts';
import { optionsIn, withOptions } from '../../core/extension.ts';
import { maskedValue } from '../../core/topic/settings.ts';
import type { MasterQuestions } from '../../process/master-questions.ts';
import { getTopic, requireDelivery } from '../../use-cases/change-topic.ts';
import { absentJob, checkedKey, findJob } from '../../use-cases/find-job.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { seesHeaderValues } from '../http/route-access.ts';
import { JobFactsReader } from './job-facts.ts';
import { bodyJson, jobJson } from './job-json.ts';

const url = '/v1/topics/:topic/jobs/:id';

export function jobRoutes(api: Api, { role }: ApiContext, questions: MasterQuestions): void {
  const { store } = role;
  const facts = new JobFactsReader(role, questions);

  api.get(
    url,
    { schema: getJobSchema, config: { access: { scope: 'read', topics: 'path' } } },
    async (request) => {
      const key = checkedKey(request.params);
      const found = await findJob(store, key);
      if (found === null) throw await absentJob(role, key);
      return jobJson(found, await facts.of(found));
    },
  );
}

export function callbackRequestRoute(api: Api, { role }: ApiContext): void {
  const { store, registry, clock, config, version } = role;
  const wallClock = createClock(config.timezone);

  api.post(
    `${url}/request`,
    { schema: jobRequestSchema, config: { access: { scope: 'operate', topics: 'path' } } },
    async (request) => {
      const key = checkedKey(request.params);
      const [job, topic] = await Promise.all([store.jobs.get(key), getTopic(registry, key.topic)]);
      if (job === null) throw await absentJob(role, key);
      if (topic === null) throw new DqError('topic_not_found', `topic ${key.topic} is not registered`);
      requireDelivery(topic, 'push');
      const { origin, pathname, search } = new URL(topic.callbackUrl);
      const { path, body, contentType } = callbackRequest(job, topic, pathname + search, wallClock);
      const nowMs = clock.now();
      const headers = seesHeaderValues(request)
        ? topic.headers
        : Object.fromEntries(Object.keys(topic.headers).map((name) => [name, maskedValue]));
      return {
        method: topic.method,
        url: origin + path,
        headers: callbackHeaders(
          { ...job, contentType },
          { ...withOptions(topic, optionsIn(job.extension)), headers },
          { nowMs, body, version },
        ),
        ...bodyJson(body),
        at: formatInstant(nowMs),
      };
    },
  );
}
