// Runs backup and fsck, which read the whole store. Each reads the frozen file (Engine.freeze) in a thread
// while the owner writes to the WAL. Invariants: one task at a time; the freeze ends with its task; a task is
// given up before the WAL grows too long to checkpoint; a finished backup directory is complete and on disk.
// Rejected: VACUUM INTO on the owner's connection stops the owner for the whole copy; SQLite's backup API in
// this library copies without pauses on the owner's connection, whose calls then wait for its steps.

import { chmod, mkdir, rename, rm, rmdir, stat } from 'node:fs/promises';
import { dirname, isAbsolute, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { messageOf } from '../../../core/errors.ts';
import type { Backup, Examination, LongWork, Problem } from '../../../ports/job-store.ts';
import { isDamage } from '../../../runtime/database.ts';
import { syncPath } from '../../../runtime/files.ts';
import { clearInterval, setInterval } from '../../../runtime/time.ts';
import type { Engine } from '../engine/engine.ts';
import {
  countJobs,
  examplesOf,
  type Invariant,
  invariants,
  wholeFile,
  wholeRegistry,
} from '../file/invariants.ts';
import { type Reading, readInThread } from '../file/reading-thread.ts';
import { walBytes } from '../file/store-file.ts';
import { sqliteLimits } from '../limits.ts';

interface MaintenanceOptions {
  /** jobs.db */
  readonly path: string;
  readonly registryPath: string | null;
  /** why the registry rejects every call, one sentence; null: it does not */
  readonly registryDamage: () => string | null;
  readonly frozenWalBytesMax: number;
  /** epoch ms */
  readonly clock: () => number;
}

/** Returns the rows of each reading. */
type Read = (readings: readonly Reading[]) => Promise<readonly unknown[][]>;

export class StoreMaintenance {
  readonly #options: MaintenanceOptions;
  readonly #engine: () => Engine;
  #running: { readonly ended: Promise<void>; readonly abort: AbortController } | null = null;
  #backup: LongWork<Backup> = { kind: 'none' };
  #fsck: LongWork<Examination> = { kind: 'none' };

  /** `engine`: the open store, between transactions. */
  constructor(options: MaintenanceOptions, engine: () => Engine) {
    this.#options = options;
    this.#engine = engine;
  }

  get backup(): LongWork<Backup> {
    return this.#backup;
  }

  get fsck(): LongWork<Examination> {
    return this.#fsck;
  }

  startBackup(directory: string): 'started' | 'busy' {
    return this.#start(
      (read) => this.#copy(directory, read),
      (state) => {
        this.#backup = state;
      },
    );
  }

  startFsck(): 'started' | 'busy' {
    return this.#start(
      (read) => this.#examine(read),
      (state) => {
        this.#fsck = state;
      },
    );
  }

  /** Aborts the running task, because the store closes. */
  async close(): Promise<void> {
    this.#running?.abort.abort(new Error('the store was closed: start it again'));
    await this.#running?.ended;
  }

  #start<R>(work: (read: Read) => Promise<R>, setState: (state: LongWork<R>) => void): 'started' | 'busy' {
    if (this.#running !== null) return 'busy';
    const startedAt = this.#options.clock();
    const abort = new AbortController();
    setState({ kind: 'running', startedAt });
    const ended = this.#runFrozen(abort, work).then(
      (result) => setState({ kind: 'done', startedAt, endedAt: this.#options.clock(), result }),
      (error: unknown) =>
        setState({ kind: 'failed', startedAt, endedAt: this.#options.clock(), reason: messageOf(error) }),
    );
    const over = ended.then(() => {
      this.#running = null;
    });
    this.#running = { abort, ended: over };
    return 'started';
  }

  async #runFrozen<R>(abort: AbortController, work: (read: Read) => Promise<R>): Promise<R> {
    const { path, frozenWalBytesMax } = this.#options;
    const engine = this.#engine();
    const release = engine.freeze();
    const check = () => {
      if (engine.isDiskFull) abort.abort(new Error('the disk is full: free space and try again'));
      if (walBytes(path) > frozenWalBytesMax)
        abort.abort(new Error('too many writes during the run: try again at a quieter time'));
    };
    check();
    const timer = setInterval(check, sqliteLimits.frozenWalCheckMs);
    try {
      return await work((readings) => readInThread(readings, abort.signal));
    } finally {
      clearInterval(timer);
      if (engine.db.isOpen) release();
    }
  }

  // Examination

  async #examine(read: Read): Promise<Examination> {
    const url = frozen(this.#options.path);
    const ask = (statements: readonly string[]) => read(statements.map((sql) => ({ url, sql })));
    const ofRegistry = await this.#registryDamages(read);
    // In a damaged file the other checks mean nothing.
    const damages = await damagesOf(wholeFile, ask);
    if (damages.length > 0) return { jobs: 0, problems: [...damages, ...ofRegistry] };
    const [counts, ...found] = await ask([countJobs, ...invariants.map(examplesOf)]);
    const problems = invariants.flatMap((invariant, n) => problemOf(invariant, found[n]));
    return {
      jobs: (counts as { count: number }[])[0]?.count ?? 0,
      problems: [...problems, ...ofRegistry],
    };
  }

  async #registryDamages(read: Read): Promise<Problem[]> {
    const { registryPath, registryDamage } = this.#options;
    if (registryPath === null) return [];
    const known = registryDamage();
    if (known !== null) return problemOf(wholeRegistry, [{ count: 1, example: known }]);
    const url = pathToFileURL(registryPath).href;
    return damagesOf(wholeRegistry, (statements) => read(statements.map((sql) => ({ url, sql }))));
  }

  // Backup

  /** What a jobs.db still has that dq leaves for Redis, in words, '' = nothing; null: it is in force */
  #left(): string | null {
    const { isLeaving, leaving } = this.#engine();
    if (!isLeaving) return null;
    const { jobs, owesAlerts } = leaving.state();
    const alerts = owesAlerts ? ['alerts that are owed'] : [];
    return [...(jobs > 0 ? [`${jobs} jobs`] : []), ...alerts].join(', ');
  }

  /** Copies under another name first: a directory with the final name holds a complete backup. */
  async #copy(directory: string, read: Read): Promise<Backup> {
    const { path, registryPath } = this.#options;
    if (!isAbsolute(directory)) throw new Error(`${directory} is not an absolute path`);
    const damage = this.#options.registryDamage();
    if (damage !== null) throw new Error(damage);
    if (await exists(directory)) throw new Error(`${directory} already exists; name a new directory`);
    const fresh = `${directory}.part`;
    const [jobsCopy, registryCopy] = [join(fresh, 'jobs.db'), join(fresh, 'registry.db')];
    const left = this.#left();
    const copies = left === '' ? [] : [{ url: frozen(path), to: jobsCopy }];
    if (registryPath !== null) copies.push({ url: pathToFileURL(registryPath).href, to: registryCopy });
    if (copies.length === 0) throw new Error(nothingCopied);
    await removeCopy(fresh, copies);
    await mkdir(fresh, { mode: 0o700 });
    try {
      await read(copies.map(({ url, to }) => ({ url, sql: `VACUUM INTO '${to.replaceAll("'", "''")}'` })));
      let bytes = 0;
      for (const { to } of copies) {
        await chmod(to, 0o600);
        await syncPath(to);
        bytes += (await stat(to)).size;
      }
      await syncPath(fresh);
      await rename(fresh, directory);
      await syncPath(dirname(directory));
      return {
        directory,
        bytes,
        ...(left !== null && { notCopied: left === '' ? notCopied : partlyCopied(left) }),
      };
    } catch (error) {
      await removeCopy(fresh, copies);
      throw error;
    }
  }
}

const howRedis = 'back up each Redis by its own means (BGSAVE, then copy its dump.rdb)';

const nothingCopied = `nothing was copied, because the jobs are in Redis and the registry is in MySQL: ${howRedis}, then MySQL (mysqldump --single-transaction), and secret.key: see dq help backup-restore`;

const notCopied = `the jobs are in Redis and not in this copy: ${howRedis} before the registry: see dq help backup-restore`;

/** A job leaves jobs.db after Redis has it, so a later copy of Redis has what this one lacks. */
const partlyCopied = (left: string): string =>
  `this copy has what is left in jobs.db (${left}), and no job of Redis: now ${howRedis}, and restore both together: see dq help backup-restore`;

/** Of a check that reads a whole file, which damage can end. */
async function damagesOf(
  invariant: Invariant,
  ask: (statements: readonly string[]) => Promise<readonly unknown[][]>,
): Promise<Problem[]> {
  try {
    const [rows] = await ask([examplesOf(invariant)]);
    return problemOf(invariant, rows);
  } catch (error) {
    if (!isDamage(error)) throw error;
    return problemOf(invariant, [{ count: 1, example: messageOf(error) }]);
  }
}

/** Empty without examples. */
function problemOf({ invariant, what }: Invariant, rows: readonly unknown[] = []): Problem[] {
  const [first] = rows as { count: number }[];
  if (first === undefined) return [];
  const examples = (rows as { example: string }[]).map(({ example }) => example);
  return [{ invariant, what, count: first.count, examples }];
}

/** The file without its WAL and without a lock: valid while it is frozen. */
function frozen(path: string): string {
  return `${pathToFileURL(path).href}?immutable=1`;
}

async function exists(path: string): Promise<boolean> {
  try {
    await stat(path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
    throw error;
  }
}

/** Removes only our own files: other files in the directory stay, and then the directory stays too. */
async function removeCopy(directory: string, copies: readonly { readonly to: string }[]): Promise<void> {
  if (!(await exists(directory))) return;
  for (const { to } of copies) for (const end of ['', '-journal']) await rm(to + end, { force: true });
  await rmdir(directory);
}
