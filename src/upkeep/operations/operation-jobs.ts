// Finds the jobs of an operation, moves them and examines jobs whose move has an unknown result. Keeps no
// state. Invariant: moving the same keys twice moves each job once: dead letters that died after the request
// do not match, and the store compares the listed version of a live job in the step that moves it. So a job
// that was pushed or moved after it was listed stays as it is, however late a step runs.

import type { FoundJob, JobKey, Version } from '../../core/job.ts';
import { type Change, isRestorable, type JobRow } from '../../core/job-change.ts';
import { limits } from '../../core/limits.ts';
import { grouped, inBatches } from '../../core/lists.ts';
import type { OperationFailure, OperationRecord, OperationWork, StepKey } from '../../core/operation.ts';
import { hasMarks } from '../../core/survey.ts';
import { reaches, reachesEveryTopic } from '../../core/token.ts';
import { changeOf } from '../../journal/heal/put-outcomes.ts';
import { journalLimits } from '../../journal/limits.ts';
import type { DeadFilter, DeadLetter, Page, SearchFilter, Store } from '../../ports/job-store.ts';
import { StoreError, type StoreFailure, shardsAway } from '../../ports/store-error.ts';
import type { Counters, JournalParts } from '../../process/role.ts';
import { random } from '../../runtime/time.ts';
import { upkeepLimits } from '../limits.ts';

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

function isAboutDead({ kind }: OperationRecord): boolean {
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

/** Of a list: which rows, and where among them. */
interface Cursor {
  readonly state: 'waiting' | 'dead';
  readonly page: string | null;
}

/** `versions`: the version of each job in the store; null: it has none. */
type Versions = (keys: readonly JobKey[]) => Promise<readonly ({ readonly version: number } | null)[]>;

/** Restores: finds open rows of the journal and puts their jobs back where the store lacks them. Invariant:
 *  putting a row back again changes nothing, so a step can be repeated. A bucket that heals takes none of its
 *  rows: the step waits for its end. */
class RestoreRows {
  readonly #healing: NonNullable<Store['healing']>;
  readonly #journal: JournalParts;
  readonly #versions: Versions;

  constructor(healing: NonNullable<Store['healing']>, journal: JournalParts, versions: Versions) {
    this.#healing = healing;
    this.#journal = journal;
    this.#versions = versions;
  }

  /** Rows that wait, earliest due first, then dead ones. */
  async list(record: Started, cursor: string | null): Promise<Listed> {
    const { state, page }: Cursor = cursor === null ? { state: 'waiting', page: null } : JSON.parse(cursor);
    const { keys, nextCursor } = await this.#journal.db.openKeys(state, storedFilter(record), page);
    const isListed = state === 'dead' && nextCursor === null;
    const next: Cursor = nextCursor === null ? { state: 'dead', page: null } : { state, page: nextCursor };
    const step = await this.#step(record, keys);
    return { ids: null, cursor: isListed ? null : JSON.stringify(next), isListed, step };
  }

  async find(record: Started, keys: readonly JobKey[]): Promise<readonly StepKey[]> {
    return this.#step(record, (await this.#journal.db.rows(keys)).filter(isRestorable));
  }

  async #step(
    record: Started,
    rows: readonly (JobKey & { readonly version: number })[],
  ): Promise<readonly StepKey[]> {
    const keys = rows
      .filter((row) => isCovered(record, row))
      .map(({ topic, id, version }): StepKey => [topic, id, version]);
    // A count names the jobs that the store lacks.
    return record.dryRun ? this.unmoved(keys) : keys;
  }

  /** A part at a time: the rows hold bodies. */
  async move(record: Started, keys: readonly StepKey[]): Promise<Moved> {
    const moved = { done: 0, skipped: 0, unsure: [] as StepKey[] };
    for (let at = 0; at < keys.length; at += journalLimits.restoreRows) {
      const part = keys.slice(at, at + journalLimits.restoreRows);
      try {
        await this.#moveSome(record, part, moved);
      } catch (error) {
        if (!(error instanceof StoreError)) throw error;
        moved.unsure.push(...keys.slice(at));
        break;
      }
    }
    return { ...moved, failures: [] };
  }

  async #moveSome(
    record: Started,
    keys: readonly StepKey[],
    moved: { done: number; skipped: number; unsure: StepKey[] },
  ): Promise<void> {
    const { db, record: write } = this.#journal;
    const found = await db.rows(keys.map(([topic, id]) => ({ topic, id })));
    const rows = found.filter(
      (row) => isRestorable(row) && (row.state === 'waiting' || row.state === 'dead'),
    );
    const isOverdue = (row: JobRow) => row.state === 'waiting' && row.dueAt < record.startedAt;
    const skipped = record.overdue === 'skip' ? await this.#purge(rows.filter(isOverdue)) : 0;
    const wanted = record.overdue === 'skip' ? rows.filter((row) => !isOverdue(row)) : rows;
    const put =
      record.overdue === 'spread'
        ? wanted.map((row) => (isOverdue(row) ? spread(row, record) : row))
        : wanted;
    const outcomes = await this.#healing.put(put);
    await write(outcomes.flatMap((outcome, i) => changeOf(put[i] as JobRow, outcome)));
    const open = new Set<string>();
    for (const [i, { kind }] of outcomes.entries()) {
      const { topic, id } = put[i] as JobRow;
      if (kind === 'put') moved.done += 1;
      if (kind === 'other_note' || kind === 'not_stored' || kind === 'unknown') open.add(`${topic}\0${id}`);
    }
    const unsure = keys.filter(([topic, id]) => open.has(`${topic}\0${id}`));
    moved.unsure.push(...unsure);
    const done = outcomes.filter(({ kind }) => kind === 'put').length + skipped;
    moved.done += skipped;
    moved.skipped += keys.length - done - unsure.length;
  }

  /** Ends overdue rows whose jobs the store lacks, so that nothing restores them later. Returns their
   *  number. */
  async #purge(rows: readonly JobRow[]): Promise<number> {
    const versions = await this.#versions(rows);
    const gone = rows.filter((_, i) => versions[i] === null);
    await this.#journal.record(
      gone.map((row): Change => {
        const { topic, id, version, origin, place, dueAt, failures, number } = row;
        const its = { topic, id, version, origin, place, dueAt, failures, number };
        return { ...its, kind: 'ended', end: 'purged', isOwn: false, attempt: null };
      }),
    );
    return gone.length;
  }

  /** The keys whose jobs the store does not have in their version or a later one. */
  async unmoved(keys: readonly StepKey[]): Promise<readonly StepKey[]> {
    const found = await this.#versions(keys.map(([topic, id]) => ({ topic, id })));
    return keys.filter(([, , version], n) => (found[n]?.version ?? 0) < version);
  }
}

function spread(row: JobRow, { startedAt }: Started): JobRow {
  return { ...row, dueAt: Math.ceil(startedAt + random() * limits.restoreSpreadMs) };
}

interface Moved {
  readonly done: number;
  readonly skipped: number;
  readonly failures: readonly OperationFailure[];
  /** whether they moved is unknown, or the store did not do it */
  readonly unsure: readonly StepKey[];
}

/** The record of an operation whose start has a time. */
export type Started = OperationRecord & { readonly startedAt: number };
type Listed = Pick<OperationWork, 'ids' | 'cursor' | 'isListed' | 'step'>;

/** The filter that stores apply themselves. */
function storedFilter({ filter: { topic, since, until } }: OperationRecord) {
  return {
    ...(topic === undefined ? {} : { topic }),
    ...(since === undefined ? {} : { since }),
    ...(until === undefined ? {} : { until }),
  };
}

/** The other part of the filter, and the topics of the caller. */
function isCovered({ topics, filter }: OperationRecord, { topic, id }: JobKey): boolean {
  const rights = { scopes: [], topics };
  const isTopic = reachesEveryTopic(rights) || reaches(rights, topic);
  return isTopic && (filter.idPrefix === undefined || id.startsWith(filter.idPrefix));
}
