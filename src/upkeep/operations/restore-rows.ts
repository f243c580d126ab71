// The part of OperationJobs for restores: finds open rows of the journal and puts their jobs back where the
// store lacks them. Invariant: putting a row back again changes nothing, so a step can be repeated. A bucket
// that heals takes none of its rows: the step waits for its end.

import type { JobKey } from '../../core/job.ts';
import { type Change, isRestorable, type JobRow } from '../../core/job-change.ts';
import { limits } from '../../core/limits.ts';
import type { StepKey } from '../../core/operation.ts';
import { changeOf } from '../../journal/heal/put-outcomes.ts';
import { journalLimits } from '../../journal/limits.ts';
import type { Store } from '../../ports/job-store.ts';
import { StoreError } from '../../ports/store-error.ts';
import type { JournalParts } from '../../process/role.ts';
import { random } from '../../runtime/time.ts';
import { isCovered, type Listed, type Moved, type Started, storedFilter } from './operation-step.ts';

/** Of a list: which rows, and where among them. */
interface Cursor {
  readonly state: 'waiting' | 'dead';
  readonly page: string | null;
}

/** `versions`: the version of each job in the store; null: it has none. */
type Versions = (keys: readonly JobKey[]) => Promise<readonly ({ readonly version: number } | null)[]>;

export class RestoreRows {
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
