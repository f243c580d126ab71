// Reports changes that are recorded nowhere: a mark for the process that ships the spool, and log lines.
// Invariant: a mark is written after each of them. One write and one line a second cover many.

import type { Log } from '../telemetry/log.ts';
import { spoolLimits } from './limits.ts';
import type { SpoolDirectory } from './spool-directory.ts';

export class DroppedChanges {
  readonly #directory: Pick<SpoolDirectory, 'noteDropped'>;
  readonly #log: Pick<Log, 'error'>;
  /** since the last line */
  #changes = 0;
  #timer: NodeJS.Timeout | null = null;
  #isMarked = true;
  #marking: Promise<void> | null = null;

  constructor(directory: Pick<SpoolDirectory, 'noteDropped'>, log: Pick<Log, 'error'>) {
    this.#directory = directory;
    this.#log = log;
  }

  add(changes: number): void {
    this.#changes += changes;
    this.#isMarked = false;
    this.#marking ??= this.#mark();
    if (this.#timer === null) this.#report();
  }

  /** No call of add() follows. */
  async close(): Promise<void> {
    if (this.#timer !== null) clearTimeout(this.#timer);
    if (this.#changes > 0) this.#line();
    await this.#marking;
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
      await this.#directory
        .noteDropped()
        .catch((error: unknown) =>
          this.#log.error('spool: cannot leave a mark of changes that are not recorded', error),
        );
    }
    this.#marking = null;
  }
}
