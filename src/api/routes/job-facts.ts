// JobFactsReader gathers what belongs to a job beside its record: why it waits, as the notifiers and the
// store say, its planned attempts, its alert and its shard.

import type { CapacityReason } from '../../core/capacity-reasons.ts';
import { endpointWindowMs, mergeFailures, type TopicFailures } from '../../core/endpoint.ts';
import { deadlineOf, optionsIn, withOptions } from '../../core/extension.ts';
import type { EndedJob, JobKey, JobSnapshot, Version } from '../../core/job.ts';
import { isHeld, type JudgedJob, type Why, whyOf } from '../../core/job-why.ts';
import { limits } from '../../core/limits.ts';
import { plannedAttempts } from '../../core/retry-policy.ts';
import { placesOf } from '../../core/shard-list.ts';
import type { KnownTopic } from '../../core/topic/topic.ts';
import type { StateCounts } from '../../ports/job-store.ts';
import { failuresIn, type MasterQuestions } from '../../process/master-questions.ts';
import type { AnswerOf } from '../../process/questions.ts';
import type { RoleContext } from '../../process/role.ts';
import { monotonicNow, setTimeout, turn } from '../../runtime/time.ts';
import { useCaseLimits } from '../../use-cases/limits.ts';
import { apiLimits } from '../limits.ts';
import type { JobFacts } from './job-json.ts';

export class JobFactsReader {
  readonly #role: RoleContext;
  readonly #questions: MasterQuestions;
  readonly #capacities = new NotifierAnswers<readonly CapacityReason[]>();
  readonly #calls = new NotifierAnswers<number | null>();
  readonly #paces = new NotifierAnswers<readonly TopicFailures[]>();

  constructor(role: RoleContext, questions: MasterQuestions) {
    this.#role = role;
    this.#questions = questions;
  }

  async of(job: JobSnapshot | EndedJob): Promise<JobFacts> {
    const { store, topics, clock, config } = this.#role;
    const registered = topics.get(job.topic);
    const options = 'endedAt' in job ? {} : optionsIn(job.extension);
    const topic = registered === undefined ? undefined : withOptions(registered, options);
    const [why, alert] = await Promise.all([
      this.why('endedAt' in job ? job : { ...job, again: options.again }).then((known) =>
        this.#withPace(job.topic, known),
      ),
      job.state === 'dead' ? store.alerts.stateOf(job).catch(() => undefined) : undefined,
    ]);
    return {
      alert,
      maxAttempts: topic?.maxAttempts ?? null,
      why,
      planned:
        topic === undefined || 'endedAt' in job
          ? null
          : plannedAttempts(job, topic, config['retry.unit'], clock.now()).filter(
              ({ at }) => at <= deadlineOf(options, job),
            ),
      options,
      shard: this.#shardOf(job),
      keptUntil: this.#keptUntil(job),
    };
  }

  /** Why a job is where it is. `hasManyLeases`: of a reader of many jobs, which has the counts already. */
  async why(
    job: (VersionOfJob & JudgedJob) | EndedJob,
    hasManyLeases: ManyLeases = (name) => this.#hasManyLeases(name),
  ): Promise<Why> {
    const { store, topics, clock, config } = this.#role;
    const topic = judgedTopic(topics, job.topic);
    const now = clock.now();
    const waits = job.state === 'ready' && (topic === null || topic?.state === 'active');
    const [notifiers, ahead, isAtPullLeases] = waits
      ? await Promise.all([
          this.#capacities.of(job.topic, (wait) =>
            this.#questions.ask('capacity', { topic: job.topic }, wait),
          ),
          // Without it, the answer still says why.
          store.surveys.position(job).catch(() => null),
          topic?.delivery === 'pull' && hasManyLeases(job.topic),
        ])
      : [null, null, false];
    const call = job.state === 'reserved' ? await this.#callOf(job) : null;
    return whyOf(job, {
      now,
      pollCeilingMs: config.pollCeiling,
      notifiers,
      ahead,
      call,
      isAtPullLeases,
      topic,
      places: this.#placesOf(job),
    });
  }

  /** As many attempts as within the last 5 minutes; all partitions share them. */
  async #withPace(topic: string, why: Why): Promise<Why> {
    if (!why.ahead || isHeld(why)) return why;
    const answers = await this.#paces.of(topic, () =>
      this.#questions.ask('failures', { topics: [topic], names: [topic] }),
    );
    const { delivered = 0, failed = 0 } = mergeFailures(failuresIn(answers)).get(topic) ?? {};
    if (delivered + failed === 0) return why;
    const { store, clock } = this.#role;
    const jobs = why.ahead * store.jobs.partitions().length;
    const waitMs = Math.round((jobs * endpointWindowMs) / (delivered + failed));
    return { ...why, likelyAt: clock.now() + waitMs };
  }

  async #hasManyLeases(topic: string): Promise<boolean> {
    const counts = await this.#role.store.admin.counts().catch(() => null);
    return counts !== null && manyLeases(this.#role, counts.topics)(topic);
  }

  /** null: its end does not depend on the time. */
  #keptUntil(job: JobSnapshot | EndedJob): number | null {
    const { config } = this.#role;
    if ('endedAt' in job) return job.endedAt + config['history.retention'];
    return job.deadAt === null ? null : job.deadAt + config['dead.retention'];
  }

  /** null: there is one partition. */
  #placesOf(job: JobKey): readonly string[] | null {
    const { jobs } = this.#role.store;
    const found = jobs.partitionsOf?.(job);
    return found === undefined ? null : found.map((partition) => jobs.nameOf?.(partition) ?? '');
  }

  /** null: no notifier of this instance says that it calls the job. */
  async #callOf({ topic, id, version }: VersionOfJob) {
    const about = `${version} ${topic} ${id}`;
    const answers = await this.#calls.of(about, (wait) =>
      this.#questions.ask('running', { topic, id, version }, wait),
    );
    const found = answers?.find(({ answer }) => answer !== null);
    return typeof found?.answer !== 'number' ? null : { since: found.answer, notifier: found.process };
  }

  /** null: an earlier shard list may have placed it elsewhere. */
  #shardOf(job: JobKey): string | null | undefined {
    const { shards } = this.#role;
    if (shards === undefined) return undefined;
    const { home, earlier } = placesOf(shards.servers.list, job);
    return earlier.length === 0 ? home : null;
  }
}

/** undefined: not registered; null: this process cannot read its record, or has not read the topics. */
export function judgedTopic(topics: RoleContext['topics'], name: string): KnownTopic | null | undefined {
  const topic = topics.get(name);
  return topic === undefined && (!topics.isKnown || topics.isUnreadable(name)) ? null : topic;
}

type VersionOfJob = JobKey & { readonly version: Version };

/** Whether the pull clients of a topic get no more jobs (JobStore.reserve). Of all partitions together. */
export type ManyLeases = (topic: string) => Promise<boolean>;

/** Adds up the leases once, at the first call. `counted`: of StoreAdmin.counts */
export function manyLeases(
  { store, topics }: RoleContext,
  counted: Readonly<Record<string, StateCounts>>,
): ManyLeases {
  let leases: Promise<number> | null = null;
  const sum = async () => {
    let total = 0;
    for (const [at, [name, { reserved }]] of Object.entries(counted).entries()) {
      if (reserved > 0 && topics.get(name)?.delivery === 'pull') total += reserved;
      if (at % useCaseLimits.topicsPerTurn === 0) await turn();
    }
    return total;
  };
  return async (topic) => {
    leases ??= sum();
    const left = limits.pullLeasesMax * store.jobs.partitions().length - (await leases);
    return (counted[topic]?.reserved ?? 0) >= left;
  };
}

type Answers<T> = readonly AnswerOf<T>[] | null;

/** Must not reject. `wait`: an option of MasterQuestions.ask */
type Ask<T> = (wait: { readonly waitMs: number }) => Promise<Answers<T>>;

/** Asks the notifiers once for all readers of the same jobs: pages poll a job each second, and producers read
 *  jobs too. Bounded by the three numbers apiLimits.why…. Without an answer in time the result is null; the
 *  answer serves the next reader. */
export class NotifierAnswers<T> {
  readonly #kept = new Map<string, { readonly at: number; readonly answers: Promise<Answers<T>> }>();

  /** `about`: what the question is about; the same text gets the same answers. */
  of(about: string, ask: Ask<T>): Promise<Answers<T>> {
    return Promise.race([this.#answersAbout(about, ask), nothingAfter(apiLimits.whyMs)]);
  }

  #answersAbout(about: string, ask: Ask<T>): Promise<Answers<T>> {
    const now = monotonicNow();
    // In the order of the questions, so the first ones are the oldest.
    for (const [old, { at }] of this.#kept)
      if (now - at >= apiLimits.whyKeptMs) this.#kept.delete(old);
      else break;
    const kept = this.#kept.get(about);
    if (kept !== undefined) return kept.answers;
    if (this.#kept.size >= apiLimits.whyKeptMax) return Promise.resolve(null);
    const answers = ask({ waitMs: apiLimits.whyAskMs });
    this.#kept.set(about, { at: now, answers });
    return answers;
  }
}

function nothingAfter(ms: number): Promise<null> {
  return new Promise((resolve) => void setTimeout(() => resolve(null), ms).unref());
}
