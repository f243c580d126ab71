// Backup and examination: the two works that read the whole store. Each reads the file itself, held at one moment
// (Engine.hold), in a thread, while the owner goes on writing its log. Rejected: VACUUM INTO on the owner's connection stops
// it for the whole copy; SQLite's backup API of this library copies in a loop without a pause on the owner's own connection,
// whose every call then waits for a step of the copy.
// Invariants: one work at a time; the hold ends with it, however it ends; it is given up before the log grows too long to be
// merged; what is called a backup is whole and on the disk.

import { chmod, mkdir, open, rename, rm, rmdir, stat } from 'node:fs/promises';
import { dirname, isAbsolute, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { reasonOf } from '../../../core/errors.ts';
import type { Backup, Examination, LongWork, Problem } from '../../../ports/job-store.ts';
import { sqliteCode, sqliteCodes } from '../../../runtime/database.ts';
import type { Engine } from '../engine/engine.ts';
import { countJobs, examplesOf, type Invariant, invariants, wholeFile } from '../file/invariants.ts';
import { type Reading, readBeside } from '../file/reading-thread.ts';
import { logBytes } from '../file/store-file.ts';
import { sqliteLimits } from '../limits.ts';

export interface SideWorkOptions {
  /** jobs.db */
  readonly path: string;
  readonly registryPath: string | null;
  readonly heldLogBytesMax: number;
  /** epoch ms */
  readonly clock: () => number;
}

/** Rows of one reading after the other. */
type Read = (readings: readonly Reading[]) => Promise<readonly unknown[][]>;

export class StoreMaintenance {
  readonly #options: SideWorkOptions;
  readonly #engine: () => Engine;
  #running: { readonly ended: Promise<void>; readonly abort: AbortController } | null = null;
  #backup: LongWork<Backup> = { kind: 'none' };
  #fsck: LongWork<Examination> = { kind: 'none' };

  /** `engine`: the store while it is open, between transactions. */
  constructor(options: SideWorkOptions, engine: () => Engine) {
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

  /** Gives up what runs, because the store closes. */
  async close(): Promise<void> {
    this.#running?.abort.abort(new Error('the store was closed meanwhile: start it again'));
    await this.#running?.ended;
  }

  #start<R>(work: (read: Read) => Promise<R>, tell: (state: LongWork<R>) => void): 'started' | 'busy' {
    if (this.#running !== null) return 'busy';
    const startedAt = this.#options.clock();
    const abort = new AbortController();
    tell({ kind: 'running', startedAt });
    const ended = this.#held(abort, work).then(
      (result) => tell({ kind: 'done', startedAt, endedAt: this.#options.clock(), result }),
      (error: unknown) =>
        tell({ kind: 'failed', startedAt, endedAt: this.#options.clock(), reason: reasonOf(error) }),
    );
    const over = ended.then(() => {
      this.#running = null;
    });
    this.#running = { abort, ended: over };
    return 'started';
  }

  async #held<R>(abort: AbortController, work: (read: Read) => Promise<R>): Promise<R> {
    const { path, heldLogBytesMax } = this.#options;
    const engine = this.#engine();
    const release = engine.hold();
    const judge = () => {
      if (engine.isTight) abort.abort(new Error('the disk is full: try again when there is room'));
      if (logBytes(path) > heldLogBytesMax)
        abort.abort(new Error('too much was written meanwhile: try again at a quieter time'));
    };
    judge();
    const timer = setInterval(judge, sqliteLimits.heldLogCheckMs);
    try {
      return await work((readings) => readBeside(readings, abort.signal));
    } finally {
      clearInterval(timer);
      if (engine.db.isOpen) release();
    }
  }

  // ── examination

  async #examine(read: Read): Promise<Examination> {
    const url = frozen(this.#options.path);
    const ask = (statements: readonly string[]) => read(statements.map((sql) => ({ url, sql })));
    // Of a damaged file the other answers mean nothing.
    const damages = await this.#damages(ask);
    if (damages.length > 0) return { jobs: 0, problems: damages };
    const [counts, ...found] = await ask([countJobs, ...invariants.map(examplesOf)]);
    const problems = invariants.flatMap((invariant, n) => problemOf(invariant, found[n]));
    return { jobs: (counts as { count: number }[])[0]?.count ?? 0, problems };
  }

  async #damages(ask: (statements: readonly string[]) => Promise<readonly unknown[][]>): Promise<Problem[]> {
    try {
      const [rows] = await ask([examplesOf(wholeFile)]);
      return problemOf(wholeFile, rows);
    } catch (error) {
      const code = sqliteCode(error);
      if (code !== sqliteCodes.corrupt && code !== sqliteCodes.notADatabase) throw error;
      return problemOf(wholeFile, [{ count: 1, example: reasonOf(error) }]);
    }
  }

  // ── backup

  /** Under another name first: a directory of that name holds a whole backup. */
  async #copy(directory: string, read: Read): Promise<Backup> {
    const { path, registryPath } = this.#options;
    if (!isAbsolute(directory)) throw new Error(`${directory} is no absolute path`);
    if (await exists(directory)) throw new Error(`${directory} exists already`);
    const fresh = `${directory}.part`;
    const [jobsCopy, registryCopy] = [join(fresh, 'jobs.db'), join(fresh, 'registry.db')];
    const copies = [{ url: frozen(path), to: jobsCopy }];
    if (registryPath !== null) copies.push({ url: pathToFileURL(registryPath).href, to: registryCopy });
    await removeCopy(fresh, copies);
    await mkdir(fresh, { mode: 0o700 });
    try {
      await read(copies.map(({ url, to }) => ({ url, sql: `VACUUM INTO '${to.replaceAll("'", "''")}'` })));
      let bytes = 0;
      for (const { to } of copies) {
        await chmod(to, 0o600);
        await sync(to);
        bytes += (await stat(to)).size;
      }
      await sync(fresh);
      await rename(fresh, directory);
      await sync(dirname(directory));
      return { directory, bytes };
    } catch (error) {
      await removeCopy(fresh, copies);
      throw error;
    }
  }
}

/** None where there are no examples. */
function problemOf({ invariant, what }: Invariant, rows: readonly unknown[] = []): Problem[] {
  const [first] = rows as { count: number }[];
  if (first === undefined) return [];
  const examples = (rows as { example: string }[]).map(({ example }) => example);
  return [{ invariant, what, count: first.count, examples }];
}

/** The file as it lies there, without its log and without a lock: true while it is held. */
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

/** Our own files and nothing else: what somebody has put beside them stays, and with it the directory. */
async function removeCopy(directory: string, copies: readonly { readonly to: string }[]): Promise<void> {
  if (!(await exists(directory))) return;
  for (const { to } of copies) for (const end of ['', '-journal']) await rm(to + end, { force: true });
  await rmdir(directory);
}

async function sync(path: string): Promise<void> {
  const file = await open(path, 'r');
  try {
    await file.sync();
  } finally {
    await file.close();
  }
}
