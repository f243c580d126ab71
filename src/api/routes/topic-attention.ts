// Finds the topics that need attention, for GET /v1/summary: which, since when, what waits, and why. It
// judges nothing that another part knows: the notifiers count the failures, and job-why.ts says why a job
// waits.
// Invariant: bounded work for any number of topics: one question to the notifiers, and a search for each of
// at most three times contractLimits.attentionMax topics.

import { contractLimits } from '../../contract/api/limits.ts';
import { attentionReasons, type TopicAttentionJson } from '../../contract/api/stats.ts';
import { formatTarget } from '../../core/broker.ts';
import { formatInstant } from '../../core/duration.ts';
import { lastFailureAt, mergeFailures, type TopicFailures } from '../../core/endpoint.ts';
import type { HeldTopic } from '../../core/held-topics.ts';
import type { FoundJob, JobState } from '../../core/job.ts';
import { limits } from '../../core/limits.ts';
import type { KnownTopic } from '../../core/topic/topic.ts';
import type { DeadGroup, StateCounts } from '../../ports/job-store.ts';
import type { MasterQuestions } from '../../process/master-questions.ts';
import type { Questions } from '../../process/questions.ts';
import type { RoleContext } from '../../process/role.ts';
import { failuresIn, topicFailures } from '../../process/topic-failures.ts';
import { isFailing } from './failing.ts';
import { heldBy } from './held-topics.ts';
import { JobFactsReader, type ManyLeases, manyLeases, NotifierAnswers } from './job-facts.ts';
import { readFirstDue } from './job-json.ts';
import type { StatLine } from './stats-table.ts';

type Reason = (typeof attentionReasons)[number];

interface Candidate {
  readonly line: StatLine;
  readonly topic: KnownTopic | undefined;
  readonly reasons: readonly Reason[];
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

  /** `lines`: of the topics that the caller may see, and that have jobs or failures. `globs`: names and
   *  globs of its rights; `counted`: of
   *  StoreAdmin.counts */
  async of(
    lines: readonly StatLine[],
    globs: readonly string[],
    counted: Readonly<Record<string, StateCounts>>,
  ): Promise<{ readonly attention: readonly TopicAttentionJson[]; readonly attentionCount: number }> {
    const [failures, late] = await Promise.all([
      topicFailures((asked) => this.#counts(asked), globs),
      this.#lateOf(lines),
    ]);
    const { topics } = this.#role;
    const found: Candidate[] = [];
    const whyHeld = heldBy(this.#role);
    const now = this.#role.clock.now();
    for (const line of lines) {
      const topic = topics.get(line.topic);
      const own = failures.get(line.topic);
      const reasons = reasonsOf(line, whyHeld(line.topic), own, late.has(line.topic), now);
      if (reasons.length > 0) found.push({ line, topic, reasons, failures: own });
    }
    const worst = found.sort(byUrgency).slice(0, contractLimits.attentionMax);
    const groups = await this.#deadGroups(worst);
    const hasManyLeases = manyLeases(this.#role, counted);
    return {
      attention: await Promise.all(
        worst.map((one) => {
          const { topic } = one.line;
          return this.#json(one, late.get(topic), groups.get(topic), hasManyLeases);
        }),
      ),
      attentionCount: found.length,
    };
  }

  /** One topic, judged by the same rules; without reasons where nothing is wrong. */
  async ofTopic(line: StatLine): Promise<TopicAttentionJson> {
    const name = line.topic;
    const topic = this.#role.topics.get(name);
    const [answers, oldest] = await Promise.all([
      this.#questions.ask('failures', { topics: [name], names: [name] }),
      this.#oldestOf(name),
    ]);
    const late = oldest !== null && this.#isLate(oldest) ? oldest : undefined;
    const counted = mergeFailures(failuresIn(answers)).get(name);
    const isWhole = answers !== null && answers.length > 0 && answers.every(({ answer }) => answer !== null);
    const failed = counted !== undefined && counted.failed + counted.failuresInRow > 0 ? counted : undefined;
    const reasons = reasonsOf(
      line,
      heldBy(this.#role)(name),
      failed,
      late !== undefined,
      this.#role.clock.now(),
    );
    const failures = counted ?? (isWhole ? notCalled(name) : undefined);
    const one = { line, topic, reasons, failures };
    return this.#json(one, late, (await this.#deadGroups([one])).get(name));
  }

  async #counts(asked: Questions['failures']['params']): Promise<readonly TopicFailures[]> {
    const answers = await this.#counted.of(JSON.stringify(asked), () =>
      this.#questions.ask('failures', asked),
    );
    return failuresIn(answers);
  }

  /** The oldest jobs of the topics that are late: of those with the most ready jobs, and of the jobs that
   *  were due first. */
  async #lateOf(lines: readonly StatLine[]): Promise<ReadonlyMap<string, FoundJob>> {
    const { topics } = this.#role;
    const judged = lines.filter(
      ({ topic }) => this.#lateLimit(topics.get(topic)) !== Number.POSITIVE_INFINITY,
    );
    const most = judged
      .filter(({ states }) => states.ready > 0)
      .sort((a, b) => b.states.ready - a.states.ready)
      .slice(0, contractLimits.attentionMax)
      .map(({ topic }) => topic);
    const until = this.#role.clock.now() - limits.lateMs;
    const first = await Promise.all(
      (['delayed', 'ready'] as const).map((state) =>
        this.#search({ state, until }, contractLimits.attentionMax),
      ),
    );
    const names = new Set(judged.map(({ topic }) => topic));
    const others = first.flat().map(({ topic }) => topic);
    const oldest = await Promise.all(
      [...new Set([...most, ...others.filter((topic) => names.has(topic))])].map((topic) =>
        this.#oldestOf(topic),
      ),
    );
    return new Map(
      oldest.flatMap((job) => (job !== null && this.#isLate(job) ? [[job.topic, job] as const] : [])),
    );
  }

  #isLate({ topic, dueAt }: FoundJob): boolean {
    const { topics, clock } = this.#role;
    return clock.now() - dueAt >= this.#lateLimit(topics.get(topic));
  }

  /** As the incidents of late jobs; Infinity: its jobs wait on purpose, or nothing calls them. */
  #lateLimit(topic: KnownTopic | undefined): number {
    if (topic?.state !== 'active') return Number.POSITIVE_INFINITY;
    if (topic.delivery !== 'pull') return limits.lateMs;
    return this.#role.config['alerts.pullLate'] || Number.POSITIVE_INFINITY;
  }

  /** The due job that waits for the longest time. */
  async #oldestOf(topic: string): Promise<FoundJob | null> {
    const until = this.#role.clock.now() - this.#role.config.pollCeiling;
    const [ready, delayed] = await Promise.all([
      this.#search({ topic, state: 'ready' }, 1),
      this.#search({ topic, state: 'delayed', until }, 1),
    ]);
    return [...ready, ...delayed].toSorted((a, b) => a.dueAt - b.dueAt)[0] ?? null;
  }

  /** Empty where a partition is overloaded: the page has the other facts. */
  async #search(
    filter: Parameters<RoleContext['store']['jobs']['search']>[0],
    max: number,
  ): Promise<readonly FoundJob[]> {
    const page = await this.#role.store.jobs.search(filter, max, null).catch(() => null);
    return page?.items ?? [];
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
    { line, topic, reasons, failures }: Candidate,
    late: FoundJob | undefined,
    group: DeadGroup | undefined,
    hasManyLeases?: ManyLeases,
  ): Promise<TopicAttentionJson> {
    const { today, states } = line;
    const oldest = late ?? (states.ready + states.delayed === 0 ? null : await this.#oldestOf(line.topic));
    const [first] = reasons;
    const since =
      first === 'failing' && failures !== undefined
        ? sinceOf(failures)
        : first === 'failing' || first === 'dead_letters'
          ? (group?.firstAt ?? null)
          : (oldest?.dueAt ?? null);
    const why = oldest === null ? null : await this.#facts.why(withoutEnd(oldest), hasManyLeases);
    return {
      topic: line.topic,
      title: topic?.title ?? '',
      state: topic?.state ?? null,
      reasons: [...reasons],
      since: since === null ? null : formatInstant(since),
      oldest:
        oldest === null || why === null
          ? null
          : {
              id: oldest.id,
              dueAt: formatInstant(oldest.dueAt),
              ...(await readFirstDue(this.#role.store.jobs, oldest)),
              why: why.code,
              says: [...(why.reasons ?? [])],
            },
      receiver: topic === undefined ? null : receiverOf(topic),
      calls: failures === undefined ? null : callsOf(failures),
      failure:
        failures?.lastReason != null
          ? {
              reason: failures.lastReason,
              status: failures.lastStatus,
              detail: failures.lastDetail ?? '',
            }
          : group === undefined
            ? null
            : { reason: group.lastReason, status: group.status, detail: '' },
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

/** Of a topic that no notifier has called since its start. */
const notCalled = (topic: string): TopicFailures => ({
  topic,
  delivered: 0,
  failed: 0,
  failuresInRow: 0,
  lastSuccessAt: null,
  since: null,
  lastReason: null,
  lastStatus: null,
});

function receiverOf({ delivery, callbackUrl, target }: KnownTopic): string | null {
  if (delivery === 'pull') return null;
  return delivery === 'mq' ? formatTarget(target) : callbackUrl;
}

const callsOf = ({ delivered, failed, failuresInRow, since }: TopicFailures) => ({
  delivered,
  failed,
  failuresInRow,
  since: since === null ? null : formatInstant(since),
});

/** Where only a part of the attempts fails, no moment is its beginning. */
const sinceOf = ({ failuresInRow, since }: TopicFailures): number | null =>
  failuresInRow >= contractLimits.failingInRow ? since : null;

/** In the order of `attentionReasons`, then by dead letters, then by waiting jobs. */
function byUrgency(a: Candidate, b: Candidate): number {
  const first =
    attentionReasons.indexOf(a.reasons[0] as Reason) - attentionReasons.indexOf(b.reasons[0] as Reason);
  return first || b.line.states.dead - a.line.states.dead || waiting(b.line) - waiting(a.line);
}

const waiting = ({ states }: StatLine): number => states.ready + states.delayed;

/** In the order of `attentionReasons`. */
function reasonsOf(
  line: StatLine,
  held: HeldTopic['why'] | null,
  failures: TopicFailures | undefined,
  isLate: boolean,
  now: number,
): readonly Reason[] {
  const { today, states } = line;
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
  const applies: Readonly<Record<Reason, boolean>> = {
    failing: isFailing({ ...known, lastFailureAt: lastAt }, now) && (hasLive || isCalled),
    late: isLate,
    dead_letters: states.dead > 0,
    offline: holds('offline'),
    paused: holds('paused'),
    not_registered: holds('not_registered'),
  };
  return attentionReasons.filter((reason) => applies[reason]);
}
