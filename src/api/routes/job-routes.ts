// GET and DELETE /v1/topics/{topic}/jobs/{id}: read one job, cancel one job. POST …/request: the callback as
// dq would send it now. GET and DELETE also work for a job whose topic is no longer registered.

import { cancelSchema, getJobSchema, jobRequestSchema } from '../../contract/api/job.ts';
import { createClock } from '../../core/calendar.ts';
import { callbackRequest } from '../../core/callback-request.ts';
import type { CapacityReason } from '../../core/capacity-reasons.ts';
import { callbackHeaders } from '../../core/delivery.ts';
import { formatInstant } from '../../core/duration.ts';
import { DqError } from '../../core/errors.ts';
import { deadlineOf, optionsIn, withOptions } from '../../core/extension.ts';
import type { EndedJob, JobKey, JobSnapshot, Version } from '../../core/job.ts';
import { whyOf } from '../../core/job-why.ts';
import { limits } from '../../core/limits.ts';
import { plannedAttempts } from '../../core/retry-policy.ts';
import { placesOf } from '../../core/shard-list.ts';
import { maskedValue } from '../../core/topic/settings.ts';
import { monotonicNow } from '../../runtime/time.ts';
import { getTopic, requireDelivery } from '../../use-cases/change-topic.ts';
import { cancelJob } from '../../use-cases/move-job.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { elapsedMs, logRequest } from '../http/request-log.ts';
import { seesHeaderValues } from '../http/route-access.ts';
import { KeptAnswers } from '../kept-answers.ts';
import type { MasterQuestions } from '../master-questions.ts';
import { bodyJson, type JobFacts, jobJson } from './job-json.ts';
import { absentJob, readKey, readVersionedKey } from './job-key.ts';

const url = '/v1/topics/:topic/jobs/:id';

export function jobRoutes(api: Api, context: ApiContext, questions: MasterQuestions): void {
  const { store, topics, counters, registry, clock, config, shards, version } = context.role;
  const capacities = new KeptAnswers<readonly CapacityReason[]>();
  const calls = new KeptAnswers<number | null>();
  const wallClock = createClock(config.timezone);

  api.get(
    url,
    { schema: getJobSchema, config: { access: { scope: 'read', topics: 'path' } } },
    async (request) => {
      const { topic, id } = readKey(request.params);
      // In parallel: one after the other would miss a job that is pushed again in between.
      const [job, ended] = await Promise.all([
        store.jobs.get({ topic, id }),
        store.history.get({ topic, id }),
      ]);
      const found = job ?? ended;
      if (found === null) throw await absentJob(topics, topic);
      return jobJson(found, await factsOf(found));
    },
  );

  api.post(
    `${url}/request`,
    { schema: jobRequestSchema, config: { access: { scope: 'operate', topics: 'path' } } },
    async (request) => {
      const key = readKey(request.params);
      const [job, topic] = await Promise.all([store.jobs.get(key), getTopic(registry, key.topic)]);
      if (job === null) throw await absentJob(topics, key.topic);
      if (topic === null) throw new DqError('topic_not_found', `topic ${key.topic} is not registered`);
      requireDelivery(topic, 'push');
      const target = new URL(topic.callbackUrl);
      const { path, body, contentType } = callbackRequest(
        job,
        topic,
        target.pathname + target.search,
        wallClock,
      );
      const nowMs = clock.now();
      const headers = seesHeaderValues(request)
        ? topic.headers
        : Object.fromEntries(Object.keys(topic.headers).map((name) => [name, maskedValue]));
      return {
        method: topic.method,
        url: target.origin + path,
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

  api.delete(
    url,
    { schema: cancelSchema, config: { access: { scope: 'push', topics: 'path' }, requestLog: true } },
    async (request, answer) => {
      const since = monotonicNow();
      const key = readVersionedKey(request);
      const { topic, id } = key;
      const cancelled = await cancelJob(store.jobs, key);
      if (cancelled === null) throw await absentJob(topics, topic);
      counters.add(topic, 'cancelled');
      const line = { code: null, version: null, dueAt: null, bytes: 0, ms: elapsedMs(since) };
      logRequest(context.role.log, { method: 'DELETE', topic, id, status: 200, ...line });
      return answer.send({ cancelled: true, inFlight: cancelled.inFlight });
    },
  );

  async function factsOf(job: JobSnapshot | EndedJob): Promise<JobFacts> {
    const registered = topics.get(job.topic);
    const options = 'endedAt' in job ? {} : optionsIn(job.extension);
    const topic = registered === undefined ? undefined : withOptions(registered, options);
    const now = clock.now();
    const waits = job.state === 'ready' && topic?.state === 'active';
    const [notifiers, ahead, isAtPullLeases] = waits
      ? await Promise.all([
          capacities.of(job.topic, () => questions.ask('capacity', { topic: job.topic })),
          // Without it, the answer still says why.
          store.surveys.position(job).catch(() => null),
          topic.delivery === 'pull' && hasManyLeases(job.topic),
        ])
      : [null, null, false];
    const call = job.state === 'reserved' ? await callOf(job) : null;
    const alert = job.state === 'dead' ? await store.alerts.stateOf(job).catch(() => undefined) : undefined;
    return {
      alert,
      maxAttempts: topic?.maxAttempts ?? null,
      why: whyOf(job, { now, topic, notifiers, places: placesOfJob(job), ahead, call, isAtPullLeases }),
      planned:
        topic === undefined || 'endedAt' in job
          ? null
          : plannedAttempts(job, topic, config['retry.unit'], now).filter(
              ({ at }) => at <= deadlineOf(options, job),
            ),
      options,
      shard: shardOf(job),
      keptUntil: keptUntil(job),
    };
  }

  /** Whether its pull clients get no more jobs (JobStore.reserve). Of all partitions together. */
  async function hasManyLeases(topic: string): Promise<boolean> {
    const counts = await store.admin.counts().catch(() => null);
    if (counts === null) return false;
    const leases = Object.entries(counts.topics).map(([name, { reserved }]) =>
      topics.get(name)?.delivery === 'pull' ? reserved : 0,
    );
    const left =
      limits.pullLeasesMax * store.jobs.partitions().length - leases.reduce((sum, n) => sum + n, 0);
    return (counts.topics[topic]?.reserved ?? 0) >= left;
  }

  /** null: its end does not depend on the time. */
  function keptUntil(job: JobSnapshot | EndedJob): number | null {
    if ('endedAt' in job) return job.endedAt + config['history.retention'];
    return job.deadAt === null ? null : job.deadAt + config['dead.retention'];
  }

  /** null: there is one partition. */
  function placesOfJob(job: JobKey): readonly string[] | null {
    const { jobs } = store;
    const found = jobs.partitionsOf?.(job);
    return found === undefined ? null : found.map((partition) => jobs.nameOf?.(partition) ?? '');
  }

  /** null: no notifier of this instance says that it calls the job. */
  async function callOf({ topic, id, version }: JobKey & { readonly version: Version }) {
    const about = `${version} ${topic} ${id}`;
    const answers = await calls.of(about, () => questions.ask('running', { topic, id, version }));
    const found = answers?.find(({ answer }) => answer !== null);
    return typeof found?.answer !== 'number' ? null : { since: found.answer, notifier: found.process };
  }

  /** null: an earlier shard list may have placed it elsewhere. */
  function shardOf(job: JobKey): string | null | undefined {
    if (shards === undefined) return undefined;
    const { home, earlier } = placesOf(shards.servers.list, job);
    return earlier.length === 0 ? home : null;
  }
}
