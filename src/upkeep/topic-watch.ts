// Watches the topics for people: begins and ends the incidents of receivers that fail, and of topics that are
// paused for long. The notifiers count the calls; a receiver is the origin of callback URLs, or a broker.
// Invariant: no answer ends an incident: it ends by a successful call, or when dq has nothing to call there.

import { formatDuration, formatInstant } from '../core/duration.ts';
import { mergeEndpoints, originOf, type TopicFailures } from '../core/endpoint.ts';
import { heldText } from '../core/held-topics.ts';
import type { LateJob } from '../core/incident.ts';
import { failureWords } from '../core/job.ts';
import { grouped } from '../core/lists.ts';
import type { Store } from '../ports/job-store.ts';
import type { MasterQuestions } from '../process/master-questions.ts';
import type { AnswerOf } from '../process/questions.ts';
import type { RoleContext } from '../process/role.ts';
import { topicFailures } from '../process/topic-failures.ts';
import { Agent } from '../runtime/agent.ts';
import { monotonicNow } from '../runtime/time.ts';
import type { Incidents } from './alerts/incidents.ts';
import { upkeepLimits } from './limits.ts';

export interface WatchTimes {
  readonly everyMs: number;
  /** How long no call may succeed. */
  readonly failingMs: number;
  /** How long a job of a paused topic may be due, and how often that is looked at. */
  readonly pausedMs: number;
  readonly pausedEveryMs: number;
}

export interface TopicWatchOptions extends Pick<RoleContext, 'topics' | 'clock' | 'log'> {
  readonly questions: Pick<MasterQuestions, 'ask'>;
  readonly store: Pick<Store, 'admin' | 'jobs'>;
  readonly incidents: Pick<Incidents, 'begin' | 'end' | 'open' | 'isOpen'>;
  readonly times: WatchTimes;
}

/** A topic whose calls fail, with the jobs that wait. */
interface Failing extends TopicFailures {
  readonly origin: string;
  readonly waiting: number;
}

type Counts = Awaited<ReturnType<Store['admin']['counts']>>['topics'];

const failure = (about: string) => ({ kind: 'failing', about }) as const;
const pause = (topic: string) => ({ kind: 'paused', about: topic }) as const;
/** Origins have one, names of topics have none. */
const isOrigin = (about: string): boolean => about.includes(':');

export class TopicWatch extends Agent {
  readonly #options: TopicWatchOptions;
  /** origin → a success, after which each check found a recent one. What failed before it may not have been
   *  called again since the receiver answers. */
  #answersSince: ReadonlyMap<string, number> = new Map();
  /** monotonicNow() of the next look at paused topics */
  #pausedAt = 0;

  constructor(options: TopicWatchOptions) {
    const { log, times } = options;
    super({
      log,
      failure: 'topic-watch: cannot check the topics',
      end: 'topic-watch: checks the topics again',
      work: () => this.#check(),
      everyMs: times.everyMs,
      first: 'later',
      failureWaitMs: times.everyMs,
    });
    this.#options = options;
  }

  async #check(): Promise<void> {
    await this.#checkReceivers();
    if (monotonicNow() < this.#pausedAt) return;
    this.#pausedAt = monotonicNow() + this.#options.times.pausedEveryMs;
    await this.#checkPaused();
  }

  #open(kind: 'failing' | 'paused'): readonly string[] {
    return this.#options.incidents
      .open()
      .filter((incident) => incident.kind === kind)
      .map(({ about }) => about);
  }

  async #checkReceivers(): Promise<void> {
    const { incidents, questions, store } = this.#options;
    const open = this.#open('failing');
    let isWhole = true;
    const given = <T>(answers: readonly AnswerOf<T>[] | null): readonly T[] => {
      const all = (answers ?? []).flatMap(({ answer }) => (answer === null ? [] : [answer]));
      isWhole &&= all.length === answers?.length;
      return all;
    };
    const failures = await topicFailures(
      async (asked) => given(await questions.ask('failures', asked)).flat(),
      ['*'],
      open.filter((about) => !isOrigin(about)),
    );
    if (open.length === 0 && ![...failures.values()].some(hasFailures)) {
      this.#answersSince = new Map();
      return;
    }
    const asked = { topic: null, topics: ['*'] };
    const parts = mergeEndpoints(given(await questions.ask('endpoints', asked)).flat());
    // A success that a silent notifier has seen is unknown.
    if (!isWhole) return;
    this.#answersSince = new Map(
      parts.flatMap(({ origin, lastSuccessAt }) =>
        this.#isRecent(lastSuccessAt) ? [[origin, this.#answersSince.get(origin) ?? lastSuccessAt ?? 0]] : [],
      ),
    );
    const { topics: counts } = await store.admin.counts();
    const failing = this.#failing(failures, counts);
    for (const about of open) {
      const end = isOrigin(about)
        ? this.#endOfOrigin(about, failing, counts)
        : this.#endOfTopic(about, failures.get(about), counts);
      if (end !== null) await incidents.end(failure(about), end);
    }
    for (const [about, some] of this.#groups(failing))
      await incidents.begin(failure(about), detailOf(about, some), {
        topic: (some[0] as Failing).topic,
        waiting: some.reduce((sum, { waiting }) => sum + waiting, 0),
      });
  }

  #fails(facts: TopicFailures, origin: string): boolean {
    const { clock, times } = this.#options;
    const { since, failed, lastFailuresAt = [] } = facts;
    if (since === null || failed === 0 || !hasFailures(facts)) return false;
    const answersSince = this.#answersSince.get(origin) ?? 0;
    const isLong = clock.now() - Math.max(since, answersSince) >= times.failingMs;
    return isLong && Math.max(since, ...lastFailuresAt) > answersSince;
  }

  /** The topics that dq calls, those with the most failures in a row first. */
  #failing(failures: ReadonlyMap<string, TopicFailures>, counts: Counts): readonly Failing[] {
    return [...failures.values()]
      .flatMap((facts) => {
        const origin = this.#originOf(facts.topic);
        const fails = origin !== null && isLive(counts[facts.topic]) && this.#fails(facts, origin);
        return fails ? [{ ...facts, origin, waiting: waitingIn(counts, facts.topic) }] : [];
      })
      .sort((a, b) => b.failuresInRow - a.failuresInRow);
  }

  /** One incident per receiver where none of its calls succeeds, or many of its topics fail; else one per
   *  topic. A topic that has its own keeps it. */
  #groups(failing: readonly Failing[]): ReadonlyMap<string, readonly Failing[]> {
    const groups = new Map<string, readonly Failing[]>();
    const isOpen = (about: string) => this.#options.incidents.isOpen(failure(about));
    for (const [origin, all] of grouped(failing, ({ origin }) => origin)) {
      const some = all.filter(({ topic }) => !isOpen(topic));
      const isWide =
        isOpen(origin) || !this.#answersSince.has(origin) || some.length > upkeepLimits.failingTopicsMax;
      if (isWide && some.length > 0) groups.set(origin, some);
      else for (const one of some) groups.set(one.topic, [one]);
    }
    return groups;
  }

  #endOfTopic(topic: string, facts: TopicFailures | undefined, counts: Counts): string | null {
    if (this.#isRecent(facts?.lastSuccessAt)) return `calls of ${topic} succeed again`;
    return this.#endWithoutCalls([topic], topic, counts);
  }

  /** Topics that still fail get their own incidents, unless they are many. */
  #endOfOrigin(origin: string, failing: readonly Failing[], counts: Counts): string | null {
    const still = failing.filter((one) => one.origin === origin).length;
    if (this.#answersSince.has(origin) && still <= upkeepLimits.failingTopicsMax)
      return `calls to ${origin} succeed again`;
    const names = Object.keys(counts).filter((name) => {
      const topic = this.#options.topics.get(name);
      return topic !== undefined && originOf(topic) === origin;
    });
    return this.#endWithoutCalls(names, origin, counts);
  }

  /** null: dq calls some of their jobs, now or later. */
  #endWithoutCalls(names: readonly string[], about: string, counts: Counts): string | null {
    if (names.some((name) => this.#originOf(name) !== null && isLive(counts[name]))) return null;
    const [held] = names
      .map((name) => ({ name, jobs: waitingIn(counts, name) }))
      .filter(({ jobs }) => jobs > 0)
      .sort((a, b) => b.jobs - a.jobs);
    if (held === undefined) return `no job waits for a call of ${about} any more`;
    return heldText(held.name, this.#options.topics.get(held.name)?.state, held.jobs);
  }

  /** null: dq calls no job of the topic. */
  #originOf(name: string): string | null {
    const topic = this.#options.topics.get(name);
    return topic?.state !== 'active' || topic.delivery === 'pull' ? null : originOf(topic);
  }

  #isRecent(successAt: number | null | undefined): boolean {
    const { clock, times } = this.#options;
    return typeof successAt === 'number' && clock.now() - successAt < times.failingMs;
  }

  async #checkPaused(): Promise<void> {
    const { clock, incidents, store, times, topics } = this.#options;
    const { topics: counts } = await store.admin.counts();
    const isHeld = (name: string) => (topics.get(name)?.state ?? 'active') !== 'active';
    for (const about of this.#open('paused')) {
      if (isHeld(about) && waitingIn(counts, about) > 0) continue;
      const end = isHeld(about) ? `no job of ${about} waits any more` : `${about} is no longer paused`;
      await incidents.end(pause(about), end);
    }
    const held = Object.keys(counts)
      .filter((name) => isHeld(name) && waitingIn(counts, name) > 0)
      .sort((a, b) => waitingIn(counts, b) - waitingIn(counts, a))
      .slice(0, upkeepLimits.pausedTopicsMax);
    for (const name of held) {
      if (incidents.isOpen(pause(name))) continue;
      const oldest = await this.#oldestOf(name);
      const dueMs = clock.now() - (oldest?.dueAt ?? Number.POSITIVE_INFINITY);
      if (oldest === null || dueMs < times.pausedMs) continue;
      const waiting = waitingIn(counts, name);
      const due = formatDuration(Math.round(dueMs / 1_000) * 1_000);
      const detail = `${name} is ${topics.get(name)?.state}: ${jobsText(waiting)}, the oldest was due ${due} ago`;
      await incidents.begin(pause(name), detail, { oldest, waiting });
    }
  }

  async #oldestOf(topic: string): Promise<LateJob | null> {
    const found = await Promise.all(
      (['ready', 'delayed'] as const).map((state) =>
        this.#options.store.jobs.search({ topic, state }, 1, null),
      ),
    );
    const [oldest] = found.flatMap(({ items }) => items).sort((a, b) => a.dueAt - b.dueAt);
    return oldest === undefined ? null : { topic, id: oldest.id, dueAt: oldest.dueAt };
  }
}

/** Enough in a row. A single reply may be about its job, and a job fails as often as repliesInRow only after
 *  hours. */
const hasFailures = ({ failuresInRow, lastStatus }: TopicFailures): boolean =>
  failuresInRow >= (lastStatus === null ? upkeepLimits.failuresInRow : upkeepLimits.repliesInRow);

const isLive = (counts: Counts[string] | undefined): boolean =>
  counts !== undefined && counts.delayed + counts.ready + counts.reserved > 0;

function waitingIn(counts: Counts, topic: string): number {
  const { delayed, ready } = counts[topic] ?? { delayed: 0, ready: 0 };
  return delayed + ready;
}

const jobsText = (jobs: number): string => `${jobs} job${jobs === 1 ? ' waits' : 's wait'}`;

/** `failing`: those with the most failures first */
function detailOf(about: string, failing: readonly Failing[]): string {
  const [{ topic, origin, lastReason, lastStatus, lastDetail }] = failing as [Failing];
  const sum = (get: (one: Failing) => number) => failing.reduce((total, one) => total + get(one), 0);
  const since = Math.min(...failing.map((one) => one.since ?? Number.POSITIVE_INFINITY));
  const who = isOrigin(about) ? `calls to ${origin} fail` : `calls of ${topic} to ${origin} fail`;
  const words = failureWords({ reason: lastReason, status: lastStatus, detail: lastDetail });
  const others = failing.length > 1 ? ` and ${failing.length - 1} more` : '';
  const whose = isOrigin(about) ? `, of ${topic}${others}` : '';
  const inRow = `${sum(({ failuresInRow }) => failuresInRow)} in a row since ${formatInstant(since)}`;
  return `${who}: ${words}; ${inRow}${whose}; ${jobsText(sum(({ waiting }) => waiting))}`;
}
