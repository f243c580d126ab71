// Finds the jobs of an operation, moves them and examines jobs whose move has an unknown result. Keeps no
// state. Invariant: moving the same keys twice moves each job once: dead letters that died after the request
// do not match, and the store compares the listed version of a live job in the step that moves it. So a job
// that was pushed or moved after it was listed stays as it is, however late a step runs.

import { hasMarks } from '../../core/survey.ts';
import type { FoundJob, JobKey, Version } from '../../core/job.ts';
import { limits } from '../../core/limits.ts';
import { grouped, inBatches } from '../../core/lists.ts';
import type { OperationFailure, OperationRecord, OperationWork, StepKey } from '../../core/operation.ts';
import type { DeadFilter, DeadLetter, Page, SearchFilter, Store } from '../../ports/job-store.ts';
import { StoreError, type StoreFailure, shardsAway } from '../../ports/store-error.ts';
import type { Counters, JournalParts } from '../../process/role.ts';
import { upkeepLimits } from '../limits.ts';
import { isCovered, type Listed, type Moved, type Started, storedFilter } from './operation-step.ts';
import { RestoreRows } from './restore-rows.ts';

export class OperationJobs {
  readonly #store: Store;
  readonly #counters: Counters;
  /** null: without a journal */
  readonly #rows: RestoreRows | null;

  constructor(store: Store, counters: Counters, journal?: JournalParts) {
    this.#store = store;
    this.#counters = counters;
    const { healing } = store;
    this.#rows =
      journal === undefined || healing === undefined
        ? null
        : new RestoreRows(healing, journal, (keys) => this.#versions(keys));
  }

  #journaled(): RestoreRows {
    if (this.#rows === null) throw new Error('a restore needs a journal: see journal.mode');
    return this.#rows;
  }

  /** The next page of matching jobs; dead letters newest first, so that a job that dies again lies behind.
   *  Reads at most operationPage jobs. Rejects with StoreError while a part of the store does not answer:
   *  the operation is about all jobs. */
  async list(record: Started, work: OperationWork): Promise<Listed> {
    const { ids, cursor } = work;
    if (ids !== null) {
      const [page, rest] = [ids.slice(0, upkeepLimits.operationPage), ids.slice(upkeepLimits.operationPage)];
      const keys = page.map((id) => ({ topic: record.filter.topic ?? '', id }));
      const step = await this.#find(record, keys, work);
      return { ids: rest, cursor: null, isListed: rest.length === 0, step };
    }
    if (record.kind === 'restore') return this.#journaled().list(record, cursor);
    const page = isAboutDead(record) ? await this.#dead(record, cursor) : await this.#live(record, cursor);
    return { ids, cursor: page.nextCursor, isListed: page.nextCursor === null, step: page.items.map(keyOf) };
  }

  /** Rejects with StoreError: no or some keys moved. */
  async move(record: Started, keys: readonly StepKey[]): Promise<Moved> {
    const jobs = keys.map(([topic, id, version]) => ({ topic, id, version }));
    const { at } = record;
    switch (record.kind) {
      case 'requeue':
      case 'purge':
        return this.#moveDead(record, keys);
      case 'run':
        return judge(keys, await this.#store.jobs.run(jobs), 'run');
      case 'restore':
        return this.#journaled().move(record, keys);
      case 'clear':
      case 'cancel': {
        const outcomes = await this.#store.jobs.cancel(jobs);
        outcomes.forEach(({ kind }, n) => {
          if (kind === 'cancelled') this.#counters.add(jobs[n]?.topic ?? '', 'cancelled');
        });
        return judge(keys, outcomes, 'cancelled');
      }
      case 'reschedule': {
        const items = jobs.map((job) => ({ ...job, when: { at: at ?? record.startedAt } }));
        return judge(keys, await this.#store.jobs.reschedule(items), 'rescheduled');
      }
    }
  }

  /** The keys whose jobs still have their version: those that were not moved. Each move makes a new version
   *  or removes the job. */
  async unmoved({ kind }: OperationRecord, keys: readonly StepKey[]): Promise<readonly StepKey[]> {
    if (kind === 'restore') return this.#journaled().unmoved(keys);
    const found = await this.#versions(keys.map(([topic, id]) => ({ topic, id })));
    return keys.filter((key, n) => found[n]?.version === key[2]);
  }

  /** Dead letters by filter, so that the store compares the moment of death: a late call of a process that
   *  lost its lease moves nothing twice. */
  async #moveDead(record: Started, keys: readonly StepKey[]): Promise<Moved> {
    let done = 0;
    for (const [topic, its] of grouped(keys, ([name]) => name)) {
      const filter = { topic, ids: its.map(([, id]) => id), before: record.moment };
      for (let more = true; more; ) {
        const step =
          record.kind === 'requeue'
            ? await this.#store.dead.requeue(filter, limits.bulkMax)
            : await this.#store.dead.purge(filter, limits.bulkMax);
        done += 'requeued' in step ? step.requeued : step.purged;
        more = step.more;
      }
    }
    return { done, skipped: keys.length - done, failures: [], unsure: [] };
  }

  async #dead(record: Started, cursor: string | null): Promise<Page<DeadLetter>> {
    const page = await this.#store.dead.list(deadFilter(record), upkeepLimits.operationPage, cursor);
    return { ...complete(page), items: page.items.filter((job) => matchesDead(record, job)) };
  }

  async #live(record: Started, cursor: string | null): Promise<Page<FoundJob>> {
    const page = await this.#store.jobs.search(liveFilter(record), upkeepLimits.operationPage, cursor);
    return { ...complete(page), items: page.items.filter((job) => isCovered(record, job)) };
  }

  async #find(
    record: Started,
    keys: readonly JobKey[],
    { versions = {} }: OperationWork,
  ): Promise<readonly StepKey[]> {
    if (record.kind === 'restore') return this.#journaled().find(record, keys);
    const found = isAboutDead(record)
      ? await this.#deadOf(record, keys)
      : (await inParts(keys, (key) => this.#liveOf(record, key))).flat();
    return found
      .filter(({ id, version }) => !Object.hasOwn(versions, id) || versions[id] === version)
      .map(keyOf);
  }

  async #deadOf(record: Started, keys: readonly JobKey[]): Promise<readonly DeadLetter[]> {
    const found: DeadLetter[] = [];
    const filter = { ...deadFilter(record), ids: keys.map(({ id }) => id) };
    let cursor: string | null = null;
    do {
      const page: Page<DeadLetter> = complete(
        await this.#store.dead.list(filter, upkeepLimits.operationPage, cursor),
      );
      found.push(...page.items.filter((job) => matchesDead(record, job)));
      cursor = page.nextCursor;
    } while (cursor !== null);
    return found;
  }

  async #liveOf(record: Started, { id }: JobKey): Promise<readonly FoundJob[]> {
    const filter = { ...liveFilter(record), id };
    const page = complete(await this.#store.jobs.search(filter, upkeepLimits.operationPage, null));
    return page.items.filter((job) => isCovered(record, job));
  }

  #versions(keys: readonly JobKey[]): Promise<readonly ({ readonly version: Version } | null)[]> {
    return inParts(keys, async (key) => {
      const job = await this.#store.jobs.get(key);
      // Each answer holds the body of its job.
      return job === null ? null : { version: job.version };
    });
  }
}

/** Asks about some keys at a time. */
async function inParts<T>(keys: readonly JobKey[], ask: (key: JobKey) => Promise<T>): Promise<readonly T[]> {
  const found: T[] = [];
  for (const some of inBatches(keys, upkeepLimits.operationReads))
    found.push(...(await Promise.all(some.map(ask))));
  return found;
}

function deadFilter(record: OperationRecord): DeadFilter {
  return { ...storedFilter(record), before: record.moment };
}

function liveFilter(record: OperationRecord): SearchFilter {
  const state = stateOf(record);
  return { ...deadFilter(record), ...(state === undefined ? {} : { state }) };
}

/** The state of the jobs that match; undefined: every live state. */
export function stateOf({ kind, filter }: Pick<OperationRecord, 'kind' | 'filter'>) {
  if (kind === 'requeue' || kind === 'purge') return 'dead';
  return filter.state ?? (kind === 'cancel' || kind === 'clear' ? undefined : 'delayed');
}

export function isAboutDead({ kind }: OperationRecord): boolean {
  return kind === 'requeue' || kind === 'purge';
}

function matchesDead(record: OperationRecord, job: DeadLetter): boolean {
  return isCovered(record, job) && hasMarks(record.filter, job);
}

function complete<T>(page: Page<T>): Page<T> {
  if (page.missing === undefined) return page;
  throw new StoreError(shardsAway(page.missing));
}

function keyOf({ topic, id, version }: DeadLetter | FoundJob): StepKey {
  return [topic, id, version];
}

type Outcome = { readonly kind: string } | StoreFailure;

/** `in_flight`: an attempt may be running, so the job cannot be rescheduled. */
function judge(keys: readonly StepKey[], outcomes: readonly Outcome[], done: string): Moved {
  let [moved, skipped] = [0, 0];
  const failures: OperationFailure[] = [];
  const unsure: StepKey[] = [];
  keys.forEach((key, n) => {
    const kind = outcomes[n]?.kind ?? 'unknown';
    const [topic, id] = key;
    if (kind === done) moved += 1;
    else if (kind === 'in_flight') failures.push({ topic, id, error: 'job_in_flight' });
    else if (kind === 'unknown' || kind === 'not_stored') unsure.push(key);
    else skipped += 1;
  });
  return { done: moved, skipped, failures, unsure };
}
