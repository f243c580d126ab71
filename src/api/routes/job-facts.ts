// JobFactsReader gathers what belongs to a job beside its record: why it waits, as the notifiers and the
// store say, its planned attempts, its alert and its shard.

import type { CapacityReason } from '../../core/capacity-reasons.ts';
import { deadlineOf, optionsIn, withOptions } from '../../core/extension.ts';
import type { EndedJob, JobKey, JobSnapshot, Version } from '../../core/job.ts';
import { whyOf } from '../../core/job-why.ts';
import { limits } from '../../core/limits.ts';
import { plannedAttempts } from '../../core/retry-policy.ts';
import { placesOf } from '../../core/shard-list.ts';
import type { RoleContext } from '../../process/role.ts';
import type { MasterQuestions } from '../master-questions.ts';
import { NotifierAnswers } from '../notifier-answers.ts';
import type { JobFacts } from './job-json.ts';

export class JobFactsReader {
  readonly #role: RoleContext;
  readonly #questions: MasterQuestions;
  readonly #capacities = new NotifierAnswers<readonly CapacityReason[]>();
  readonly #calls = new NotifierAnswers<number | null>();

  constructor(role: RoleContext, questions: MasterQuestions) {
    this.#role = role;
    this.#questions = questions;
  }

  async of(job: JobSnapshot | EndedJob): Promise<JobFacts> {
    const { store, topics, clock, config } = this.#role;
    const registered = topics.get(job.topic);
    const options = 'endedAt' in job ? {} : optionsIn(job.extension);
    const topic = registered === undefined ? undefined : withOptions(registered, options);
    const now = clock.now();
    const waits = job.state === 'ready' && topic?.state === 'active';
    const [notifiers, ahead, isAtPullLeases] = waits
      ? await Promise.all([
          this.#capacities.of(job.topic, () => this.#questions.ask('capacity', { topic: job.topic })),
          // Without it, the answer still says why.
          store.surveys.position(job).catch(() => null),
          topic.delivery === 'pull' && this.#hasManyLeases(job.topic),
        ])
      : [null, null, false];
    const call = job.state === 'reserved' ? await this.#callOf(job) : null;
    const alert = job.state === 'dead' ? await store.alerts.stateOf(job).catch(() => undefined) : undefined;
    return {
      alert,
      maxAttempts: topic?.maxAttempts ?? null,
      why: whyOf(job, { now, topic, notifiers, places: this.#placesOf(job), ahead, call, isAtPullLeases }),
      planned:
        topic === undefined || 'endedAt' in job
          ? null
          : plannedAttempts(job, topic, config['retry.unit'], now).filter(
              ({ at }) => at <= deadlineOf(options, job),
            ),
      options,
      shard: this.#shardOf(job),
      keptUntil: this.#keptUntil(job),
    };
  }

  /** Whether its pull clients get no more jobs (JobStore.reserve). Of all partitions together. */
  async #hasManyLeases(topic: string): Promise<boolean> {
    const { store, topics } = this.#role;
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
  async #callOf({ topic, id, version }: JobKey & { readonly version: Version }) {
    const about = `${version} ${topic} ${id}`;
    const ask = () => this.#questions.ask('running', { topic, id, version });
    const found = (await this.#calls.of(about, ask))?.find(({ answer }) => answer !== null);
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
