// Finds the topics that need attention, for GET /v1/summary: which, since when, what waits, and why. It
// judges nothing that another part knows: the notifiers count the failures, and job-why.ts says why a job
// waits.
// Invariant: bounded work for any number of topics, in the slices of the caller: two questions to the
// notifiers, and two searches of a few pages and a few jobs for each of at most contractLimits.attentionMax
// topics.

import { contractLimits } from '../../contract/api/limits.ts';
import type { TopicAttentionJson } from '../../contract/api/stats.ts';
import { formatTarget } from '../../core/broker.ts';
import {
  type AttentionReason,
  attentionReasons,
  type HeldTopic,
  problemWord,
} from '../../core/capacity-reasons.ts';
import { formatInstant, formatInstantOrNull } from '../../core/duration.ts';
import { lastFailureAt, mergeFailures, notCalled, type TopicFailures } from '../../core/endpoint.ts';
import type { FoundJob, JobState } from '../../core/job.ts';
import { limits } from '../../core/limits.ts';
import { First } from '../../core/lists.ts';
import type { KnownTopic } from '../../core/topic/topic.ts';
import type { Counts, DeadGroup } from '../../ports/job-store.ts';
import {
  askFailures,
  failuresIn,
  type MasterQuestions,
  topicFailures,
} from '../../process/master-questions.ts';
import type { Questions } from '../../process/questions.ts';
import type { RoleContext } from '../../process/role.ts';
import { turn } from '../../runtime/time.ts';
import { firstFound, lateJob, oldestDue } from '../../use-cases/find-job.ts';
import { useCaseLimits } from '../../use-cases/limits.ts';
import { isFailing } from './attempt-routes.ts';
import { whyHeld } from './held-topics.ts';
import { JobFactsReader, type ManyLeases, manyLeases, NotifierAnswers } from './job-facts.ts';
import { dueJson } from './job-json.ts';
import type { StatLine } from './stats-routes.ts';

/** One pass over the topics of a caller. */
export interface AttentionLook {
  readonly look: (line: StatLine) => void;
  /** after the last line */
  readonly found: () => Promise<{
    readonly attention: readonly TopicAttentionJson[];
    readonly attentionCount: number;
  }>;
}

interface Candidate {
  readonly line: StatLine;
  readonly topic: KnownTopic | undefined;
  readonly reasons: readonly AttentionReason[];
  readonly failures: TopicFailures | undefined;
}

export class TopicAttention {
  readonly #role: RoleContext;
  readonly #questions: MasterQuestions;
  readonly #facts: JobFactsReader;
  readonly #counted = new NotifierAnswers<readonly TopicFailures[]>();

  constructor(role: RoleContext, questions: MasterQuestions) {
    this.#role = role;
    this.#questions = questions;
    this.#facts = new JobFactsReader(role, questions);
  }

  /** Looks at the topics that the caller may see, one by one. `globs`: names and globs of its rights;
   *  `counted`: of StoreAdmin.counts */
  async begin(
    globs: readonly string[],
    maySee: (topic: string) => boolean,
    counted: Counts,
  ): Promise<AttentionLook> {
    const [failures, late] = await Promise.all([
      topicFailures((asked) => this.#counts(asked), globs),
      this.#lateOf(maySee, counted),
    ]);
    const worst = new First<Candidate>(contractLimits.attentionMax, byUrgency);
    let attentionCount = 0;
    return {
      look: (line) => {
        const topic = this.#role.topics.get(line.topic);
        const own = failures.get(line.topic);
        const reasons = this.#reasonsOf(line, whyHeld(this.#role, line.topic), own, late.get(line.topic));
        if (reasons.length === 0) return;
        attentionCount += 1;
        worst.add({ line, topic, reasons, failures: own });
      },
      found: async () => {
        const shown = worst.items();
        const groups = await this.#deadGroups(shown);
        const hasManyLeases = manyLeases(this.#role, counted.topics);
        const attention = await Promise.all(
          shown.map((one) => this.#json(one, groups.get(one.line.topic), hasManyLeases)),
        );
        return { attention, attentionCount };
      },
    };
  }

  /** One topic, judged by the same rules; without reasons where nothing is wrong. */
  async ofTopic(line: StatLine): Promise<TopicAttentionJson> {
    const name = line.topic;
    const topic = this.#role.topics.get(name);
    const [answers, oldest] = await Promise.all([
      askFailures(this.#questions, { topics: [name], names: [name] }),
      this.#oldestOf(name),
    ]);
    const counted = mergeFailures(failuresIn(answers?.all ?? null)).get(name);
    const notifiers = answers?.notifiers ?? [];
    const isWhole = notifiers.length > 0 && notifiers.every(({ answer }) => answer !== null);
    const failed = hasFailed(counted) ? counted : undefined;
    const reasons = this.#reasonsOf(line, whyHeld(this.#role, name), failed, oldest?.dueAt);
    const failures = counted ?? (isWhole ? notCalled(name) : undefined);
    const one = { line, topic, reasons, failures };
    return this.#json(one, (await this.#deadGroups([one])).get(name));
  }

  async #counts(asked: Questions['failures']['params']): Promise<readonly TopicFailures[]> {
    const answers = await this.#counted.of(JSON.stringify(asked), async (wait) => {
      const given = await askFailures(this.#questions, asked, wait);
      return given === null ? null : given.all;
    });
    return failuresIn(answers);
  }

  /** Since when the oldest job of a topic is due, by topic. Where topics that are held, or that the caller
   *  may not see, could hide others, the store counts the rest again. */
  async #lateOf(maySee: (topic: string) => boolean, counted: Counts): Promise<ReadonlyMap<string, number>> {
    const { topics, store } = this.#role;
    const isJudged = (topic: string) => maySee(topic) && topics.get(topic)?.state === 'active';
    let { oldest } = counted;
    const judged = oldest.filter(({ topic }) => isJudged(topic)).length;
    if (oldest.length >= limits.oldestMax && judged < contractLimits.attentionMax) {
      const those: string[] = [];
      for (const [at, topic] of Object.keys(counted.topics).entries()) {
        if (isJudged(topic)) those.push(topic);
        if (at % useCaseLimits.topicsPerTurn === 0) await turn();
      }
      oldest = (await store.admin.countsOf(those).catch(() => counted)).oldest;
    }
    return new Map(oldest.map(({ topic, dueAt }) => [topic, dueAt]));
  }

  /** In the order of `attentionReasons`. `dueAt`: of its oldest due job, epoch ms */
  #reasonsOf(
    line: StatLine,
    held: HeldTopic['why'] | null,
    failures: TopicFailures | undefined,
    dueAt: number | undefined,
  ): readonly AttentionReason[] {
    const { today, states } = line;
    const topic = this.#role.topics.get(line.topic);
    const isPull = topic?.state === 'active' && topic.delivery === 'pull';
    const now = this.#role.clock.now();
    const lateMs = dueAt === undefined ? 0 : now - dueAt;
    // The notifiers of another instance, or earlier ones, may have called it.
    const known = failures ?? {
      delivered: today.delivered,
      failed: today.retried + today.dead,
      failuresInRow: 0,
    };
    const lastAt = (failures && lastFailureAt(failures)) || null;
    // Without jobs, nothing ends the failures in a row of a topic that is not called any more.
    const isCalled = failures !== undefined && failures.delivered + failures.failed > 0;
    const hasLive = waiting(line) + states.reserved > 0;
    const holds = (why: HeldTopic['why']): boolean => held === why && hasLive;
    const applies: Readonly<Record<AttentionReason, boolean>> = {
      failing: isFailing({ ...known, lastFailureAt: lastAt }, now) && (hasLive || isCalled),
      late: lateMs >= this.#lateLimit(topic),
      not_pulled: isPull && lateMs >= limits.lateMs && states.reserved === 0,
      dead_letters: states.dead > 0,
      offline: holds('offline'),
      paused: holds('paused'),
      not_registered: holds('not_registered'),
      unreadable: holds('unreadable'),
      unknown_broker: holds('unknown_broker'),
    };
    return attentionReasons.filter((reason) => applies[reason]);
  }

  /** As the incidents of late jobs; Infinity: its jobs wait on purpose, or nothing calls them. */
  #lateLimit(topic: KnownTopic | undefined): number {
    if (topic?.state !== 'active') return Number.POSITIVE_INFINITY;
    if (topic.delivery !== 'pull') return limits.lateMs;
    return this.#role.config['alerts.pullLate'] || Number.POSITIVE_INFINITY;
  }

  /** The due job that waits for the longest time. null also where a partition is overloaded: the page has the
   *  other facts. */
  #oldestOf(topic: string): Promise<FoundJob | null> {
    const until = this.#role.clock.now() - this.#role.config.pollCeiling;
    return oldestDue(this.#role.store.jobs, topic, until).catch(() => null);
  }

  /** The most frequent cause of each topic's dead letters. */
  async #deadGroups(worst: readonly Candidate[]): Promise<ReadonlyMap<string, DeadGroup>> {
    const topics = worst.filter(({ line }) => line.states.dead > 0).map(({ line }) => line.topic);
    const found =
      topics.length === 0 ? null : await this.#role.store.surveys.deadGroups(topics).catch(() => null);
    const largest = new Map<string, DeadGroup>();
    for (const group of found?.groups ?? []) if (!largest.has(group.topic)) largest.set(group.topic, group);
    return largest;
  }

  async #json(
    one: Candidate,
    group: DeadGroup | undefined,
    hasManyLeases?: ManyLeases,
  ): Promise<TopicAttentionJson> {
    const { line, topic, reasons, failures } = one;
    const { today, states } = line;
    const oldest = states.ready + states.delayed === 0 ? null : await this.#oldestOf(line.topic);
    const { jobs } = this.#role.store;
    const next =
      oldest === null && states.delayed > 0
        ? await firstFound(jobs, { topic: line.topic, state: 'delayed' }).catch(() => null)
        : null;
    const late = await lateJob(
      jobs,
      {
        topic: line.topic,
        found: [oldest, next],
        retried: failures?.retried ?? [],
        jobs: waiting(line),
        hasFailed: today.retried > 0 || hasFailed(failures),
      },
      this.#role.clock.now(),
    );
    const why = oldest === null ? null : await this.#facts.why(withoutEnd(oldest), hasManyLeases);
    return {
      topic: line.topic,
      title: topic?.title ?? '',
      state: topic?.state ?? null,
      reasons: [...reasons],
      since: formatInstantOrNull(sinceOf(one, group, oldest)),
      oldest:
        oldest === null || why === null
          ? null
          : { ...(await dueJson(jobs, oldest)), why: why.code, says: [...(why.reasons ?? [])] },
      next: next && (await dueJson(jobs, next)),
      late: late && { id: late.id, since: formatInstant(late.since), atLeast: late.isLeast },
      receiver: topic === undefined ? null : receiverOf(topic),
      calls: failures === undefined ? null : callsOf(failures),
      failure: hasFailed(failures)
        ? { reason: failures.lastReason, status: failures.lastStatus, detail: failures.lastDetail }
        : null,
      dead: group === undefined ? null : deadJson(group),
      today,
      states,
    };
  }
}

/** Of a job that is found in a live state. */
const withoutEnd = ({ topic, id, version, state, dueAt, failures, deadAt }: FoundJob) => ({
  topic,
  id,
  version,
  dueAt,
  failures,
  deadAt,
  state: state as JobState,
});

function receiverOf({ delivery, callbackUrl, target }: KnownTopic): string | null {
  if (delivery === 'pull') return null;
  return delivery === 'mq' ? formatTarget(target) : callbackUrl;
}

const callsOf = ({ delivered, failed, failuresInRow, since }: TopicFailures) => ({
  delivered,
  failed,
  failuresInRow,
  since: formatInstantOrNull(since),
});

const hasFailed = (failures: TopicFailures | undefined): failures is TopicFailures =>
  failures !== undefined && failures.failed + failures.failuresInRow > 0;

const deadJson = ({ count, deadReason, lastReason, status }: DeadGroup) => ({
  count,
  deadReason,
  lastReason,
  status,
});

/** Since when a topic has its problem, epoch ms; null: unknown. */
function sinceOf(
  { topic, reasons, failures }: Candidate,
  group: DeadGroup | undefined,
  oldest: FoundJob | null,
): number | null {
  switch (problemWord({ state: topic?.state ?? null, reasons })) {
    case 'failing':
      // Where only a part of the attempts fails, no moment is its beginning.
      return failures !== undefined && failures.failuresInRow >= contractLimits.failingInRow
        ? failures.since
        : null;
    case 'dead_letters':
      return group?.firstAt ?? null;
    case 'late':
    case 'not_pulled':
      return oldest?.dueAt ?? null;
    case 'paused':
    case 'offline':
      return topic?.updatedAt ?? null;
    default:
      return null;
  }
}

/** In the order of `attentionReasons`, then by dead letters, then by waiting jobs. */
function byUrgency(a: Candidate, b: Candidate): number {
  const first =
    attentionReasons.indexOf(a.reasons[0] as AttentionReason) -
    attentionReasons.indexOf(b.reasons[0] as AttentionReason);
  return first || b.line.states.dead - a.line.states.dead || waiting(b.line) - waiting(a.line);
}

const waiting = ({ states }: StatLine): number => states.ready + states.delayed;
