// Checks whether the journal and the store agree: invariants J1 to J5 of dq fsck. Changes nothing.
// Invariants: it holds a page of keys in memory, without bodies, and rests after each as long as it took. Job
// and row are read at different moments, so a difference counts only if it is still there when the journal
// has all that was written before. Changes of an instance that gives no sign may be in its spool alone: then
// the differences that they would explain name it.

import { messageOf } from '../../core/errors.ts';
import type { FoundJob, JobKey, Version } from '../../core/job.ts';
import { isEnded, isRestorable, type JobRow } from '../../core/job-change.ts';
import { inBatches } from '../../core/lists.ts';
import type { Healing } from '../../ports/healing.ts';
import type { LongWork, Problem, Store } from '../../ports/job-store.ts';
import type { JournalDb, JournalInstance } from '../../ports/journal.ts';
import type { SpooledStreams } from '../../ports/spool.ts';
import { monotonicNow, sleep, wallNow } from '../../runtime/time.ts';
import { journalLimits } from '../limits.ts';
import { shippedByAll } from './barrier.ts';

interface JournalFsckOptions {
  readonly store: Pick<Store, 'jobs' | 'history' | 'surveys'>;
  readonly healing: Pick<Healing, 'marks'>;
  readonly journal: JournalDb;
  readonly spool: Pick<SpooledStreams, 'unreadable'>;
}

const invariants = {
  J1: 'live jobs without an open row of their version in the journal',
  J2: 'open rows of the journal without a job',
  J3: 'live jobs that have ended by the journal',
  J4: 'segments of the spool that cannot be read to their end',
  J5: 'numbers in Redis below those that MySQL has of it',
} as const;
type Name = keyof typeof invariants;

/** Runs one examination at a time, and keeps its result. */
export class JournalFsck {
  readonly #options: JournalFsckOptions;
  #state: LongWork<readonly Problem[]> = { kind: 'none' };

  constructor(options: JournalFsckOptions) {
    this.#options = options;
  }

  get state(): LongWork<readonly Problem[]> {
    return this.#state;
  }

  /** Does nothing while one runs. */
  start(): void {
    if (this.#state.kind === 'running') return;
    const startedAt = wallNow();
    this.#state = { kind: 'running', startedAt };
    examineJournal(this.#options).then(
      (result) => {
        this.#state = { kind: 'done', startedAt, endedAt: wallNow(), result };
      },
      (error: unknown) => {
        this.#state = { kind: 'failed', startedAt, endedAt: wallNow(), reason: messageOf(error) };
      },
    );
  }
}

/** Rejects with StoreError or the system's error, also while a shard or an instance does not answer. */
export async function examineJournal(options: JournalFsckOptions): Promise<readonly Problem[]> {
  const found = new Findings();
  const barrier = new Barrier(options.journal);
  for (const name of await options.spool.unreadable()) found.add('J4', name);
  await examineMarks(options, found);
  await examineJobs(options, barrier, found);
  for (const state of ['waiting', 'dead'] as const) await examineRows(options, state, barrier, found);
  const awaits = barrier.silent.map(({ instance, host }) => `instance ${instance.toString(16)} on ${host}`);
  if (awaits.length === 0) return found.problems;
  return found.problems.map((one) =>
    one.invariant === 'J1' || one.invariant === 'J2' ? { ...one, awaits } : one,
  );
}

class Findings {
  readonly #found = new Map<Name, { count: number; readonly examples: string[] }>();

  add(name: Name, example: string): void {
    const known = this.#found.get(name) ?? { count: 0, examples: [] };
    this.#found.set(name, known);
    known.count += 1;
    if (known.examples.length < journalLimits.fsckExamples) known.examples.push(example);
  }

  get problems(): readonly Problem[] {
    return [...this.#found]
      .map(([invariant, one]) => ({ invariant, what: invariants[invariant], ...one }))
      .sort((a, b) => (a.invariant < b.invariant ? -1 : 1));
  }
}

/** Waits until the living instances have shipped what their spools held. */
class Barrier {
  readonly #journal: Pick<JournalDb, 'raiseBarrier' | 'instances'>;
  /** changes with lower numbers are in the journal */
  #covers: Version = 0;
  /** those without a sign that have not shipped everything, at the last wait */
  silent: readonly JournalInstance[] = [];

  constructor(journal: Pick<JournalDb, 'raiseBarrier' | 'instances'>) {
    this.#journal = journal;
  }

  /** Returns at once if the changes that made these versions have passed one. */
  async pass(versions: readonly Version[]): Promise<void> {
    if (versions.every((version) => version < this.#covers)) return;
    // A process may be between the store and the spool.
    await sleep(journalLimits.fsckSpareMs);
    const began = wallNow();
    const { barrier, behind } = await shippedByAll(this.#journal, {
      seenMs: journalLimits.restoreSeenMs,
      maxMs: journalLimits.restoreBarrierMs,
    });
    if (behind.length > 0)
      throw new Error(`the journal of ${behind.map(({ host }) => host).join(', ')} does not get into MySQL`);
    this.silent = (await this.#journal.instances()).filter((each) => each.barrier < barrier);
    this.#covers = (began - journalLimits.fsckClockMs) * 1_000;
  }
}

/** J5 */
async function examineMarks({ store, healing, journal }: JournalFsckOptions, found: Findings): Promise<void> {
  // dq raises the mark in Redis first.
  const known = await journal.marks();
  for (const partition of store.jobs.partitions()) {
    const { place, marks } = await healing.marks(partition);
    for (const { instance, number } of known.filter((one) => one.place === place))
      if ((marks.get(instance) ?? 0) < number)
        found.add('J5', `${place} of instance ${instance.toString(16)}`);
  }
}

/** J1 and J3 */
async function examineJobs(options: JournalFsckOptions, barrier: Barrier, found: Findings): Promise<void> {
  const { store, journal } = options;
  let cursor: string | null = null;
  do {
    const page = await store.surveys.scan(
      { idPrefix: '' },
      journalLimits.fsckPage,
      cursor,
      journalLimits.fsckScanMs,
    );
    if (page.missing !== undefined) throw new Error(`no answer of ${page.missing.join(', ')}`);
    cursor = page.nextCursor;
    const suspects = (await compared(journal, page.items)).filter(({ wrong }) => wrong !== null);
    if (suspects.length === 0) continue;
    await barrier.pass(suspects.map(({ job }) => job.version));
    // The row first: what it says to have ended had ended before the job is read.
    for (const { job, wrong } of await compared(
      journal,
      suspects.map((one) => one.job),
    )) {
      const now = wrong === null ? null : await store.jobs.get(job);
      if (wrong !== null && now?.version === job.version) found.add(wrong, nameOf(job));
    }
  } while (cursor !== null);
}

async function compared(journal: Pick<JournalDb, 'rows'>, jobs: readonly FoundJob[]) {
  const rows = new Map((await journal.rows(jobs, false)).map((row) => [nameOf(row), row]));
  return jobs.map((job) => ({ job, wrong: wrongOf(job, rows.get(nameOf(job))) }));
}

function wrongOf({ version }: FoundJob, row: JobRow | undefined): 'J1' | 'J3' | null {
  if (row === undefined) return 'J1';
  if (isEnded(row)) return row.version >= version ? 'J3' : 'J1';
  return row.version === version && isRestorable(row) ? null : 'J1';
}

/** J2 */
async function examineRows(
  { store, journal }: JournalFsckOptions,
  state: 'waiting' | 'dead',
  barrier: Barrier,
  found: Findings,
): Promise<void> {
  const newest = (wallNow() - journalLimits.fsckRowAgeMs) * 1_000;
  const lacks = async ({ version, ...key }: JobKey & { readonly version: Version }) => {
    const [job, ended] = await Promise.all([store.jobs.get(key), store.history.get(key)]);
    // An end whose record was lost with its process: dq writes it again.
    return job === null ? ended === null || ended.version < version : job.version < version;
  };
  let cursor: string | null = null;
  do {
    const began = monotonicNow();
    const page = await journal.openKeys(state, {}, cursor);
    cursor = page.nextCursor;
    const suspects: (JobKey & { readonly version: Version })[] = [];
    const old = page.keys.filter(({ version }) => version < newest);
    for (const some of inBatches(old, journalLimits.fsckReads)) {
      const answers = await Promise.all(some.map(lacks));
      suspects.push(...some.filter((_, n) => answers[n]));
    }
    if (suspects.length > 0) {
      // Their ends may have been written just now.
      await barrier.pass([Number.POSITIVE_INFINITY]);
      const rows = new Map((await journal.rows(suspects, false)).map((row) => [nameOf(row), row]));
      for (const suspect of suspects) {
        const row = rows.get(nameOf(suspect));
        const isOpen = row !== undefined && row.version === suspect.version && isRestorable(row);
        if (isOpen && (await lacks(suspect))) found.add('J2', nameOf(suspect));
      }
    }
    await sleep(monotonicNow() - began);
  } while (cursor !== null);
}

const nameOf = ({ topic, id }: JobKey): string => `${topic}/${id}`;
