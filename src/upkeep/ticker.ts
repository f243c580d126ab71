// Makes the jobs of schedules. Each instant that is due becomes one job: a process claims it in the registry,
// pushes the job under an id that names the instant, and ends the claim.
// A crash between push and end: the next claim looks for the job by its id, stored or ended, before it pushes
// again. The store keeps the ends of these jobs for limits.tickHistoryMs also without a history.
// A clock that was ahead leaves instants that are too far in the future. At a start, after the clock went
// back, and page by page from time to time, they are computed again. Repeated instants count as claimed.
// A process that stands still after its claim pushes nothing when half of the claim's time has passed. By two
// clocks: the monotonic one stops while the machine is suspended.

import { formatInstant } from '../core/duration.ts';
import { DqError, messageOf } from '../core/errors.ts';
import { tickId } from '../core/job-id.ts';
import { limits } from '../core/limits.ts';
import { inBatches } from '../core/lists.ts';
import {
  type DueTick,
  misplacedTick,
  planTick,
  type StoredSchedule,
  type TickEnd,
  type TickPlan,
} from '../core/schedule.ts';
import type { PushJob } from '../ports/job-store.ts';
import { StoreError } from '../ports/store-error.ts';
import type { RoleContext } from '../process/role.ts';
import { Agent } from '../runtime/loop.ts';
import { monotonicNow, turn as setImmediate, wallNow } from '../runtime/time.ts';
import { acceptJob, pushTerms } from '../use-cases/accept-job.ts';
import { upkeepLimits } from './limits.ts';

interface Made {
  readonly job: PushJob;
  /** where the job may be already: that of the schedule, and those that changes replaced */
  readonly topics: readonly string[];
  readonly end: TickEnd;
}

/** Both clocks before a claim. */
interface Claimed {
  readonly at: number;
  readonly date: number;
}

const isFresh = ({ at, date }: Claimed): boolean =>
  Math.max(monotonicNow() - at, wallNow() - date) <= upkeepLimits.tickClaimMs / 2;

const urgentCheck = { after: '', at: Number.NEGATIVE_INFINITY, isUrgent: true };
const clockProblem =
  'clock: the next time was too far ahead, because the clock was wrong; it is computed again';

export class Ticker extends Agent {
  readonly #ctx: RoleContext;
  /** of the next page, from `at` (monotonicNow()) on */
  #check: { readonly after: string; readonly at: number; readonly isUrgent: boolean } = urgentCheck;
  /** not in the registry yet; null: none */
  #ended: { readonly ends: readonly TickEnd[]; readonly claimed: Claimed } | null = null;
  /** the storage clock minus monotonicNow() */
  #clockOffset: number | null = null;

  constructor(ctx: RoleContext) {
    super({
      log: ctx.log,
      failure: 'schedules: cannot make their jobs',
      end: 'schedules: their jobs are made again',
      step: () => this.#step(),
      failureWaitMs: upkeepLimits.tickEveryMs,
    });
    this.#ctx = ctx;
  }

  async #step(): Promise<number> {
    const { clock, registry } = this.#ctx;
    // Of a turn in which the registry did not answer: their claims would delay the next instants. Later
    // another process may hold the claims, and a batch that is always rejected must not stop the others.
    if (this.#ended !== null && isFresh(this.#ended.claimed)) await this.#endTicks();
    const now = await clock.known();
    await this.#checkPage(now);
    const claimed: Claimed = { at: monotonicNow(), date: wallNow() };
    const { tickClaimMs, tickBatchMax, tickEveryMs } = upkeepLimits;
    const due = await registry.claimSchedules(now, now + tickClaimMs, tickBatchMax);
    if (due.length === 0) return this.#check.isUrgent ? 0 : tickEveryMs;
    await this.#knowTopics(due);
    const ends: TickEnd[] = [];
    const made: Made[] = [];
    for await (const tick of inSlices(due)) {
      const planned = this.#plan(tick, now);
      if (planned === null) continue;
      if ('job' in planned) made.push(planned);
      else ends.push(planned);
    }
    const repeated = new Set(due.filter(({ wasClaimed }) => wasClaimed).map(({ schedule }) => schedule.name));
    // A claim tells nothing about another instant than its own: a process that died after the push may have
    // made that one before the clock went back.
    const mayExist = ({ end: { name, dueAt, madeAt } }: Made) => repeated.has(name) || madeAt !== dueAt;
    const found = await Promise.all(
      made.map((one) => (mayExist(one) ? this.#exists(one).catch(unanswered) : false)),
    );
    const fresh = made.filter((_, n) => found[n] === false);
    for (const [n, { end }] of made.entries()) if (found[n] === true) ends.push(end);
    for (const batch of inBatches(fresh, limits.pushBatchMax)) {
      if (!isFresh(claimed)) break;
      ends.push(...(await this.#push(batch)));
    }
    this.#ended = { ends, claimed };
    await this.#endTicks();
    // At once where an instant moved: the next one of it, or of a schedule beyond the batch, may be due.
    return ends.some(({ dueAt, nextAt }) => nextAt !== dueAt) ? 0 : tickEveryMs;
  }

  async #endTicks(): Promise<void> {
    const ended = this.#ended;
    this.#ended = null;
    if (ended === null) return;
    try {
      if (ended.ends.length > 0) await this.#ctx.registry.endTicks(ended.ends);
    } catch (error) {
      if (error instanceof StoreError) this.#ended = ended;
      throw error;
    }
  }

  /** Computes instants again that are further ahead than their times allow. One page, because instants that
   *  are due do not wait for the others. */
  async #checkPage(now: number): Promise<void> {
    const { log, registry } = this.#ctx;
    const offset = now - monotonicNow();
    if (this.#clockOffset !== null && offset < this.#clockOffset - limits.tickLateMs / 2)
      this.#check = urgentCheck;
    this.#clockOffset = offset;
    if (monotonicNow() < this.#check.at) return;
    const { after, isUrgent } = this.#check;
    const page = await registry.schedules(after, upkeepLimits.tickCheckMax);
    const ends: TickEnd[] = [];
    for await (const schedule of inSlices(page)) ends.push(...this.#misplaced(schedule, now));
    if (ends.length > 0) {
      await registry.endTicks(ends);
      log.notice('schedules: next instants were too far ahead, and are computed again', {
        count: ends.length,
        schedules: ends
          .slice(0, 10)
          .map(({ name }) => name)
          .join(' '),
        furthest: formatInstant(Math.max(...ends.map(({ dueAt }) => dueAt))),
      });
    }
    const isMore = page.length > 0;
    const waitMs = isUrgent && isMore ? 0 : upkeepLimits.tickCheckEveryMs;
    this.#check = {
      after: page.at(-1)?.name ?? '',
      isUrgent: isUrgent && isMore,
      at: monotonicNow() + waitMs,
    };
  }

  #misplaced(schedule: StoredSchedule, now: number): readonly TickEnd[] {
    const { name, revision, nextAt: dueAt } = schedule;
    try {
      const right = misplacedTick(schedule, now);
      if (right === null || dueAt === null) return [];
      const { nextAt } = right;
      return [{ name, dueAt, revision, claimedUntil: null, nextAt, madeAt: null, problem: clockProblem }];
    } catch {
      // Its next claim reports that its times cannot be computed.
      return [];
    }
  }

  /** A topic may be younger than what this process knows. Rejects while the registry does not answer. */
  async #knowTopics(due: readonly DueTick[]): Promise<void> {
    const { topics } = this.#ctx;
    for (const name of new Set(due.map(({ schedule }) => schedule.topic)))
      try {
        if (topics.get(name) === undefined) await topics.lookUp(name);
      } catch (error) {
        // An unreadable topic holds up no other schedule.
        if (error instanceof StoreError) throw error;
      }
  }

  /** The job of an instant, or its end without one. null: its times cannot be computed, such as those of a
   *  time zone that this process does not know; it keeps its claim. */
  #plan({ schedule, dueAt, claimedUntil }: DueTick, now: number): Made | TickEnd | null {
    const { name, revision, missed, topic: topicName, earlier } = schedule;
    let plan: TickPlan;
    try {
      plan = planTick(schedule, missed, dueAt, now);
    } catch (error) {
      this.#ctx.log.error('schedules: cannot compute the times of a schedule', error, { schedule: name });
      return null;
    }
    const { make, nextAt, wasMade } = plan;
    const end = { name, dueAt, revision, claimedUntil, nextAt, madeAt: null, problem: null };
    if (wasMade) return { ...end, problem: schedule.problem };
    if (make === null) {
      this.#ctx.log.notice('schedules: an instant was missed', { schedule: name, nextAt });
      return { ...end, problem: 'missed: dq did not run, or could not store jobs' };
    }
    try {
      const topic = this.#ctx.topics.get(topicName);
      if (topic === undefined) throw new DqError('topic_not_found', `topic ${topicName} is not registered`);
      const { body, isBase64, contentType } = schedule;
      const request = {
        id: tickId(name, make),
        delay: undefined,
        at: String(make),
        mode: 'keep',
        inQuery: false,
        contentType,
        body: Buffer.from(body, isBase64 ? 'base64' : 'utf8'),
        isLiteral: true,
      };
      const topics = [topicName, ...earlier.map((one) => one.topic)];
      return {
        job: acceptJob(request, topic, pushTerms(this.#ctx, now)),
        topics,
        end: { ...end, madeAt: make },
      };
    } catch (error) {
      const problem = messageOf(error);
      // Once, and not at each instant.
      if (problem !== schedule.problem)
        this.#ctx.log.error('schedules: jobs are rejected', undefined, {
          schedule: name,
          topic: topicName,
          problem,
        });
      return { ...end, problem };
    }
  }

  /** Stored, or ended. In this order: a job can end between the two questions. */
  async #exists({ job: { id }, topics }: Made): Promise<boolean> {
    const { jobs, history } = this.#ctx.store;
    for (const topic of new Set(topics))
      if ((await jobs.get({ topic, id })) !== null || (await history.get({ topic, id })) !== null)
        return true;
    return false;
  }

  /** The ends of those that are stored. The others keep their claim: the next one looks for their jobs. */
  async #push(made: readonly Made[]): Promise<readonly TickEnd[]> {
    const { counters, metrics, store } = this.#ctx;
    const outcomes = await store.jobs.push(made.map(({ job }) => job));
    return made.flatMap(({ job, end }, n) => {
      const kind = outcomes[n]?.kind;
      if (kind === 'stored') {
        counters.add(job.topic, 'pushed');
        metrics.count('dq_pushes_total', 1, 'stored');
      }
      if (kind === 'stored' || kind === 'kept' || kind === 'ended') return [end];
      // Free at once, and not stored: the same instant again.
      return kind === 'not_stored'
        ? [{ ...end, nextAt: end.dueAt, madeAt: null, problem: 'not stored yet' }]
        : [];
    });
  }
}

/** null: the claim stays, and the next one asks again. A partition that does not answer holds up no other. */
function unanswered(error: unknown): null {
  if (error instanceof StoreError) return null;
  throw error;
}

/** The items one after the other, with a turn for other work after each tickSliceMs. */
async function* inSlices<T>(items: readonly T[]): AsyncIterable<T> {
  let from = monotonicNow();
  for (const item of items) {
    yield item;
    if (monotonicNow() - from < upkeepLimits.tickSliceMs) continue;
    await setImmediate();
    from = monotonicNow();
  }
}
