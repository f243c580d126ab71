// Finds one job: by its key, live or ended, the first one of a filter, or the one that makes a topic late.
// Holds what each way in answers about a job: the members that every reply has, and the error for a missing
// job.

import { formatInstant } from '../core/duration.ts';
import type { RetriedJob } from '../core/endpoint.ts';
import { DqError, invalidField } from '../core/errors.ts';
import {
  type EndedJob,
  type FoundJob,
  type JobKey,
  type JobSnapshot,
  undeliveredSince,
} from '../core/job.ts';
import { refusesId } from '../core/job-id.ts';
import { topicNamePattern } from '../core/topic/fields.ts';
import type { JobStore, SearchFilter, Store } from '../ports/job-store.ts';
import type { TopicBook } from '../registry/topic-book.ts';
import { topicNotFound } from './change-topic.ts';
import { useCaseLimits } from './limits.ts';

/** Returns the key. Throws DqError for one that cannot name a job. */
export function checkedKey<Key extends JobKey>(key: Key): Key {
  if (!topicNamePattern.test(key.topic)) throw topicNotFound(key.topic);
  const wrong = refusesId(key.id);
  if (wrong !== null) throw invalidField('id', wrong);
  return key;
}

/** null: neither live nor ended. */
export async function findJob(
  { jobs, history }: Pick<Store, 'jobs' | 'history'>,
  key: JobKey,
): Promise<JobSnapshot | EndedJob | null> {
  // In parallel: one after the other would miss a job that is pushed again in between.
  const [job, ended] = await Promise.all([jobs.get(key), history.get(key)]);
  return job ?? ended;
}

/** job_not_found, or topic_not_found. For use after the store's answer, because a job outlives its topic. */
export async function absentJob(
  { topics, store }: { readonly topics: TopicBook; readonly store: Pick<Store, 'history'> },
  key: JobKey,
): Promise<DqError> {
  const known = topics.get(key.topic) ?? (await topics.lookUp(key.topic));
  if (known === undefined) return topicNotFound(key.topic);
  const ended = await store.history.get(key).catch(() => null);
  if (ended === null) return new DqError('job_not_found', 'no such job, or the job has ended');
  const { state, endedAt } = ended;
  const detail = `the job has ended: ${state} at ${formatInstant(endedAt)}`;
  return new DqError('job_not_found', detail, { extra: { state } });
}

/** The members that every reply about a job has, whether the job is live, dead or ended. */
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

type Jobs = Pick<JobStore, 'search'>;

/** The first job of a filter, where one call of the store may read only jobs that do not match. null: no job
 *  matches, or it lies behind firstFoundPages pages without one. Rejects with StoreError. */
export async function firstFound(
  jobs: Jobs,
  filter: SearchFilter,
  from: string | null = null,
): Promise<FoundJob | null> {
  let cursor = from;
  for (let page = 0; page < useCaseLimits.firstFoundPages; page += 1) {
    const { items, nextCursor } = await jobs.search(filter, 1, cursor);
    if (items[0] !== undefined || nextCursor === null) return items[0] ?? null;
    cursor = nextCursor;
  }
  return null;
}

/** The job of a topic that waits for the longest time: a ready one, or one that was due before `until` (epoch
 *  ms) and is not promoted. */
export async function oldestDue(jobs: Jobs, topic: string, until: number): Promise<FoundJob | null> {
  const [ready, delayed] = await Promise.all([
    firstFound(jobs, { topic, state: 'ready' }),
    firstFound(jobs, { topic, state: 'delayed', until }),
  ]);
  if (ready === null || delayed === null) return ready ?? delayed;
  return delayed.dueAt < ready.dueAt ? delayed : ready;
}

/** The job of a topic that waits for the longest time since its first attempt was due. */
interface WaitingJob {
  readonly id: string;
  /** epoch ms */
  readonly since: number;
  /** Its first attempt is not kept; or others retry, too, and one of them may wait for longer: a retry moves
   *  the due time, by which the store finds jobs, and only the attempts of a job have the first one. */
  readonly isLeast: boolean;
}

interface Candidates {
  readonly topic: string;
  /** by searches of the caller */
  readonly found: readonly (FoundJob | null)[];
  /** by notifiers; some may have ended */
  readonly retried: readonly RetriedJob[];
  /** delayed and ready jobs of the topic */
  readonly jobs: number;
  /** Attempts of the topic have failed. */
  readonly hasFailed: boolean;
}

/** null: none of the candidates waits, and is due or was. Reads each of them once. `now`: storage clock */
export async function lateJob(
  jobs: Pick<JobStore, 'get'>,
  { topic, found, retried, jobs: all, hasFailed }: Candidates,
  now: number,
): Promise<WaitingJob | null> {
  const known = new Map(found.flatMap((job) => (job === null ? [] : [[job.id, job] as const])));
  const ids = new Set([...known.keys(), ...retried.map(({ id }) => id)]);
  const seen = await Promise.all(
    Array.from(ids, async (id) => {
      const job = known.get(id);
      if (job?.failures === 0) return job;
      return await jobs.get({ topic, id }, 'bodiless').catch(() => null);
    }),
  );
  const waiting = seen
    .filter((job) => job !== null)
    .filter(({ state }) => state === 'ready' || state === 'delayed');
  const dues = waiting.map((job) => ({ id: job.id, ...undeliveredSince({ attempts: [], ...job }) }));
  const [first] = dues.filter(({ since }) => since <= now).sort((a, b) => a.since - b.since);
  if (first === undefined) return null;
  const mayRetry = hasFailed || waiting.some(({ failures }) => failures > 0);
  return { ...first, isLeast: first.isLeast || (mayRetry && waiting.length < all) };
}
