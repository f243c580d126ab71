// Watches registry.db for the process that serves it. Once the file is damaged, missing or not the one that
// was opened, every call is rejected with one sentence and its remedy: half a list of tokens must not come
// into force, and a write would spread the damage, or be lost with the file.
// Invariants: the guard never writes, and from the rejection on nothing else does. One rejection is one call
// of onDamage. A file or its key that was changed afterwards, and stays so for a moment, is a call of
// onRepaired, and so is the time of another open: this process must end, because a close of its connection
// would write, and the next one opens the file.

import { type Stats, statSync } from 'node:fs';
import { DqError, messageOf } from '../../../core/errors.ts';
import { StoreError } from '../../../ports/store-error.ts';
import { isDamage } from '../../../runtime/database.ts';
import { monotonicNow } from '../../../runtime/time.ts';
import { sqlLimits } from '../limits.ts';
import { CommitError, type RegistryEngine } from '../registry-engine.ts';
import { damagedText, emptyText, missingText } from './registry-file.ts';
import { toStoreError } from './sqlite-engine.ts';

export interface RegistryEvents {
  /** `why`: one sentence with the remedy */
  readonly onDamage: (why: string) => void;
  readonly onRepaired: () => void;
}

interface Seen {
  readonly inode: number;
  readonly bytes: number;
  /** the content of the file, of its WAL and of its key, as far as a stat shows it */
  readonly content: string;
}

interface GuardedPaths {
  readonly path: string;
  readonly keyPath: string;
}

export class RegistryGuard {
  readonly #path: string;
  readonly #keyPath: string;
  readonly #events: RegistryEvents;
  /** the file that is open; null: none */
  #opened: { readonly inode: number; bytes: number } | null = null;
  #why: string | null = null;
  /** What the next open would reject, too: the files when the calls began to be rejected. null: it decides
   *  about any file. */
  #rejected: Seen | null = null;
  #changed: { readonly seen: Seen; readonly since: number } | null = null;
  /** monotonicNow() of the next open, whatever has changed */
  #againAt = Number.POSITIVE_INFINITY;
  #isRepaired = false;

  constructor({ path, keyPath }: GuardedPaths, events: RegistryEvents) {
    this.#path = path;
    this.#keyPath = keyPath;
    this.#events = events;
  }

  /** Why calls are rejected; null: they are not. */
  get damage(): string | null {
    this.#look();
    return this.#why;
  }

  /** Guards the calls of an engine whose file was just opened. */
  over(engine: RegistryEngine): RegistryEngine {
    const seen = this.#stat();
    if (seen !== null && seen !== undefined) this.#opened = { inode: seen.inode, bytes: seen.bytes };
    return {
      ...engine,
      attempt: (work) => this.#attempt(() => engine.attempt(work)),
      close: async () => {
        // A close would write the WAL into the file, and remove the one that lies beside it.
        if (this.damage === null) await engine.close();
      },
    };
  }

  /** The engine of a file that cannot be opened. `againMs`: then the same file may open. */
  overNone(why: string, againMs = Number.POSITIVE_INFINITY): RegistryEngine {
    this.#againAt = monotonicNow() + againMs;
    this.#reject(why, this.#stat() ?? null);
    const attempt = <T>(): Promise<T> => this.#attempt(() => Promise.reject(this.#failure()));
    return {
      get db(): never {
        throw new Error('the registry is not open');
      },
      lock: attempt,
      addStats: attempt,
      putSeries: attempt,
      attempt,
      failureOf: (error) => error,
      close: async () => {},
    };
  }

  async #attempt<T>(work: () => Promise<T>): Promise<T> {
    this.#look();
    if (this.#why !== null) throw this.#failure();
    try {
      return await work();
    } catch (error) {
      const cause = error instanceof CommitError ? error.cause : error;
      if (!isDamage(cause)) throw error;
      // A file that was emptied or cut off meanwhile is a better reason than the words of SQLite.
      this.#look();
      this.#reject(damagedText(this.#path, messageOf(cause)), this.#stat() ?? null);
      const known = toStoreError(error);
      throw this.#failure(known instanceof StoreError ? known.failure.kind : 'unknown');
    }
  }

  #failure(kind: 'not_stored' | 'unknown' = 'not_stored'): StoreError {
    const why = this.#why ?? '';
    // The cause is for the log.
    const cause = new DqError('unavailable', why);
    return new StoreError({ kind, code: 'registry_damaged', why }, { cause });
  }

  #reject(why: string, seen: Seen | null): void {
    if (this.#why !== null) return;
    this.#why = why;
    this.#rejected = seen;
    this.#events.onDamage(why);
  }

  #look(): void {
    const seen = this.#stat();
    if (seen === undefined) return;
    if (this.#why !== null) this.#lookForRepair(seen);
    else if (this.#opened !== null) this.#compare(seen, this.#opened);
  }

  #compare(seen: Seen | null, opened: { readonly inode: number; bytes: number }): void {
    if (seen === null) this.#reject(missingText(this.#path), null);
    else if (seen.inode !== opened.inode)
      this.#reject(
        `the registry ${this.#path} was replaced while dq runs; dq-store starts again with it`,
        null,
      );
    // Cut off, or made smaller by a VACUUM of an operator: the check of the next open tells.
    else if (seen.bytes < opened.bytes)
      this.#reject(
        damagedText(this.#path, seen.bytes === 0 ? emptyText : `${seen.bytes} of ${opened.bytes} bytes`),
        null,
      );
    else opened.bytes = seen.bytes;
  }

  #lookForRepair(seen: Seen | null): void {
    if (this.#isRepaired || !(this.#hasSettled(seen) || monotonicNow() >= this.#againAt)) return;
    this.#isRepaired = true;
    this.#events.onRepaired();
  }

  /** Whether the files have changed, and stayed so for a moment. */
  #hasSettled(seen: Seen | null): boolean {
    if (seen === null || seen.bytes === 0 || seen.content === this.#rejected?.content) {
      this.#changed = null;
      return false;
    }
    if (seen.content !== this.#changed?.seen.content) this.#changed = { seen, since: monotonicNow() };
    return monotonicNow() - this.#changed.since >= sqlLimits.registrySettledMs;
  }

  /** null: missing; undefined: the disk does not answer, which the next statement reports. */
  #stat(): Seen | null | undefined {
    try {
      const file = statSync(this.#path, { throwIfNoEntry: false });
      if (file === undefined) return null;
      const wal = statSync(`${this.#path}-wal`, { throwIfNoEntry: false });
      const key = statSync(this.#keyPath, { throwIfNoEntry: false });
      const content = [stampOf(file), wal?.size ?? 0, stampOf(key)].join(', ');
      return { inode: file.ino, bytes: file.size, content };
    } catch {
      return undefined;
    }
  }
}

/** ctime: a changed mode or owner makes an unreadable file or key readable. */
const stampOf = (file: Stats | undefined): string =>
  file === undefined ? '' : `${file.ino} ${file.size} ${file.ctimeMs}`;
