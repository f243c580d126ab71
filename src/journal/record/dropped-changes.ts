// Reports changes that are recorded nowhere: a mark for the process that ships the spool, and log lines.
// Invariant: a mark is written after each of them; one that fails is written again. One write and one line a
// second cover many.

import { clearTimeout, setTimeout, type Timer } from '../../runtime/time.ts';
import { orAfter } from '../../runtime/timeout.ts';
import type { Log } from '../../telemetry/log.ts';
import { spoolLimits } from '../limits.ts';

/** Leaves a mark for the process that ships the streams: ends of jobs are recorded nowhere. */
interface DroppedMark {
  noteDropped(): Promise<void>;
}

export class DroppedChanges {
  readonly #directory: DroppedMark;
  readonly #log: Pick<Log, 'error'>;
  /** since the last line */
  #changes = 0;
  #timer: Timer | null = null;
  #isMarked = true;
  #marking: Promise<void> | null = null;
  #isFailing = false;
  #isClosing = false;
  /** ends the wait for the next try */
  #wake: () => void = () => {};

  constructor(directory: DroppedMark, log: Pick<Log, 'error'>) {
    this.#directory = directory;
    this.#log = log;
  }

  add(changes: number): void {
    this.#changes += changes;
    this.#isMarked = false;
    this.#marking ??= this.#mark();
    if (this.#timer === null) this.#report();
  }

  /** No call of add() follows. Tries a mark that failed once more; does not wait for a disk that hangs. */
  async close(): Promise<void> {
    this.#isClosing = true;
    this.#wake();
    if (this.#timer !== null) clearTimeout(this.#timer);
    if (this.#changes > 0) this.#line();
    if (this.#marking !== null) await orAfter(spoolLimits.lastMarkMs, this.#marking, undefined);
  }

  #report(): void {
    this.#line();
    this.#timer = setTimeout(() => {
      this.#timer = null;
      if (this.#changes > 0) this.#report();
    }, spoolLimits.droppedMs).unref();
  }

  #line(): void {
    const changes = this.#changes;
    this.#changes = 0;
    this.#log.error(
      'spool: full; ends of jobs are not recorded, and their jobs may be called again',
      undefined,
      { changes },
    );
  }

  async #mark(): Promise<void> {
    while (!this.#isMarked) {
      this.#isMarked = true;
      const isLast = this.#isClosing;
      try {
        await this.#directory.noteDropped();
        this.#isFailing = false;
      } catch (error) {
        if (!this.#isFailing)
          this.#log.error('spool: cannot leave a mark of changes that are not recorded; tries again', error);
        this.#isFailing = true;
        if (isLast) break;
        this.#isMarked = false;
        if (!this.#isClosing) await this.#pause();
      }
    }
    this.#marking = null;
  }

  #pause(): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, spoolLimits.droppedMs).unref();
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
