// Counts the calls of each topic for people who watch the endpoints: running calls, failures in a row, and
// the results and durations of the last minutes. Decides nothing: capacity.ts keeps a health of its own.
// Invariant: at most notifierLimits.endpointTopicsKept topics are counted. Where all of them were called
// within the window, a further one is not counted.

import {
  durationGroups,
  type EndpointPart,
  endpointWindowMs,
  groupOf,
  mergeEndpoints,
  oldestRetried,
  originOf,
  type RetriedJob,
  stillRetried,
  type TopicFailures,
} from '../core/endpoint.ts';
import type { AttemptReason, ReservedJob } from '../core/job.ts';
import { reaches } from '../core/token.ts';
import type { FailingNews } from '../process/messages.ts';
import type { Questions } from '../process/questions.ts';
import type { TopicBook } from '../registry/topic-book.ts';
import { notifierLimits } from './limits.ts';

const stepMs = endpointWindowMs / notifierLimits.endpointSteps;

/** Numbers of one step: delivered, failed, the longest duration, then attempts by durationGroups. */
const width = 3 + durationGroups.length;

export class TopicCalls {
  readonly topic: string;
  readonly origin: string;
  running = 0;
  /** since EndpointCalls.news() named it */
  isChanged = false;
  /** The topic got another receiver meanwhile, or was removed: only the endpoint has these calls. */
  isOver = false;
  readonly #run: number | undefined;
  #failuresInRow = 0;
  #unansweredInRow = 0;
  #lastSuccessAt: number | null = null;
  /** of the topic, at its receivers before this one */
  readonly #successBefore: number | null;
  /** the newest ones */
  #lastFailuresAt: readonly number[] = [];
  #lastReason: AttemptReason | null = null;
  #lastStatus: number | null = null;
  #lastDetail = '';
  /** the first failure after the last success */
  #failingSince: number | null = null;
  /** a success of another job ends none of them */
  #retried: readonly RetriedJob[];
  readonly #counts = new Uint32Array(width * notifierLimits.endpointSteps);
  /** number of the step that each part of #counts is about */
  readonly #steps: number[] = new Array(notifierLimits.endpointSteps).fill(-1);

  /** `run`: the incarnation of the notifier; `before`: calls of the receiver that the topic had before */
  constructor(topic: string, origin: string, run?: number, before?: TopicCalls) {
    this.topic = topic;
    this.origin = origin;
    this.#run = run;
    this.#successBefore = before === undefined ? null : (before.#lastSuccessAt ?? before.#successBefore);
    this.#retried = before === undefined ? [] : before.#retried;
  }

  get lastAt(): number {
    return Math.max(this.#lastSuccessAt ?? 0, this.#lastFailureAt ?? 0);
  }

  get #lastFailureAt(): number | null {
    return this.#lastFailuresAt.at(-1) ?? null;
  }

  /** `reason`: null for a success; `status`: null without a reply; `detail`: the failure of a call without a
   *  reply, in words; `nowMs`: storage clock */
  judged(
    reason: AttemptReason | null,
    status: number | null,
    durationMs: number,
    nowMs: number,
    detail = '',
  ): void {
    if (reason === null) {
      this.#failuresInRow = 0;
      this.#unansweredInRow = 0;
      this.#failingSince = null;
      this.#lastSuccessAt = nowMs;
    } else {
      this.#failuresInRow += 1;
      this.#unansweredInRow = status === null ? this.#unansweredInRow + 1 : 0;
      this.#failingSince ??= nowMs;
      this.#lastFailuresAt = [...this.#lastFailuresAt, nowMs].slice(-notifierLimits.lastFailuresKept);
      this.#lastReason = reason;
      this.#lastStatus = status;
      this.#lastDetail = detail;
    }
    this.isChanged = true;
    const at = this.#place(Math.floor(nowMs / stepMs)) * width;
    this.#count(at + (reason === null ? 0 : 1));
    this.#counts[at + 2] = Math.max(this.#counts[at + 2] ?? 0, durationMs);
    this.#count(at + 3 + groupOf(durationMs));
  }

  /** The job gets another attempt. One whose next attempt is over was another notifier's since then. */
  retried(job: Pick<ReservedJob, 'id' | 'failures' | 'dueAt' | 'acceptedAt'>, nextAt: number, nowMs: number) {
    const { id, failures, dueAt, acceptedAt } = job;
    const since = failures === 0 ? dueAt : acceptedAt;
    const known = this.#retried.find((one) => one.id === id);
    const others = stillRetried(this.#retried, nowMs).filter((one) => one.id !== id);
    this.#retried = oldestRetried([...others, { id, since: known?.since ?? since, nextAt }]);
  }

  /** The job has ended. */
  ended(id: string): void {
    if (this.#retried.length > 0) this.#retried = this.#retried.filter((one) => one.id !== id);
  }

  part(nowMs: number, isProbing: boolean): EndpointPart {
    const current = Math.floor(nowMs / stepMs);
    const sums = new Array<number>(width).fill(0);
    let longestMs = 0;
    for (const [place, step] of this.#steps.entries()) {
      if (step <= current - notifierLimits.endpointSteps || step > current) continue;
      longestMs = Math.max(longestMs, this.#counts[place * width + 2] ?? 0);
      for (let n = 0; n < width; n += 1) sums[n] = (sums[n] ?? 0) + (this.#counts[place * width + n] ?? 0);
    }
    const [delivered = 0, failed = 0, , ...durations] = sums;
    return {
      origin: this.origin,
      topics: [this.topic],
      isProbing,
      inFlight: this.running,
      lastSuccessAt: this.#lastSuccessAt,
      lastFailureAt: this.#lastFailureAt,
      lastReason: this.#lastReason,
      delivered,
      failed,
      durations,
      longestMs,
    };
  }

  failures(nowMs: number): TopicFailures {
    const { delivered, failed, lastReason } = this.part(nowMs, false);
    const retried = stillRetried(this.#retried, nowMs);
    return {
      topic: this.topic,
      ...(this.#run === undefined ? {} : { run: this.#run }),
      origin: this.origin,
      delivered,
      failed,
      failuresInRow: this.#failuresInRow,
      unansweredInRow: this.#unansweredInRow,
      lastSuccessAt: this.#lastSuccessAt ?? this.#successBefore,
      since: this.#failingSince,
      lastReason,
      lastStatus: this.#lastStatus,
      lastDetail: this.#lastDetail,
      lastFailuresAt: this.#lastFailuresAt,
      ...(retried.length > 0 && { retried }),
    };
  }

  #count(index: number): void {
    this.#counts[index] = (this.#counts[index] ?? 0) + 1;
  }

  /** Returns where the step is counted, and clears what was counted there before. */
  #place(step: number): number {
    const place = step % notifierLimits.endpointSteps;
    if (this.#steps[place] !== step) {
      this.#steps[place] = step;
      this.#counts.fill(0, place * width, (place + 1) * width);
    }
    return place;
  }
}

export class EndpointCalls {
  readonly #topics = new Map<string, TopicCalls>();
  readonly #run: number | undefined;

  /** `run`: the incarnation of the notifier */
  constructor(run?: number) {
    this.#run = run;
  }

  /** null: too many topics are called. Another receiver begins at zero. `nowMs`: storage clock */
  of(topic: string, origin: string, nowMs: number): TopicCalls | null {
    const known = this.#topics.get(topic);
    if (known?.origin === origin && !known.isOver) return known;
    if (known === undefined && !this.#hasSpace(nowMs)) return null;
    const calls = new TopicCalls(topic, origin, this.#run, known);
    this.#topics.set(topic, calls);
    return calls;
  }

  /** Also of topics that this notifier never calls at their next receiver, before they come back. */
  topicsChanged(names: readonly string[], topics: Pick<TopicBook, 'get' | 'isUnreadable'>): void {
    for (const name of names) {
      const calls = this.#topics.get(name);
      if (calls === undefined || topics.isUnreadable(name)) continue;
      const topic = topics.get(name);
      if (topic === undefined || originOf(topic) !== calls.origin) calls.isOver = true;
    }
  }

  all(): Iterable<TopicCalls> {
    return this.#topics.values();
  }

  /** The endpoints of these origins; absent: of all, and of many the most recently called ones. */
  parts(
    origins: readonly string[] | undefined,
    isWanted: (topic: string) => boolean,
    isProbing: (topic: string) => boolean,
    nowMs: number,
  ): readonly EndpointPart[] {
    const named = origins === undefined ? null : new Set(origins);
    const parts = [...this.all()]
      .filter(({ origin, topic }) => named?.has(origin) !== false && isWanted(topic))
      .sort((a, b) => b.lastAt - a.lastAt)
      .map((calls) => calls.part(nowMs, isProbing(calls.topic)));
    return mergeEndpoints(parts).slice(0, named?.size ?? notifierLimits.endpointsMax);
  }

  /** The answer to the question `failures`, those with the most failures first. */
  failures({ topics, names }: Questions['failures']['params'], nowMs: number): readonly TopicFailures[] {
    const asked = names?.flatMap((name) => this.#topics.get(name) ?? []) ?? [...this.all()];
    return asked
      .filter(({ topic, isOver }) => !isOver && reaches({ scopes: [], topics }, topic))
      .map((calls) => calls.failures(nowMs))
      .filter(({ failed, failuresInRow }) => names !== undefined || failed + failuresInRow > 0)
      .sort((a, b) => b.failed - a.failed || b.failuresInRow - a.failuresInRow)
      .slice(0, notifierLimits.failingTopicsMax);
  }

  /** What changed since the last call, in messages about at most failingTopicsMax topics. */
  news(nowMs: number): readonly FailingNews[] {
    const changed = [...this.all()].filter(({ isChanged, isOver }) => isChanged && !isOver);
    const news: FailingNews[] = [];
    for (let at = 0; at < changed.length; at += notifierLimits.failingTopicsMax) {
      const parts = changed.slice(at, at + notifierLimits.failingTopicsMax).map((calls) => {
        calls.isChanged = false;
        return calls.failures(nowMs);
      });
      news.push({
        run: this.#run ?? 0,
        failing: parts.filter(({ failuresInRow }) => failuresInRow > 0),
        answered: parts.flatMap(({ topic, failuresInRow, lastSuccessAt }) =>
          failuresInRow > 0 ? [] : [[topic, lastSuccessAt ?? 0]],
        ),
      });
    }
    return news;
  }

  #hasSpace(nowMs: number): boolean {
    if (this.#topics.size < notifierLimits.endpointTopicsKept) return true;
    const [first] = this.#topics;
    if (first === undefined) return true;
    const [topic, calls] = first;
    this.#topics.delete(topic);
    if (calls.running === 0 && calls.lastAt < nowMs - endpointWindowMs) return true;
    // In use: it goes to the end, and another one is tried the next time.
    this.#topics.set(topic, calls);
    return false;
  }
}
