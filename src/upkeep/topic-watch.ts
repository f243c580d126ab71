// Watches the topics for people: begins and ends the incidents of receivers that fail, and of topics that are
// paused for long. The notifiers count the calls; a receiver is the origin of callback URLs, or a broker.
// Invariants: no answer ends an incident: it ends after a successful call and a quiet time, or when dq has
// nothing to call there. Nothing is judged while the topics are unknown, nor a topic that is unreadable. With
// `standby` only the instance that leads has such incidents.

import { heldText } from '../core/capacity-reasons.ts';
import { formatDuration, formatInstant, lateWords } from '../core/duration.ts';
import {
  type EndpointPart,
  lastFailureAt,
  mergeEndpoints,
  originOf,
  type TopicFailures,
} from '../core/endpoint.ts';
import type { Incident } from '../core/incident.ts';
import { failureWords } from '../core/job.ts';
import { grouped } from '../core/lists.ts';
import type { KnownTopic } from '../core/topic/topic.ts';
import type { Store } from '../ports/job-store.ts';
import type { StatDelta } from '../ports/registry.ts';
import { type MasterQuestions, topicFailures } from '../process/master-questions.ts';
import type { AnswerOf } from '../process/questions.ts';
import type { RoleContext } from '../process/role.ts';
import { Agent } from '../runtime/loop.ts';
import { monotonicNow, wallNow } from '../runtime/time.ts';
import { firstFound, lateJob, oldestDue } from '../use-cases/find-job.ts';
import type { Incidents } from './alerts/incidents.ts';
import type { FailureRows } from './failure-rows.ts';
import { waitingIn } from './health-checker.ts';
import { upkeepLimits } from './limits.ts';

export interface WatchTimes {
  readonly everyMs: number;
  /** How long no call may succeed. */
  readonly failingMs: number;
  /** For how long calls succeed before that is the end of an incident. */
  readonly quietMs: number;
  /** How long a topic may be paused while a job of it is due, and how often that is looked at. */
  readonly pausedMs: number;
  readonly pausedEveryMs: number;
}

interface TopicWatchOptions extends Pick<RoleContext, 'topics' | 'clock' | 'log' | 'leader' | 'owner'> {
  readonly questions: Pick<MasterQuestions, 'ask'>;
  readonly store: Pick<Store, 'admin' | 'jobs'>;
  readonly rows: Pick<FailureRows, 'parts'>;
  readonly incidents: Pick<Incidents, 'begin' | 'end' | 'open' | 'isOpen'>;
  readonly times: WatchTimes;
}

/** A topic whose calls fail, with the jobs that wait. */
interface Failing extends TopicFailures {
  readonly origin: string;
  readonly waiting: number;
}

type Counted = Awaited<ReturnType<Store['admin']['counts']>>;
type Counts = Counted['topics'];
type FailuresByTopic = ReadonlyMap<string, TopicFailures>;

const failure = (about: string) => ({ kind: 'failing', about }) as const;
const pause = (topic: string) => ({ kind: 'paused', about: topic }) as const;
/** The incident of all receivers beyond failingIncidentsMax. */
const others = failure('');
/** Origins have one, names of topics have none. */
const isOrigin = (about: string): boolean => about.includes(':');

export class TopicWatch extends Agent {
  readonly #options: TopicWatchOptions;
  /** origin → a success, after which each check found a recent one. What failed before it may not have been
   *  called again since the receiver answers. */
  #answersSince: ReadonlyMap<string, number> = new Map();
  /** topic → a success since the last check: notifiers forget theirs when they end */
  readonly #delivered = new Map<string, number>();
  /** about → the newest success since the incident began */
  #successes: ReadonlyMap<string, number> = new Map();
  /** about → monotonicNow() of the first check in a row that found no failures any more */
  readonly #quietSince = new Map<string, number>();
  /** topic → monotonicNow() of the first look in a row that found it paused */
  #heldSince: ReadonlyMap<string, number> = new Map();
  readonly #origins = new WeakMap<KnownTopic, string>();
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

  counted(deltas: readonly StatDelta[]): void {
    const now = this.#options.clock.now();
    for (const { topic, name } of deltas) if (name === 'delivered') this.#delivered.set(topic, now);
  }

  async #check(): Promise<void> {
    if (!this.#options.topics.isKnown) return;
    const leader = await this.#otherLeader();
    if (leader !== null) return this.#leaveTo(leader);
    await this.#checkReceivers();
    if (monotonicNow() < this.#pausedAt) return;
    this.#pausedAt = monotonicNow() + this.#options.times.pausedEveryMs;
    await this.#checkPaused();
  }

  /** The number of another instance that leads; null: this one calls the jobs. */
  async #otherLeader(): Promise<number | null> {
    const { leader, owner } = this.#options;
    // Without MySQL each instance calls jobs.
    const found = await leader?.leader().catch(() => null);
    return found == null || found.leftMs <= 0 || found.instance === owner.instance ? null : found.instance;
  }

  async #leaveTo(leader: number): Promise<void> {
    const { incidents } = this.#options;
    for (const { kind, about } of incidents.open())
      if (kind === 'failing' || kind === 'paused')
        await incidents.end({ kind, about }, `instance ${leader} leads and reports ${about || 'them'} now`);
    this.#heldSince = new Map();
  }

  #open(kind: 'failing' | 'paused'): readonly Incident[] {
    return this.#options.incidents.open().filter((incident) => incident.kind === kind);
  }

  async #checkReceivers(): Promise<void> {
    const { incidents, questions, rows, store } = this.#options;
    const open = this.#open('failing');
    let isWhole = true;
    const given = <T>(answers: readonly AnswerOf<T>[] | null): readonly T[] => {
      const all = (answers ?? []).flatMap(({ answer }) => (answer === null ? [] : [answer]));
      isWhole &&= all.length === answers?.length;
      return all;
    };
    const abouts = open.map(({ about }) => about);
    const failures = await topicFailures(
      async (asked) => [...given(await questions.ask('failures', asked)).flat(), ...rows.parts(asked)],
      ['*'],
      abouts.filter((about) => about !== '' && !isOrigin(about)),
    );
    if (open.length === 0 && ![...failures.values()].some(hasFailures)) {
      this.#answersSince = new Map();
      this.#delivered.clear();
      return;
    }
    const origins = new Set([
      ...abouts.filter(isOrigin),
      ...[...failures.keys()].flatMap((name) => this.#calledOrigin(name) ?? []),
    ]);
    const asked = { topic: null, topics: ['*'], origins: [...origins] };
    const parts = mergeEndpoints(given(await questions.ask('endpoints', asked)).flat());
    // A success that a silent notifier has seen is unknown.
    if (!isWhole) return;
    const counted = await store.admin.counts();
    this.#answersSince = new Map(
      parts.flatMap(({ origin, lastSuccessAt }) =>
        this.#isRecent(lastSuccessAt) ? [[origin, this.#answersSince.get(origin) ?? lastSuccessAt ?? 0]] : [],
      ),
    );
    this.#noteSuccesses(open, failures, parts);
    const failing = this.#failing(failures, counted.topics);
    for (const { about } of open.filter((one) => one.about !== '')) {
      const recovery = isOrigin(about)
        ? this.#recoveryOfOrigin(about, failures, counted.topics)
        : this.#recoveryOfTopic(about, failures.get(about));
      const names = isOrigin(about) ? () => this.#namesOf(about, counted.topics) : () => [about];
      const end = this.#isQuiet(about, recovery !== null)
        ? recovery
        : this.#endWithoutCalls(names(), about, counted);
      if (end !== null) await incidents.end(failure(about), end);
    }
    const begun = [...this.#groups(failing)].filter(([about]) => !incidents.isOpen(failure(about)));
    const isLast = incidents.isOpen(others) ? 1 : 0;
    const free = upkeepLimits.failingIncidentsMax - this.#open('failing').length + isLast;
    for (const [about, some] of begun.splice(0, Math.max(0, free)))
      await incidents.begin(failure(about), await this.#detailOf(about, some), factsOf(some));
    if (begun.length > 0)
      await incidents.begin(others, manyText(begun), factsOf(begun.flatMap(([, some]) => some)));
    if (this.#isQuiet('', begun.length === 0))
      await incidents.end(
        others,
        `at most ${upkeepLimits.failingIncidentsMax} receivers fail: each is reported`,
      );
    for (const about of this.#quietSince.keys())
      if (!incidents.isOpen(failure(about))) this.#quietSince.delete(about);
  }

  /** Successes since an incident began, by the storage clock. */
  #noteSuccesses(open: readonly Incident[], failures: FailuresByTopic, parts: readonly EndpointPart[]): void {
    const { clock } = this.#options;
    const ofOrigins = new Map(parts.map(({ origin, lastSuccessAt }) => [origin, lastSuccessAt]));
    // A topic whose calls fail is counted by its notifiers.
    for (const [topic, at] of this.#delivered) {
      const origin = this.#calledOrigin(topic);
      if (origin === null || (failures.get(topic)?.failuresInRow ?? 0) > 0) continue;
      ofOrigins.set(origin, Math.max(at, ofOrigins.get(origin) ?? 0));
    }
    this.#successes = new Map(
      open.flatMap(({ about, at }) => {
        const seen = isOrigin(about)
          ? [ofOrigins.get(about)]
          : [failures.get(about)?.lastSuccessAt, this.#delivered.get(about)];
        const last = Math.max(this.#successes.get(about) ?? 0, ...seen.map((one) => one ?? 0));
        return last > at + clock.now() - wallNow() ? [[about, last]] : [];
      }),
    );
    this.#delivered.clear();
  }

  #fails(facts: TopicFailures, origin: string): boolean {
    const { clock, times } = this.#options;
    if (facts.since === null || facts.failed === 0 || !hasFailures(facts)) return false;
    const answersSince = this.#answersSince.get(origin) ?? 0;
    const isLong = clock.now() - Math.max(facts.since, answersSince) >= times.failingMs;
    return isLong && lastFailureAt(facts) > answersSince;
  }

  /** The topics that dq calls, those with the most failures in a row first. */
  #failing(failures: FailuresByTopic, counts: Counts): readonly Failing[] {
    return [...failures.values()]
      .flatMap((facts) => {
        const origin = this.#calledOrigin(facts.topic);
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
        isOpen(origin) || !this.#answersSince.has(origin) || some.length > upkeepLimits.ownIncidentsMax;
      if (isWide && some.length > 0) groups.set(origin, some);
      else for (const one of some) groups.set(one.topic, [one]);
    }
    return groups;
  }

  /** null: it fails still, or again, or no call has succeeded since its incident began. */
  #recoveryOfTopic(topic: string, facts: TopicFailures | undefined): string | null {
    const success = this.#successes.get(topic);
    if (success === undefined || (facts !== undefined && failsAfter(success, facts))) return null;
    return `calls of ${topic} succeed again`;
  }

  /** Topics that still fail get their own incidents, unless they are many, or no other one succeeds. A topic
   *  that waits for its next attempt fails, too. */
  #recoveryOfOrigin(origin: string, failures: FailuresByTopic, counts: Counts): string | null {
    const success = this.#successes.get(origin);
    if (success === undefined) return null;
    const since = this.#answersSince.get(origin) ?? success;
    const still = [...failures.values()].filter(
      (facts) =>
        this.#calledOrigin(facts.topic) === origin && isLive(counts[facts.topic]) && failsAfter(since, facts),
    );
    if (still.length > upkeepLimits.ownIncidentsMax) return null;
    if (still.some(({ lastSuccessAt }) => (lastSuccessAt ?? 0) >= success)) return null;
    const except =
      still.length === 0 ? '' : `, except those of ${still.map(({ topic }) => topic).join(', ')}`;
    return `calls to ${origin} succeed again${except}`;
  }

  /** Whether it has held for quietMs. */
  #isQuiet(about: string, holds: boolean): boolean {
    if (!holds) {
      this.#quietSince.delete(about);
      return false;
    }
    const now = monotonicNow();
    const since = this.#quietSince.get(about) ?? now;
    this.#quietSince.set(about, since);
    return now - since >= this.#options.times.quietMs;
  }

  /** The topics of an origin with jobs. */
  #namesOf(origin: string, counts: Counts): readonly string[] {
    return Object.keys(counts).filter((name) => {
      const topic = this.#options.topics.get(name);
      return topic === undefined ? this.#options.topics.isUnreadable(name) : this.#originOf(topic) === origin;
    });
  }

  /** null: dq calls some of their jobs, now or later, or that is unknown. */
  #endWithoutCalls(
    names: readonly string[],
    about: string,
    { topics: counts, missing }: Counted,
  ): string | null {
    const { topics } = this.#options;
    const isCalled = (name: string) => topics.isUnreadable(name) || this.#calledOrigin(name) !== null;
    if (missing !== undefined || names.some((name) => isCalled(name) && isLive(counts[name]))) return null;
    const [held] = names
      .map((name) => ({ name, jobs: waitingIn(counts, name) }))
      .filter(({ jobs }) => jobs > 0)
      .sort((a, b) => b.jobs - a.jobs);
    if (held === undefined) return `no job waits for a call of ${about} any more`;
    return heldText(held.name, topics.get(held.name)?.state ?? 'removed', held.jobs);
  }

  #originOf(topic: KnownTopic): string {
    const known = this.#origins.get(topic) ?? originOf(topic);
    this.#origins.set(topic, known);
    return known;
  }

  /** null: dq calls no job of the topic. */
  #calledOrigin(name: string): string | null {
    const topic = this.#options.topics.get(name);
    return topic?.state !== 'active' || topic.delivery === 'pull' ? null : this.#originOf(topic);
  }

  #isRecent(successAt: number | null | undefined): boolean {
    const { clock, times } = this.#options;
    return typeof successAt === 'number' && clock.now() - successAt < times.failingMs;
  }

  /** `failing`: those with the most failures first */
  async #detailOf(about: string, failing: readonly Failing[]): Promise<string> {
    const [first] = failing as [Failing];
    const { topic, origin } = first;
    const sum = (get: (one: Failing) => number) => failing.reduce((total, one) => total + get(one), 0);
    const since = Math.min(...failing.map((one) => one.since ?? Number.POSITIVE_INFINITY));
    const more = failing.length > 1 ? ` and ${failing.length - 1} more` : '';
    const isWide = isOrigin(about) && this.#answersSince.has(origin);
    const of = isWide ? ` of ${failing.length} topics` : isOrigin(about) ? '' : ` of ${topic}`;
    const failures = `${sum(({ failuresInRow }) => failuresInRow)} ${isWide ? 'failures' : 'in a row'}`;
    const whose = isOrigin(about) ? `, of ${topic}${more}` : '';
    const what = `${failures} since ${formatInstant(since)}${whose}`;
    const waiting = jobsText(sum((one) => one.waiting));
    return `calls${of} to ${origin} fail: ${wordsOf(failing)}; ${what}; ${waiting}${await this.#lateness(first)}`;
  }

  /** '' where none of its jobs is due or was, or that is unknown. */
  async #lateness({ topic, retried = [], waiting }: Failing): Promise<string> {
    const { clock, store } = this.#options;
    const now = clock.now();
    try {
      const delayed = firstFound(store.jobs, { topic, state: 'delayed' });
      const found = await Promise.all([oldestDue(store.jobs, topic, now), delayed]);
      const late = await lateJob(store.jobs, { topic, found, retried, jobs: waiting, hasFailed: true }, now);
      return late === null ? '' : `; ${topic} is late by ${lateWords(now - late.since, late.isLeast)}`;
    } catch {
      return '';
    }
  }

  async #checkPaused(): Promise<void> {
    const { clock, incidents, store, times, topics } = this.#options;
    const { topics: counts, missing } = await store.admin.counts();
    const isHeld = (name: string) => (topics.get(name)?.state ?? 'active') !== 'active';
    const open = this.#open('paused').filter(({ about }) => !topics.isUnreadable(about));
    for (const { about } of open) {
      if (isHeld(about) && (missing !== undefined || waitingIn(counts, about) > 0)) continue;
      const left = topics.get(about) === undefined ? `${about} was removed` : `${about} is no longer paused`;
      await incidents.end(pause(about), isHeld(about) ? `no job of ${about} waits any more` : left);
    }
    const names = Object.keys(counts).filter((name) => isHeld(name) && waitingIn(counts, name) > 0);
    const now = monotonicNow();
    this.#heldSince = new Map(names.map((name) => [name, this.#heldSince.get(name) ?? now]));
    const held = names
      .filter((name) => now - (this.#heldSince.get(name) ?? now) >= times.pausedMs)
      .filter((name) => !incidents.isOpen(pause(name)))
      .sort((a, b) => waitingIn(counts, b) - waitingIn(counts, a))
      .slice(0, Math.max(0, upkeepLimits.pausedTopicsMax - this.#open('paused').length));
    for (const name of held) {
      const found = await oldestDue(store.jobs, name, clock.now() - times.pausedMs);
      const dueMs = clock.now() - (found?.dueAt ?? Number.POSITIVE_INFINITY);
      if (found === null || dueMs < times.pausedMs) continue;
      const oldest = { topic: name, id: found.id, dueAt: found.dueAt };
      const waiting = waitingIn(counts, name);
      const due = formatDuration(Math.round(dueMs / 1_000) * 1_000);
      const detail = `${name} is ${topics.get(name)?.state}: ${jobsText(waiting)}, the oldest was due ${due} ago`;
      await incidents.begin(pause(name), detail, { oldest, waiting });
    }
  }
}

/** Enough in a row. A single reply may be about its job, and a job fails as often as repliesInRow only after
 *  hours. */
const hasFailures = ({ failuresInRow, unansweredInRow }: TopicFailures): boolean =>
  unansweredInRow >= upkeepLimits.unansweredInRow || failuresInRow >= upkeepLimits.repliesInRow;

const failsAfter = (successAt: number, facts: TopicFailures): boolean =>
  hasFailures(facts) && lastFailureAt(facts) > successAt;

const isLive = (counts: Counts[string] | undefined): boolean =>
  counts !== undefined && counts.delayed + counts.ready + counts.reserved > 0;

const jobsText = (jobs: number): string => `${jobs} job${jobs === 1 ? ' waits' : 's wait'}`;

/** Of the receivers that no incident of their own is about. */
function manyText(groups: readonly (readonly [string, readonly Failing[]])[]): string {
  const [[about, some]] = groups as [(typeof groups)[number]];
  return `calls to ${groups.length} more receivers fail, the first to ${about}: ${wordsOf(some)}`;
}

function wordsOf([first]: readonly Failing[]): string {
  const { lastReason, lastStatus, lastDetail } = first as Failing;
  return failureWords({ reason: lastReason, status: lastStatus, detail: lastDetail });
}

const factsOf = (failing: readonly Failing[]): Pick<Incident, 'topic' | 'waiting'> => ({
  topic: (failing[0] as Failing).topic,
  waiting: failing.reduce((sum, { waiting }) => sum + waiting, 0),
});
