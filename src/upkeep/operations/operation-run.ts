// Works on one operation under its lease, until its end, its stop, the drain or the loss of the lease.
// Invariants: the keys of jobs are stored in the registry before the first of them is moved, and leave it
// together with their results. So after a death a successor examines at most one step, by the versions of its
// jobs: each job is moved once, and `done` has no gap. (A job of that step that someone else moved meanwhile
// counts as done.) No job is moved while the registry is unavailable and new keys would have to be stored.

import { messageOf } from '../../core/errors.ts';
import { limits } from '../../core/limits.ts';
import {
  type OperationCheckpoint,
  type OperationLease,
  type OperationRecord,
  type OperationWork,
  processedOf,
  unknownMember,
} from '../../core/operation.ts';
import { reaches } from '../../core/token.ts';
import { StoreError } from '../../ports/store-error.ts';
import type { RoleContext } from '../../process/role.ts';
import { monotonicNow, sleep } from '../../runtime/time.ts';
import { upkeepLimits } from '../limits.ts';
import { type OperationJobs, type Started, stateOf } from './operation-jobs.ts';

interface OperationRunOptions {
  readonly ctx: Pick<RoleContext, 'store' | 'registry' | 'clock' | 'log'>;
  readonly jobs: OperationJobs;
  /** Jobs that Redis lost are being put back: those that are to end are not all there. */
  readonly isHealing: () => boolean;
  /** runs a step when no other operation of this process does, then pauses for as long */
  readonly inTurn: <T>(step: () => Promise<T>) => Promise<T>;
}

type Next = 'again' | 'ended' | { readonly waitMs: number };

export class OperationRun {
  readonly #options: OperationRunOptions;
  readonly #token: number;
  readonly #pace = new Pace();
  #record: OperationRecord;
  #work: OperationWork;
  /** keys in #work that the registry does not have yet */
  #isNew = false;
  /** some keys of the step may be moved already */
  #isUnsure: boolean;
  #isStopped: boolean;
  #isLost = false;
  /** examinations of the step without an end, for jobs that the store does not move */
  #tries = 0;
  #storedAt = monotonicNow();
  readonly #drained = new AbortController();

  constructor(lease: OperationLease, options: OperationRunOptions) {
    this.#options = options;
    this.#token = lease.token;
    this.#record = lease.record;
    this.#work = lease.work;
    this.#isUnsure = !lease.wasReleased;
    this.#isStopped = lease.record.state === 'stopped';
  }

  get id(): string {
    return this.#record.id;
  }

  /** Ends after the current step. */
  drain(): void {
    this.#drained.abort();
  }

  /** Never rejects. */
  async run(): Promise<void> {
    const { log } = this.#options.ctx;
    while (!this.#drained.signal.aborted && !this.#isLost) {
      try {
        const next = await this.#next();
        if (next === 'ended') return;
        if (next !== 'again') await this.#sleep(next.waitMs);
      } catch (error) {
        if (this.#isLost) return;
        if (!(error instanceof StoreError)) {
          log.error('operations: operation failed', error, { operation: this.#record.id });
          await this.#end('failed', messageOf(error)).catch(() => undefined);
          return;
        }
        await this.#waitAfter(error);
      }
    }
    if (this.#isLost) return;
    // The next process goes on at once. An unsure one keeps its name on the lease: the step will be examined.
    // Without the registry the next process waits for the end of the lease.
    const leaseUntil = this.#isUnsure ? 0 : null;
    await this.#write({ leaseUntil, isClosed: false }).catch(() => undefined);
  }

  async #next(): Promise<Next> {
    if (this.#isUnsure) await this.#options.inTurn(() => this.#examine());
    if (this.#isStopped) return this.#end('stopped', null);
    const unknown = unknownMember(this.#record.filter);
    if (unknown !== undefined)
      return this.#end('failed', `this build does not know ${unknown} of its filter; begin it again`);
    if (this.#record.startedAt === null) await this.#begin();
    if (this.#work.isCounting) return this.#options.inTurn(() => this.#count());
    if (this.#work.step.length === 0 && this.#work.isListed) return this.#end('finished', null);
    const { clock } = this.#options.ctx;
    const allowed = this.#pace.allowed(this.#record, clock.now());
    if (allowed === 0) {
      await this.#checkpoint();
      return { waitMs: this.#pace.waitMs(this.#record) };
    }
    return this.#options.inTurn(() => this.#move(allowed));
  }

  /** The start: fixes the time that its pace counts from, and the number of its jobs where a tally has it. */
  async #begin(): Promise<void> {
    const { ctx } = this.#options;
    const { dryRun, spreadMs } = this.#record;
    const now = await ctx.store.admin.clock();
    const matched = dryRun ? 0 : await this.#tally();
    const isCounting = dryRun || (spreadMs !== null && matched === null);
    this.#record = {
      ...this.#record,
      state: 'running',
      startedAt: now,
      movingAt: isCounting ? null : now,
      matched: isCounting ? 0 : matched,
    };
    this.#work = { ...this.#work, isCounting };
    this.#isNew = true;
    await this.#checkpoint();
    const { id, kind, actor } = this.#record;
    if (!this.#isStopped) ctx.log.notice('operations: operation began', { operation: id, kind, actor });
  }

  /** null: only a list can count them. */
  async #tally(): Promise<number | null> {
    const { topic, ...more } = this.#record.filter;
    const state = stateOf(this.#record);
    // An upper bound: ids without a matching job do not count in the end.
    if (this.#work.ids !== null) return this.#work.ids.length;
    if (this.#record.kind === 'restore') return null;
    if (Object.keys(more).some((name) => name !== 'state')) return null;
    const { topics, missing } = await this.#options.ctx.store.admin.counts();
    if (missing !== undefined) return null;
    const rights = { scopes: [], topics: this.#record.topics };
    let sum = 0;
    for (const [name, counts] of Object.entries(topics)) {
      if (topic === undefined ? !reaches(rights, name) : name !== topic) continue;
      for (const [its, n] of Object.entries(counts)) if (state === undefined || its === state) sum += n;
    }
    return sum;
  }

  async #count(): Promise<Next> {
    const { clock, log } = this.#options.ctx;
    const page = await this.#list();
    const matched = (this.#record.matched ?? 0) + page.step.length;
    this.#record = { ...this.#record, matched };
    this.#work = { ...this.#work, ...page, step: [] };
    if (page.isListed && this.#record.dryRun) {
      log.notice('operations: operation counted', { operation: this.#record.id, matched });
      return this.#end('finished', null);
    }
    if (page.isListed) {
      this.#work = { ids: null, cursor: null, isListed: false, isCounting: false, step: [] };
      this.#record = { ...this.#record, movingAt: clock.now() };
      this.#isNew = true;
    }
    this.#worked();
    await this.#checkpoint();
    return 'again';
  }

  async #move(allowed: number): Promise<Next> {
    if (this.#work.step.length === 0) {
      this.#work = { ...this.#work, ...(await this.#list()) };
      this.#isNew = true;
    }
    await this.#checkpoint();
    if (this.#isStopped) return 'again';
    const keys = this.#work.step.slice(0, Math.min(allowed, upkeepLimits.operationStepMax));
    if (keys.length === 0) return 'again';
    this.#requireHealed();
    // Until the results are counted, a failure or a stop has to examine the step.
    this.#isUnsure = true;
    const { done, skipped, failures, unsure } = await this.#options.jobs.move(started(this.#record), keys);
    this.#add({ done, skipped, failures });
    this.#work = { ...this.#work, step: [...unsure, ...this.#work.step.slice(keys.length)] };
    this.#pace.used(keys.length - unsure.length);
    this.#isUnsure = unsure.length > 0;
    if (unsure.length > 0) throw new StoreError({ kind: 'unknown', code: 'no_answer' });
    this.#tries = 0;
    this.#worked();
    return 'again';
  }

  /** Counts the jobs of the step that were moved, and keeps the others. */
  async #examine(): Promise<void> {
    const { step } = this.#work;
    const rest = await this.#options.jobs.unmoved(this.#record, step);
    this.#add({ done: step.length - rest.length, skipped: 0, failures: [] });
    this.#work = { ...this.#work, step: rest };
    this.#isUnsure = false;
    this.#isNew = true;
    this.#tries = rest.length < step.length ? 0 : this.#tries + 1;
    if (this.#tries < upkeepLimits.operationTries) return;
    // The store answers reads, and does not move these.
    const given = rest.slice(0, upkeepLimits.operationStepMax);
    this.#add({
      done: 0,
      skipped: 0,
      failures: given.map(([topic, id]) => ({ topic, id, error: 'not_stored' })),
    });
    this.#work = { ...this.#work, step: rest.slice(given.length) };
    this.#tries = 0;
  }

  #add({ done, skipped, failures }: Pick<OperationRecord, 'done' | 'skipped' | 'failures'>): void {
    const record = this.#record;
    this.#record = {
      ...record,
      done: record.done + done,
      skipped: record.skipped + skipped,
      failed: record.failed + failures.length,
      failures: [...record.failures, ...failures].slice(0, limits.operationFailuresKept),
    };
  }

  /** After a change of the shards a list begins again: moved jobs do not match. */
  async #list() {
    const { jobs } = this.#options;
    if (endsJobs(this.#record)) this.#requireHealed();
    try {
      return await jobs.list(started(this.#record), this.#work);
    } catch (error) {
      if (!(error instanceof StoreError) || error.failure.code !== 'bad_cursor') throw error;
      return jobs.list(started(this.#record), { ...this.#work, cursor: null });
    }
  }

  /** Until lost jobs are back, a later version of a listed job may be among them. Throws StoreError. */
  #requireHealed(): void {
    if (this.#record.kind !== 'restore' && this.#options.isHealing())
      throw new StoreError({ kind: 'not_stored', code: 'restoring' });
  }

  async #end(state: 'stopped' | 'finished' | 'failed', problem: string | null): Promise<'ended'> {
    const { clock, log } = this.#options.ctx;
    const record = this.#record;
    const matched = state === 'finished' && !record.dryRun ? processedOf(record) : record.matched;
    const end = { ...record, state, matched, problem, endedAt: record.endedAt ?? clock.now() };
    const work = { ids: null, cursor: null, isListed: true, isCounting: false, step: [] };
    await this.#write({ leaseUntil: null, isClosed: true }, end, work);
    const { id, kind, done, skipped, failed } = record;
    if (state !== 'failed')
      log.notice(`operations: operation ${state}`, { operation: id, kind, done, skipped, failed });
    return 'ended';
  }

  /** Nothing is lost: the same step is tried again. The lease is kept meanwhile. */
  async #waitAfter(error: StoreError): Promise<void> {
    const { log } = this.#options.ctx;
    if (this.#record.problem === null)
      log.error('operations: operation waits', error, { operation: this.#record.id });
    this.#record = { ...this.#record, problem: error.message };
    await this.#sleep(upkeepLimits.operationAgainMs);
    // A failure of the registry repeats in the next turn.
    await this.#write(this.#kept()).catch(() => undefined);
  }

  #worked(): void {
    if (this.#record.problem === null) return;
    this.#options.ctx.log.notice('operations: operation goes on', { operation: this.#record.id });
    this.#record = { ...this.#record, problem: null };
  }

  /** New keys are stored at once, results each second. */
  async #checkpoint(): Promise<void> {
    const isDue = monotonicNow() - this.#storedAt >= upkeepLimits.operationCheckpointMs;
    if (!this.#isNew && !isDue) return;
    await this.#write(this.#kept());
  }

  #kept() {
    return {
      leaseUntil: this.#options.ctx.clock.now() + upkeepLimits.operationLeaseMs,
      isClosed: false,
    };
  }

  async #write(
    lease: Pick<OperationCheckpoint, 'leaseUntil' | 'isClosed'>,
    record = this.#record,
    work = this.#work,
  ): Promise<void> {
    const { registry, clock } = this.#options.ctx;
    const stored = { record: { ...record, updatedAt: clock.now() }, work, ...lease };
    const outcome = await registry.checkpointOperation(this.#token, stored);
    if (outcome === 'lost') {
      this.#isLost = true;
      throw new Error('another process has the operation');
    }
    this.#isNew = false;
    this.#storedAt = monotonicNow();
    if (outcome === 'stopped') this.#isStopped = true;
  }

  async #sleep(ms: number): Promise<void> {
    await sleep(ms, { signal: this.#drained.signal }).catch(() => undefined);
  }
}

const endsJobs = ({ kind }: OperationRecord): boolean =>
  kind === 'clear' || kind === 'cancel' || kind === 'purge';

function started(record: OperationRecord): Started {
  if (record.startedAt === null) throw new Error('an operation without a start');
  return { ...record, startedAt: record.startedAt };
}

/** How many jobs of an operation may be moved now: a rate, a spread over a time, or no limit. A spread moves
 *  job n at n / matched of its time. It depends on counts and the storage clock only, so a restart changes
 *  nothing. After a pause it catches up at twice its pace at most. Rejected: moving all jobs at once with
 *  delays. A stop could not keep the rest. */
export class Pace {
  #allowance = 1;
  #at = monotonicNow();

  /** Jobs that may be moved now. `now`: storage clock. */
  allowed(record: OperationRecord, now: number): number {
    const { spreadMs, matched, movingAt } = record;
    const rate = highestRate(record);
    if (rate === null) return Number.POSITIVE_INFINITY;
    const from = this.#at;
    this.#at = monotonicNow();
    // At most one second's jobs at once, so that a pause is not made up for.
    this.#allowance = Math.min(Math.max(1, rate), this.#allowance + (rate * (this.#at - from)) / 1000);
    const allowed = Math.floor(this.#allowance);
    if (spreadMs === null || matched === null) return allowed;
    const part = (now - (movingAt ?? now)) / spreadMs;
    if (part >= 1) return allowed;
    return Math.max(0, Math.min(allowed, Math.floor(part * matched) + 1 - processedOf(record)));
  }

  used(jobs: number): void {
    this.#allowance -= jobs;
  }

  /** Wait before the next look: several jobs of a fast pace share a step. */
  waitMs({ rate, spreadMs, matched }: OperationRecord): number {
    const everyMs = spreadMs !== null ? spreadMs / Math.max(1, matched ?? 1) : 1000 / (rate ?? 1);
    return Math.min(upkeepLimits.operationCheckpointMs, Math.max(upkeepLimits.operationPaceMs, everyMs));
  }
}

/** jobs/s */
function highestRate({ rate, spreadMs, matched }: OperationRecord): number | null {
  if (spreadMs === null) return rate;
  return matched === null ? null : (2_000 * Math.max(1, matched)) / Math.max(1, spreadMs);
}
