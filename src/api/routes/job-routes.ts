// GET /v1/topics/{topic}/jobs/{id}: read one job, also when its topic is no longer registered. GET …/flow:
// what happened to it, also after its end. POST …/request: its callback as dq would send it now.

import { getJobSchema, jobFlowSchema, jobRequestSchema } from '../../contract/api/job.ts';
import { contractLimits } from '../../contract/api/limits.ts';
import { createClock } from '../../core/calendar.ts';
import { callbackRequest } from '../../core/callback-request.ts';
import { callbackHeaders } from '../../core/delivery.ts';
import { formatInstant, formatInstantOrNull } from '../../core/duration.ts';
import { DqError } from '../../core/errors.ts';
import { optionsIn, withOptions } from '../../core/extension.ts';
import type { JobRow } from '../../core/job-change.ts';
import { maskedValue } from '../../core/topic/settings.ts';
import { getTopic, requireDelivery } from '../../use-cases/change-topic.ts';
import { absentJob, checkedKey, findJob } from '../../use-cases/find-job.ts';
import { type FlowEntry, jobFlow } from '../../use-cases/job-flow.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { needs, seesHeaderValues } from '../http/route-access.ts';
import { JobFactsReader } from './job-facts.ts';
import { attemptJson, bodyJson, jobJson } from './job-json.ts';

const url = '/v1/topics/:topic/jobs/:id';

export function jobRoutes(api: Api, { role, questions }: ApiContext): void {
  const { store, registry, clock, config, version, journal } = role;
  const facts = new JobFactsReader(role, questions);
  const wallClock = createClock(config.timezone);

  api.get(url, { schema: getJobSchema, config: needs('read', 'path') }, async (request) => {
    const key = checkedKey(request.params);
    const found = await findJob(store, key);
    if (found === null) throw await absentJob(role, key);
    return jobJson(found, await facts.of(found));
  });

  api.get(`${url}/flow`, { schema: jobFlowSchema, config: needs('read', 'path') }, async (request) => {
    const key = checkedKey(request.params);
    const [logged, rows, job] = await Promise.all([
      journal?.db.flow(key, contractLimits.flowMax) ?? [],
      journal?.db.rows([key]) ?? ([] as readonly JobRow[]),
      findJob(store, key),
    ]);
    const entries = jobFlow(logged, job, rows[0] ?? null);
    if (entries.length === 0) throw await absentJob(role, key);
    return { journal: journal !== undefined, entries: entries.map(flowJson) };
  });

  api.post(
    `${url}/request`,
    { schema: jobRequestSchema, config: needs('operate', 'path') },
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

function flowJson({ at, version, dueAt, attempt, ...entry }: FlowEntry) {
  return {
    ...entry,
    at: formatInstant(at),
    version: version === null ? null : String(version),
    dueAt: formatInstantOrNull(dueAt),
    attempt: attempt === null ? null : attemptJson(attempt, { dueAt: dueAt ?? at }),
  };
}
