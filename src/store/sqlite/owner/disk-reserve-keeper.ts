// Keeps the reserve of a store that is served: sets it free when the disk is full, makes it whole again when there is room, and
// tells people of both, once each. Owns the timer between two attempts.

import { sqliteCode, sqliteCodes } from '../../../runtime/database.ts';
import type { Log } from '../../../telemetry/log.ts';
import type { Engine } from '../engine/engine.ts';
import { NoRoom } from '../file/wal-space.ts';
import { sqliteLimits } from '../limits.ts';

export const diskFull = 'the disk is full: pushes are refused until there is room';

export class ReserveKeeper {
  readonly #engine: Engine;
  readonly #log: Log;
  readonly #onBroken: (error: unknown) => void;
  #isMissed = false;
  #timer: NodeJS.Timeout | null = null;
  #closed = false;

  /** @param onBroken told of a failure that is not a full disk: the store must not be used any more */
  constructor(engine: Engine, log: Log, onBroken: (error: unknown) => void) {
    this.#engine = engine;
    this.#log = log;
    this.#onBroken = onBroken;
  }

  /** Throws what keeps the store from being used at all. */
  start(): void {
    this.#took(this.#mended());
  }

  /** The disk is full. May be called again and again, inside a transaction too: then nothing is done, and another one follows. */
  free(reason: unknown): void {
    if (this.#engine.inTransaction) return;
    this.#miss(reason);
    this.#orBreak(() => unlessFull(() => this.#engine.freeReserve()));
    this.#tryLater();
  }

  close(): void {
    this.#closed = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
  }

  #mended(): boolean {
    return unlessFull(() => this.#engine.mendReserve()) ?? false;
  }

  #took(isWhole: boolean): void {
    if (!isWhole) {
      this.#miss(new Error('there is no room for the reserve of the store'));
      this.#tryLater();
    } else if (this.#isMissed) {
      this.#isMissed = false;
      this.#log.notice('there is room on the disk again: pushes are taken');
    }
  }

  #orBreak(act: () => void): void {
    try {
      act();
    } catch (error) {
      this.#onBroken(error);
    }
  }

  #miss(reason: unknown): void {
    if (!this.#isMissed) this.#log.error(diskFull, reason);
    this.#isMissed = true;
  }

  #tryLater(): void {
    if (this.#closed) return;
    this.#timer ??= setTimeout(() => {
      this.#timer = null;
      this.#orBreak(() => this.#took(this.#mended()));
    }, sqliteLimits.diskReserveAgainMs);
  }
}

/** null: the disk is full, and nothing was written. */
function unlessFull<T>(write: () => T): T | null {
  try {
    return write();
  } catch (error) {
    if (error instanceof NoRoom || sqliteCode(error) === sqliteCodes.full) return null;
    throw error;
  }
}
