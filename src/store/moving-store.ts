// The job store on Redis while the jobs.db of the instance still has jobs: a decorator of the port. While
// they are held, a call that would change one of them is rejected; while they move, it first puts what
// jobs.db has, then calls Redis. A reserved job changes in jobs.db, where its lease is, so leases of pull
// clients survive.
// Invariants: a call on an id reaches Redis only after jobs.db was read: either the id is absent there, and
// stays so, or what jobs.db has was put. An end there pushes its outcome job there, which moves like any
// other: no caller knows its id before. Only the mover forgets. A put of a process that stood still changes
// nothing (Arrivals.put), and jobs.db rejects a change of a job that is no longer reserved, so no process
// works by an old reading.

import { type EndedJob, isInWindow, type JobKey, type JobSnapshot, type Version } from '../core/job.ts';
import { leavingName } from '../core/left-behind.ts';
import type {
  Counts,
  FinishOutcome,
  JobStore,
  OnStored,
  Page,
  PushJob,
  PushOutcome,
  StateCounts,
  Store,
} from '../ports/job-store.ts';
import type { Arrivals, Found, LeavingJob, LeavingJobs, LeavingState } from '../ports/leaving.ts';
import { isFailure, leavingFailure, StoreError, type StoreFailure } from '../ports/store-error.ts';
import { monotonicNow, sleep, wallNow } from '../runtime/time.ts';
import { storeLimits } from './limits.ts';

/** The jobs.db of this instance. */
export interface Source {
  readonly store: Store;
  readonly leaving: LeavingJobs;
}

/** owing: without jobs; alerts about former ones are owed, or Redis has not closed the move */
type Phase = 'none' | 'owing' | 'held' | 'moving';

export const phaseOf = ({ jobs, owesAlerts, move, ended }: LeavingState): Phase => {
  if (move !== null) return 'moving';
  if (jobs > 0) return 'held';
  return owesAlerts || ended !== null ? 'owing' : 'none';
};

export class MovingStore {
  readonly #target: Store;
  readonly #source: Store;
  readonly store: Store;
  readonly calls: LeavingJobs;
  readonly jobs: JobStore;
  readonly arrivals: Arrivals;
  /** The last reading. Without jobs it stays so, because jobs.db takes no new ones. */
  #phase: Phase = 'held';
  /** Of a damaged file nothing can be read or moved: Redis does not wait for it. It may be repaired. */
  #isDamaged = false;
  /** when the last job ended in jobs.db; of no effect while it has jobs, whose ends follow */
  #lastEndAt: number | null = null;
  #lookedAt = Number.NEGATIVE_INFINITY;
  #looking: Promise<void> | null = null;

  constructor(target: Store, arrivals: Arrivals, source: Source) {
    this.#target = target;
    this.arrivals = arrivals;
    this.calls = source.leaving;
    this.jobs = source.store.jobs;
    this.#source = source.store;
    this.store = {
      ...target,
      jobs: this.#jobs(),
      dead: {
        ...target.dead,
        list: async (...args) => this.#named(await target.dead.list(...args)),
        requeue: (...args) => this.#whole(args[0].topic, () => target.dead.requeue(...args)),
        purge: (...args) => this.#whole(args[0].topic, () => target.dead.purge(...args)),
      },
      history: { ...target.history, get: (key) => this.#ended(key) },
      alerts: this.#alerts(),
      admin: {
        ...target.admin,
        counts: (...args) => this.#counts((admin) => admin.counts(...args)),
        countsOf: (topics) => this.#counts((admin) => admin.countsOf(topics)),
        purgeTopic: (...args) => this.#whole(args[0], () => target.admin.purgeTopic(...args)),
      },
      surveys: {
        ...target.surveys,
        scan: async (...args) => this.#named(await target.surveys.scan(...args)),
        horizon: async (...args) => this.#named(await target.surveys.horizon(...args)),
        deadGroups: async (...args) => this.#named(await target.surveys.deadGroups(...args)),
      },
    };
  }

  /** Whether jobs.db has jobs. While it does not answer, the last reading counts: work on Redis does not
   *  depend on dq-store. */
  async look(): Promise<Phase> {
    const isFinal = this.#phase === 'none' && !this.#isDamaged;
    if (isFinal || monotonicNow() - this.#lookedAt < storeLimits.movingLookMs) return this.#phase;
    this.#lookedAt = monotonicNow();
    this.#looking ??= this.#read();
    await this.#looking;
    return this.#phase;
  }

  async #read(): Promise<void> {
    try {
      const state = await this.calls.state();
      this.#phase = phaseOf(state);
      this.#lastEndAt = state.lastEndAt;
      this.#isDamaged = false;
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
      if (error.failure.code !== 'store_damaged') return;
      this.#phase = 'none';
      this.#isDamaged = true;
    } finally {
      this.#looking = null;
    }
  }

  get #hasJobs(): boolean {
    return this.#phase === 'held' || this.#phase === 'moving';
  }

  // Calls on ids

  #jobs(): JobStore {
    const { jobs } = this.#target;
    return {
      ...jobs,
      push: (items, onStored) => this.#push(items, onStored),
      get: (key, how, leased) =>
        leased === undefined ? this.#get(key, how) : this.#getLeased(key, how, leased),
      search: async (...args) => this.#named(await jobs.search(...args)),
      cancel: (keys, as) => this.#change(keys, (store, its) => store.cancel(its, as)),
      run: (keys) => this.#change(keys, (store, its) => store.run(its)),
      reschedule: (items) => this.#change(items, (store, its) => store.reschedule(its)),
      requeue: (keys) => this.#change(keys, (store, its) => store.requeue(its)),
      edit: (items) => this.#change(items, (store, its) => store.edit(its)),
      ack: (items) => this.#finish(items, (store, its) => store.ack(its)),
      retry: (items) => this.#finish(items, (store, its) => store.retry(its)),
      bury: (items) => this.#finish(items, (store, its) => store.bury(its)),
      release: (items) => this.#finish(items, (store, its) => store.release(its)),
      extend: (items) => this.#finish(items, (store, its) => store.extend(its)),
    };
  }

  /** No caller knows a generated id yet: it is in no jobs.db. */
  async #push(items: readonly PushJob[], onStored?: OnStored): Promise<readonly PushOutcome[]> {
    const isFinal = this.#phase === 'none' && !this.#isDamaged;
    if (isFinal || items.every(({ anotherId }) => anotherId !== undefined))
      return this.#pushToTarget(items, onStored);
    const told = new Set<number>();
    const tell = (place: number, outcome: PushOutcome) => {
      if (told.has(place)) return;
      told.add(place);
      onStored?.(place, outcome);
    };
    return this.#change(
      items,
      (store, its, places) => {
        const onEarly: OnStored = (at, outcome) => tell(places[at] as number, outcome);
        return store === this.jobs ? store.push(its, onEarly) : this.#pushToTarget(its, onEarly);
      },
      tell,
    );
  }

  /** Of ids without a job in jobs.db: one that ended there within the window of its push is not pushed. */
  async #pushToTarget(items: readonly PushJob[], onStored?: OnStored): Promise<readonly PushOutcome[]> {
    const { jobs } = this.#target;
    if (items.every(({ windowMs }) => windowMs === undefined)) return jobs.push(items, onStored);
    const ended = await Promise.all(items.map((item) => this.#lastEnd(item)));
    const open = [...items.keys()].filter((at) => ended[at] === null);
    const pushed = await jobs.push(
      open.map((at) => items[at] as PushJob),
      onStored && ((i, outcome) => onStored(open[i] as number, outcome)),
    );
    return ended.map((outcome, at) => outcome ?? (pushed[open.indexOf(at)] as PushOutcome));
  }

  /** The end in jobs.db, whose history does not move; null: there is none, or Redis knows the id. */
  async #lastEnd(job: PushJob): Promise<PushOutcome | null> {
    const { windowMs } = job;
    if (windowMs === undefined || this.#isDamaged) return null;
    // By the clock of jobs.db, which is that of this machine.
    const now = wallNow();
    const isOver = (this.#lastEndAt ?? Number.NEGATIVE_INFINITY) <= now - windowMs;
    if (this.#phase === 'none' && isOver) return null;
    try {
      const ended = await this.#source.history.get(job);
      if (ended === null || !isInWindow({ state: ended.state, at: ended.endedAt }, now, windowMs))
        return null;
      // In this order: a job can end between the two.
      const { jobs, history } = this.#target;
      if ((await jobs.get(job, 'bodiless')) !== null || (await history.get(job)) !== null) return null;
      const { version, dueAt, state, endedAt } = ended;
      return { kind: 'ended', version, dueAt, state, endedAt };
    } catch (error) {
      if (error instanceof StoreError) return notApplied(error.failure);
      throw error;
    }
  }

  async #get(key: JobKey, how?: 'bodiless'): Promise<JobSnapshot | null> {
    const source = this.jobs;
    const [outcome = unfinished] = await this.#change([key], async (store, [its = key]) => {
      const job = await store.get(its, how);
      return [
        store === source && job?.state !== 'reserved' ? leavingFailure : { kind: 'read' as const, job },
      ];
    });
    if (outcome.kind === 'read') return outcome.job;
    if (outcome === held) return source.get(key, how);
    throw new StoreError(outcome);
  }

  /** As #finish: jobs.db may have a job of the same id, which another instance does not know. */
  async #getLeased(key: JobKey, how: 'bodiless' | undefined, leased: Version): Promise<JobSnapshot | null> {
    const job = await this.#target.jobs.get(key, how);
    return job?.version === leased || !this.#hasJobs ? job : this.jobs.get(key, how);
  }

  /** Puts what jobs.db has of the ids, and tells where each call goes: to Redis, or to jobs.db for a reserved
   *  job. Rejects with StoreError. */
  async #arrive(keys: readonly JobKey[]): Promise<readonly ('target' | 'source' | StoreFailure)[]> {
    const goes: ('target' | 'source' | StoreFailure)[] = [];
    while (goes.length < keys.length) {
      const answer = await this.calls.find(
        keys
          .slice(goes.length, goes.length + storeLimits.movingFindMax)
          .map(({ topic, id }) => ({ topic, id })),
      );
      goes.push(...(await this.#placesOf(answer)));
      if (answer.move === null && answer.left === 0) await this.look();
    }
    return goes;
  }

  async #placesOf({ jobs: found, move }: Found): Promise<readonly ('target' | 'source' | StoreFailure)[]> {
    if (move === null) return found.map((job) => (job === null ? 'target' : held));
    const jobs = found.filter((job): job is LeavingJob => job !== null && job !== 'reserved');
    const arrived = jobs.length === 0 ? [] : await this.#put(move, jobs);
    let at = 0;
    return found.map((job) => {
      if (job === null) return 'target';
      if (job === 'reserved') return 'source';
      const outcome = arrived[at] ?? unfinished;
      at += 1;
      return outcome;
    });
  }

  /** Redis does not know the move at its begin, and after it has lost its last writes: the mover tells it. */
  async #put(move: number, jobs: readonly LeavingJob[]): Promise<readonly ('target' | StoreFailure)[]> {
    const outcomes = await this.arrivals.put(move, jobs);
    return outcomes.map((outcome) => {
      if (outcome.kind === 'here') return 'target';
      if (outcome.kind === 'closed') return unfinished;
      return notApplied(outcome);
    });
  }

  async #change<I extends JobKey, O extends { readonly kind: string }>(
    items: readonly I[],
    call: (
      store: JobStore,
      items: readonly I[],
      places: readonly number[],
    ) => Promise<readonly (O | StoreFailure)[]>,
    /** gets what has succeeded while others wait */
    onEarly: (place: number, outcome: O) => void = () => {},
  ): Promise<readonly (O | StoreFailure)[]> {
    if (this.#isDamaged) await this.look();
    if (!this.#hasJobs) return call(this.#target.jobs, items, [...items.keys()]);
    const outcomes = new Array<O | StoreFailure>(items.length);
    let open: readonly number[] = [...items.keys()];
    for (let attempt = 1; open.length > 0; attempt += 1) {
      const of = (places: readonly number[]) => places.map((place) => items[place] as I);
      const goes = await this.#arrive(of(open)).catch((error: unknown) => {
        if (!(error instanceof StoreError)) throw error;
        return open.map(() => notApplied(error.failure));
      });
      const groups = { target: [] as number[], source: [] as number[] };
      for (const [i, to] of goes.entries()) {
        const place = open[i] as number;
        if (to === 'target' || to === 'source') groups[to].push(place);
        else outcomes[place] = to;
      }
      for (const to of ['source', 'target'] as const) {
        const places = groups[to];
        if (places.length === 0) continue;
        const jobs = to === 'target' ? this.#target.jobs : this.jobs;
        const answers = await call(jobs, of(places), places);
        for (const [i, place] of places.entries()) outcomes[place] = answers[i] as O | StoreFailure;
      }
      open = open.filter((place) => mayChange(outcomes[place]));
      if (attempt === storeLimits.movingTriesMax) break;
      if (!open.some((place) => outcomes[place] === unfinished)) continue;
      for (const [place, outcome] of outcomes.entries())
        if (outcome !== undefined && !isFailure(outcome)) onEarly(place, outcome);
      await sleep(storeLimits.movingAgainMs);
    }
    for (const place of open) outcomes[place] = unfinished;
    return outcomes;
  }

  /** A lease that Redis does not know may be one that jobs.db gave before. */
  async #finish<I, O extends FinishOutcome<string> | { readonly kind: string }>(
    items: readonly I[],
    call: (store: JobStore, items: readonly I[]) => Promise<readonly O[]>,
  ): Promise<readonly O[]> {
    const outcomes = [...(await call(this.#target.jobs, items))];
    if (!this.#hasJobs) return outcomes;
    const lost = [...outcomes.keys()].filter((at) => outcomes[at]?.kind === 'lease_lost');
    if (lost.length === 0) return outcomes;
    const answers = await call(
      this.jobs,
      lost.map((at) => items[at] as I),
    );
    for (const [i, at] of lost.entries()) outcomes[at] = answers[i] as O;
    return outcomes;
  }

  // Calls on all jobs

  async #ended(key: JobKey): Promise<EndedJob | null> {
    const ended = await this.#target.history.get(key);
    return ended === null && this.#phase !== 'none' ? this.#source.history.get(key) : ended;
  }

  async #named<P extends Pick<Page<unknown>, 'missing'>>(page: P): Promise<P> {
    await this.look();
    return this.#hasJobs ? named(page) : page;
  }

  /** Bulk work would miss the jobs that are on their way, or held in jobs.db. `topic`: undefined: all */
  async #whole<R>(topic: string | undefined, work: () => Promise<R>): Promise<R> {
    const phase = await this.look();
    if (phase === 'moving') throw new StoreError(unfinished);
    if (phase === 'held') {
      const { topics } = await this.#source.admin.counts();
      if (topic === undefined || Object.hasOwn(topics, topic)) throw new StoreError(heldOnes);
    }
    return work();
  }

  async #counts(countsIn: (admin: Store['admin']) => Promise<Counts>): Promise<Counts> {
    const here = await countsIn(this.#target.admin);
    const phase = await this.look();
    if (!this.#hasJobs) return here;
    const left = await countsIn(this.#source.admin).catch(noAnswer);
    if (left === null) return named(here);
    const topics = new Map<string, StateCounts>(Object.entries(here.topics));
    for (const [topic, its] of Object.entries(left.topics)) {
      const { delayed, ready, reserved, dead } = topics.get(topic) ?? none;
      topics.set(topic, {
        delayed: delayed + its.delayed,
        ready: ready + its.ready,
        reserved: reserved + its.reserved,
        dead: dead + its.dead,
      });
    }
    // A held job is late for another reason than a receiver or a timer: health names it.
    const isLeftOlder = phase === 'moving' && (left.oldestOverdueMs ?? -1) > (here.oldestOverdueMs ?? -1);
    const { oldestOverdueMs, oldest } = isLeftOlder ? left : here;
    // fromEntries, because assignment would fail for a topic named `__proto__`.
    return { ...here, topics: Object.fromEntries(topics), oldestOverdueMs, oldest };
  }

  async #mails(): Promise<boolean> {
    const phase = await this.look();
    return phase === 'moving' || phase === 'owing';
  }

  /** Alerts do not move: they are mailed from the outbox that has them. */
  #alerts(): Store['alerts'] {
    const { alerts } = this.#target;
    const { alerts: left } = this.#source;
    return {
      ...alerts,
      due: async (windowMs) => {
        const topics = await alerts.due(windowMs);
        const more = (await this.#mails()) ? await left.due(windowMs).catch(noAnswer) : null;
        return more === null ? topics : [...new Set([...more, ...topics])];
      },
      claim: async (topic, claimMs, max) => {
        const claimed = (await this.#mails()) ? left.claim(topic, claimMs, max).catch(noAnswer) : null;
        const entries = (await claimed) ?? [];
        if (entries.length >= max) return entries;
        return [...entries, ...(await alerts.claim(topic, claimMs, max - entries.length))];
      },
      settle: async (versions, as) => {
        // First those of Redis: while dq-store is unavailable they would be mailed twice.
        await alerts.settle(versions, as);
        if (await this.#mails()) await left.settle(versions, as);
      },
      stateOf: async (job) => {
        const state = (await this.#mails()) ? await left.stateOf(job).catch(noAnswer) : null;
        return state ?? alerts.stateOf(job);
      },
      list: async (...args) => this.#named(await alerts.list(...args)),
    };
  }
}

const named = <P extends Pick<Page<unknown>, 'missing'>>(page: P): P => ({
  ...page,
  missing: [...(page.missing ?? []), leavingName],
});

/** Of a part that an answer does without. */
const noAnswer = (error: unknown): null => {
  if (!(error instanceof StoreError)) throw error;
  return null;
};

const none: StateCounts = { delayed: 0, ready: 0, reserved: 0, dead: 0 };

/** Of a change that was not begun, whatever became of the calls before it. */
const notApplied = (failure: StoreFailure): StoreFailure => ({ ...failure, kind: 'not_stored' });

const held: StoreFailure = {
  kind: 'not_stored',
  code: 'held',
  why: 'jobs.db holds a job of this id, and Redis is in force; run dq move',
};

const heldOnes: StoreFailure = {
  kind: 'not_stored',
  code: 'held',
  why: 'jobs.db holds jobs that the call would pass by, and Redis is in force; run dq move',
};

/** The jobs are on their way. */
const unfinished: StoreFailure = {
  kind: 'not_stored',
  code: 'moving',
  why: 'the jobs of jobs.db move to Redis; dq move shows how far they are',
};

/** Whether a further attempt may change it: the job was reserved when it was read, or Redis did not know the
 *  move. */
const mayChange = (outcome: object | undefined): boolean =>
  outcome === unfinished ||
  (outcome !== undefined && isFailure(outcome) && outcome.code === leavingFailure.code);
