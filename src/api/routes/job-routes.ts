// /v1/topics/{topic}/jobs/{id}: one job, also when its topic is no longer registered. GET reads it; its flow
// lists its changes, also after its end. POST …/request: its callback as dq would send it now.
// DELETE cancels it; POST …/run, /reschedule, /requeue move it by hand, which makes a new version of it. With
// If-Match only the version that the caller has read is changed.
// PATCH gives a delayed, ready or dead job another body and other options. It requires If-Match: what the
// caller did not read stays as it is.

import type { FastifyRequest } from 'fastify';
import {
  cancelSchema,
  editBody,
  editJobSchema,
  getJobSchema,
  jobFlowSchema,
  jobRequestSchema,
  requeueJobSchema,
  rescheduleJobSchema,
  runJobSchema,
} from '../../contract/api/job.ts';
import { contractLimits } from '../../contract/api/limits.ts';
import { createClock } from '../../core/calendar.ts';
import { callbackRequest } from '../../core/callback-request.ts';
import { callbackHeaders } from '../../core/delivery.ts';
import { formatInstant, formatInstantOrNull } from '../../core/duration.ts';
import { DqError, invalidField } from '../../core/errors.ts';
import { optionsIn, withOptions } from '../../core/extension.ts';
import type { JobKey, VersionedKey } from '../../core/job.ts';
import type { JobRow } from '../../core/job-change.ts';
import { grants } from '../../core/token.ts';
import { maskedValue } from '../../core/topic/settings.ts';
import { monotonicNow } from '../../runtime/time.ts';
import { pushTerms, readWhen } from '../../use-cases/accept-job.ts';
import { getTopic, requireDelivery, topicNotFound } from '../../use-cases/change-topic.ts';
import { acceptEdit, editedFields } from '../../use-cases/edit-job.ts';
import { absentJob, checkedKey, findJob } from '../../use-cases/find-job.ts';
import { type FlowEntry, jobFlow } from '../../use-cases/job-flow.ts';
import { useCaseLimits } from '../../use-cases/limits.ts';
import {
  cancelJob,
  editJob,
  type MovedJob,
  requeueJob,
  rescheduleJob,
  runJob,
} from '../../use-cases/move-job.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { auditNote } from '../audit-trail.ts';
import { type BodyBudget, takeOverBody } from '../http/body-budget.ts';
import { bodyReader } from '../http/read-body.ts';
import { readIfMatch, rejectEncoding } from '../http/request-head.ts';
import { elapsedMs, logRequest } from '../http/request-log.ts';
import { needs, rightsOf, seesHeaderValues } from '../http/route-access.ts';
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

/** Needs a scope of its own, in which the body is a Buffer. */
export function editRoute(api: Api, { role, questions }: ApiContext, budget: BodyBudget): void {
  const { store, topics, config } = role;
  const facts = new JobFactsReader(role, questions);
  const { escapeBytes, itemBytesMore } = useCaseLimits;
  const bytes = config['limits.bodyBytes'] * escapeBytes + itemBytesMore;
  api.removeAllContentTypeParsers();
  api.addContentTypeParser('*', bodyReader(budget, { bytes, option: 'limits.bodyBytes' }));
  api.patch(
    url,
    {
      schema: editJobSchema,
      config: { access: { scope: 'operate', andScope: 'push', topics: 'path' }, bodyContent: editBody },
    },
    async (request) => {
      // The body of the job is a slice of this body.
      const release = takeOverBody(request.raw);
      try {
        rejectEncoding(request.headers, 'body');
        const key = checkedKey(request.params);
        const version = readIfMatch(request, 'version of the job');
        if (version === null)
          throw invalidField('if-match', 'is required; send the version of the job as it was read');
        const job = await store.jobs.get(key);
        if (job === null) throw await absentJob(role, key);
        const topic = topics.get(key.topic) ?? (await topics.lookUp(key.topic));
        if (topic === undefined) throw topicNotFound(key.topic);
        const seesJobs = grants(rightsOf(request), 'read');
        if (job.version !== version) throw await changed(key, seesJobs);
        const item = acceptEdit(
          job,
          topic,
          (request.body as Buffer | undefined) ?? Buffer.alloc(0),
          pushTerms(role),
        );
        const note = (after: Parameters<typeof editedFields>[2]) =>
          auditNote(request, { detail: { changes: editedFields(job, item, after) } });
        const edited = await editJob(store.jobs, item).catch(async (error: unknown) => {
          // It may be made: when the job is due then is not known.
          if (error instanceof DqError && error.code === 'unknown') note(job);
          throw error instanceof DqError && error.code === 'job_changed'
            ? await changed(key, seesJobs)
            : error;
        });
        if (edited === null) throw await absentJob(role, key);
        note(edited);
        const { state, dueAt } = edited;
        return { ...key, version: String(edited.version), state, dueAt: formatInstant(dueAt) };
      } finally {
        release();
      }
    },
  );

  /** With the job as it is now, for callers that may read it. */
  async function changed(key: JobKey, seesJobs: boolean): Promise<DqError> {
    const job = seesJobs ? await store.jobs.get(key) : null;
    const detail = 'the job was not edited: it has another version by now; read it again, then decide';
    return new DqError('job_changed', detail, {
      extra: job === null ? {} : { job: jobJson(job, await facts.of(job)) },
    });
  }
}

const config = needs('operate', 'path');

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
