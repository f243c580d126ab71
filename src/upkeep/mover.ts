// Moves the jobs of a jobs.db that dq leaves to the store in force: a page is put there, recorded in the
// journal where there is one, and forgotten in jobs.db some seconds later, if no server may have lost data
// since. A server that was emptied has no entries of ends, so the journal names those of the jobs that
// jobs.db still has before the move is opened there again.
// Invariants: jobs.db forgets a version only after a durable put of it, or of a higher one. A repeat of each
// step changes nothing, so a mover that dies at any line begins again at the first page, and two do no harm.
// The move is a state of jobs.db, not an operation of the registry: several instances may share the registry,
// and only this one has the file. An empty jobs.db ends the move before the target closes it, so no move is
// opened again after its end.

import type { JobKey, Version } from '../core/job.ts';
import { type Change, type Changed, isEnded, type JobRow } from '../core/job-change.ts';
import { limits } from '../core/limits.ts';
import { changeOf } from '../journal/heal/put-outcomes.ts';
import { changesOf } from '../journal/heal/surveyor.ts';
import { journalLimits } from '../journal/limits.ts';
import type { LeavingJob, LeavingPlace, LeavingState } from '../ports/leaving.ts';
import { StoreError, type StoreFailure } from '../ports/store-error.ts';
import type { LeavingStore, RoleContext } from '../process/role.ts';
import { Agent } from '../runtime/loop.ts';
import { monotonicNow } from '../runtime/time.ts';
import { upkeepLimits } from './limits.ts';

interface Put {
  /** monotonicNow() after the answer */
  readonly at: number;
  readonly jobs: readonly (JobKey & { readonly version: Version })[];
}

/** The ends that the journal knows: where the walk that leaves them goes on, and how many jobs it has asked
 *  for; left: in the target. */
type Ends = { readonly at: LeavingPlace | null; readonly asked: number } | 'left';

export class Mover extends Agent {
  readonly #ctx: RoleContext;
  readonly #leaving: LeavingStore;
  readonly #isJournalBehind: () => boolean;
  /** the move that the target knows */
  #opened: number | null = null;
  /** of the walk before that, which goes on after a failure; null: the target is not prepared */
  #ends: Ends | null = null;
  /** the move that the target may know as prepared or open because of this process; null: none */
  #prepared: number | null = null;
  #losses = 0;
  /** the next page; undefined: all are put */
  #next: LeavingPlace | null | undefined = null;
  /** what jobs.db still has to forget, oldest first */
  #puts: Put[] = [];
  #problem: string | null = null;
  /** the move that the target closed last, and monotonicNow() after that */
  #closed: { readonly move: number; readonly at: number } | null = null;

  constructor(ctx: RoleContext, leaving: LeavingStore, isJournalBehind: () => boolean) {
    super({
      log: ctx.log,
      failure: 'mover: cannot move the jobs of jobs.db',
      end: 'mover: moves the jobs of jobs.db again',
      step: () => this.#step(),
      onFailure: () => {
        this.#problem ??= 'a store or server does not answer; see the error log';
      },
    });
    this.#ctx = ctx;
    this.#leaving = leaving;
    this.#isJournalBehind = isJournalBehind;
  }

  /** Why the move waits, one sentence; null: it does not. */
  get problem(): string | null {
    return this.#problem;
  }

  async #step(): Promise<number> {
    const { calls, arrivals } = this.#leaving;
    if ((await this.#leaving.look()) === 'none') {
      // Of a damaged jobs.db, which looks empty, the state cannot be read: its move may go on.
      if (this.#prepared !== null && (await calls.state()).move === null) await this.#closePrepared(null);
      return limits.loopSleepMsMax;
    }
    const state = await calls.state();
    const { move, ended } = state;
    if (move === null || ended !== null) return this.#rest(state);
    if (state.isFrozen) {
      this.#problem = 'dq backup or dq fsck reads jobs.db';
      return upkeepLimits.moveWaitMs;
    }
    const waitMs = this.#opened === move ? null : await this.#open(move, state);
    if (waitMs !== null) return waitMs;
    const askedAt = monotonicNow();
    const losses = await arrivals.losses();
    if (losses !== this.#losses) this.#beginAgain(losses);
    await this.#forget(askedAt);
    if (this.#next === undefined) return this.#end(state);
    const why = this.#whyWait();
    if (why !== null) {
      this.#problem = why;
      return upkeepLimits.moveWaitMs;
    }
    const began = monotonicNow();
    const { jobs, next } = await calls.page(this.#next);
    if (jobs.length > 0) {
      if (!(await this.#put(move, jobs))) return upkeepLimits.moveWaitMs;
      // A walk that finds nothing does not end what the one before has waited for.
      this.#problem = null;
    }
    this.#next = next ?? undefined;
    // Pushes and callbacks have half of the time.
    return Math.min(monotonicNow() - began, limits.loopSleepMsMax);
  }

  /** No move is open, or an earlier one is not closed. The target closes one that ended, again if a server
   *  may have lost that: an open move keeps an entry of every end. */
  async #rest({ ended }: LeavingState): Promise<number> {
    const { calls, arrivals } = this.#leaving;
    this.#opened = null;
    this.#ends = null;
    this.#problem = null;
    if (ended === null) {
      await this.#closePrepared(null);
      return upkeepLimits.moveWaitMs;
    }
    const askedAt = monotonicNow();
    const losses = await arrivals.losses();
    if (this.#closed?.move !== ended || losses !== this.#losses) {
      await arrivals.close(ended);
      this.#losses = losses;
      this.#closed = { move: ended, at: monotonicNow() };
      if (this.#prepared === ended) this.#prepared = null;
    }
    const leftMs = this.#closed.at + upkeepLimits.moveForgetMs - askedAt;
    if (leftMs > 0) return leftMs;
    await calls.closed(ended);
    this.#ctx.log.notice('mover: all jobs of jobs.db are in Redis');
    return upkeepLimits.moveWaitMs;
  }

  /** Null: the move is open; else how long it waits. */
  async #open(move: number, { jobs }: LeavingState): Promise<number | null> {
    const { arrivals } = this.#leaving;
    const losses = await arrivals.losses();
    this.#ends ??= await this.#prepare(move);
    if (this.#ends !== null && this.#ends !== 'left') {
      const waitMs = await this.#leaveEnds(this.#ends, jobs);
      if (waitMs !== null) return waitMs;
    }
    const isOpen = this.#ends === 'left' && (await arrivals.open(move));
    this.#ends = null;
    this.#problem = isOpen ? null : 'Redis has lost data that is not put back yet';
    if (!isOpen) return upkeepLimits.moveWaitMs;
    this.#opened = move;
    this.#beginAgain(losses);
    this.#ctx.log.notice('mover: moves the jobs of jobs.db to Redis', { jobs });
    return null;
  }

  /** Null: a server is not healed: until then the journal may lack ends. */
  async #prepare(move: number): Promise<Ends | null> {
    const { calls, arrivals } = this.#leaving;
    await this.#closePrepared(move);
    this.#prepared = move;
    const known = await arrivals.prepare(move);
    if (known === 'healing') return null;
    const isFirst = await calls.opens(move);
    // This process stood still, and another has ended the move: the next step closes it.
    if (isFirst === null) return null;
    if (known === 'open' || isFirst || this.#ctx.journal === undefined) return 'left';
    return { at: null, asked: 0 };
  }

  /** `open`: in jobs.db; null: none is. No mover of a later move closes another one in the target. */
  async #closePrepared(open: number | null): Promise<void> {
    if (this.#prepared === null || this.#prepared === open) return;
    await this.#leaving.arrivals.close(this.#prepared);
    this.#prepared = null;
  }

  /** One page: a put that follows does not revive the jobs whose ends the journal knows. Null: no page is
   *  left, or a server has lost changes; else how long the next page waits. */
  async #leaveEnds({ at, asked }: Exclude<Ends, 'left'>, left: number): Promise<number | null> {
    const { journal, store } = this.#ctx;
    const { healing } = store;
    if (journal === undefined || healing === undefined) throw new Error('a walk over ends without a journal');
    this.#problem = `Redis does not know the move any more: dq asks the journal which jobs of jobs.db have ended, ${asked} of ${left} so far`;
    const began = monotonicNow();
    const { jobs, next } = await this.#leaving.calls.page(at);
    const ended = (await journal.db.rows(jobs, false)).filter(isEnded);
    const outcomes = await healing.put(ended);
    await journal.record(outcomes.flatMap((outcome, i) => changeOf(ended[i] as JobRow, outcome)));
    for (const outcome of outcomes)
      if (outcome.kind === 'not_stored' || outcome.kind === 'unknown') throw new StoreError(outcome);
    const isLost = outcomes.some(({ kind }) => kind === 'other_note');
    this.#ends = isLost ? null : next === null ? 'left' : { at: next, asked: asked + jobs.length };
    // Pushes and callbacks have half of the time.
    return isLost || next === null ? null : Math.min(monotonicNow() - began, limits.loopSleepMsMax);
  }

  #beginAgain(losses: number): void {
    this.#losses = losses;
    this.#next = null;
    this.#puts = [];
  }

  #whyWait(): string | null {
    if (this.#leaving.arrivals.isNearlyFull()) return 'Redis is nearly full';
    return this.#isJournalBehind() ? 'the journal is behind' : null;
  }

  /** False: the target knows no such move any more, or puts back what it has lost. */
  async #put(move: number, jobs: readonly LeavingJob[]): Promise<boolean> {
    const outcomes = await this.#leaving.arrivals.put(move, jobs);
    if (outcomes.some(({ kind }) => kind === 'closed')) {
      this.#opened = null;
      return false;
    }
    const arrived = outcomes.map((outcome) => {
      if (outcome.kind === 'here') return outcome.change;
      throw new StoreError(outcome as StoreFailure);
    });
    const at = monotonicNow();
    // Before jobs.db forgets them: the journal then has what Redis may lose.
    await this.#ctx.journal?.record(
      jobs.flatMap((job, i) => {
        const change = arrived[i];
        // Another process records the change that made the job end, or a higher version.
        return change === undefined ? [] : recordsOf(job, change);
      }),
    );
    this.#puts.push({ at, jobs: jobs.map(({ topic, id, version }) => ({ topic, id, version })) });
    return true;
  }

  /** Those whose puts no failover or restart of a server has lost. `askedAt`: monotonicNow() before the
   *  servers were asked for that: a later put may be lost since, however long a call of jobs.db takes. */
  async #forget(askedAt: number): Promise<void> {
    for (;;) {
      const [first] = this.#puts;
      if (first === undefined || askedAt - first.at < upkeepLimits.moveForgetMs) return;
      await this.#leaving.calls.forget(first.jobs);
      this.#puts.shift();
    }
  }

  /** All pages are put. Reserved jobs, and dead letters whose alerts are owed, are left for another walk. */
  async #end({ owesAlerts }: LeavingState): Promise<number> {
    const [first] = this.#puts;
    if (first !== undefined) return Math.max(first.at + upkeepLimits.moveForgetMs - monotonicNow(), 0);
    if (await this.#leaving.calls.end()) return 0;
    this.#next = null;
    this.#problem = owesAlerts
      ? `the alerts of dead letters in jobs.db ${this.#ctx.config.noDeliveries ? 'wait for a start without --no-deliveries' : 'are not mailed yet'}`
      : 'the jobs that are left are reserved: the move waits for their acks, or the ends of their leases';
    return upkeepLimits.moveWaitMs;
  }
}

function recordsOf({ attempts: _, ...job }: LeavingJob, change: Changed): readonly Change[] {
  // MySQL may not take a larger one.
  if (job.body.length > limits.journalBodyBytesMax) return [];
  const { topic, id, death } = job;
  const accepted = changesOf({ ...job, place: change.place });
  const put = { topic, id, isOwn: true, deadAt: death?.at ?? null, reason: death?.reason ?? null };
  return [...accepted, { kind: 'restored', ...put, ...change }];
}

/** Whether the mover waits for a journal: the spool must keep space for pushes. */
export function isBehind(
  { lagMs, spoolBytes }: { readonly lagMs: number; readonly spoolBytes: number },
  spoolBytesMax: number,
): boolean {
  return lagMs > journalLimits.surveyLagMs || spoolBytes > spoolBytesMax / 4;
}
