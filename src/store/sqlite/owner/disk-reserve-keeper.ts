// Keeps the disk reserve of an open store: frees it on a full disk, restores it when there is space, and logs
// both once. Owns the timer between two attempts.

import { sqliteCode, sqliteCodes } from '../../../runtime/database.ts';
import { clearTimeout, setTimeout, type Timer } from '../../../runtime/time.ts';
import type { Log } from '../../../telemetry/log.ts';
import type { Engine } from '../engine/engine.ts';
import { NoDiskSpace } from '../file/wal-space.ts';
import { sqliteLimits } from '../limits.ts';

export const diskFull = 'the disk is full: pushes are rejected until space is free';

export class DiskReserveKeeper {
  readonly #engine: Engine;
  readonly #log: Log;
  readonly #onBroken: (error: unknown) => void;
  #isFullReported = false;
  #timer: Timer | null = null;
  #closed = false;

  /** @param onBroken receives a failure other than a full disk: the store must not be used any more */
  constructor(engine: Engine, log: Log, onBroken: (error: unknown) => void) {
    this.#engine = engine;
    this.#log = log;
    this.#onBroken = onBroken;
  }

  /** Throws if the store is unusable. */
  start(): void {
    this.#report(this.#restored());
  }

  /** The disk is full. Idempotent; inside a transaction it does nothing, and the caller calls again later. */
  free(reason: unknown): void {
    if (this.#engine.inTransaction) return;
    this.#reportFull(reason);
    this.#breakOnFailure(() => unlessFull(() => this.#engine.freeDiskReserve()));
    this.#tryLater();
  }

  close(): void {
    this.#closed = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
  }

  #restored(): boolean {
    return unlessFull(() => this.#engine.restoreDiskReserve()) ?? false;
  }

  #report(isWhole: boolean): void {
    if (!isWhole) {
      this.#reportFull(new Error('no space for the disk reserve'));
      this.#tryLater();
    } else if (this.#isFullReported) {
      this.#isFullReported = false;
      this.#log.notice('disk space is free again: pushes are accepted');
    }
  }

  #breakOnFailure(act: () => void): void {
    try {
      act();
    } catch (error) {
      this.#onBroken(error);
    }
  }

  #reportFull(reason: unknown): void {
    if (!this.#isFullReported) this.#log.error(diskFull, reason);
    this.#isFullReported = true;
  }

  #tryLater(): void {
    if (this.#closed) return;
    this.#timer ??= setTimeout(() => {
      this.#timer = null;
      this.#breakOnFailure(() => this.#report(this.#restored()));
    }, sqliteLimits.diskReserveAgainMs);
  }
}

/** null: the disk is full, and nothing was written. */
function unlessFull<T>(write: () => T): T | null {
  try {
    return write();
  } catch (error) {
    if (error instanceof NoDiskSpace || sqliteCode(error) === sqliteCodes.full) return null;
    throw error;
  }
}
