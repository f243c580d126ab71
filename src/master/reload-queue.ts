// Runs one reload after the other: at most one runs and one waits. A request during a reload gets the waiting
// one, because the running one may have read the configuration before it was changed.

/** Receives the progress of a reload, one line each. */
export type Report = (line: string) => void;

export type ReloadOutcome =
  /** The configuration is in force. `flaws`: parts that do not work yet, one sentence each */
  | { readonly kind: 'reloaded'; readonly flaws: readonly string[] }
  /** Nothing has changed. `reason`: one sentence or several lines */
  | { readonly kind: 'refused'; readonly reason: string };

interface Turn {
  readonly reports: Set<Report>;
  readonly outcome: Promise<ReloadOutcome>;
}

export class ReloadQueue {
  readonly #run: (report: Report) => Promise<ReloadOutcome>;
  #waiting: Turn | null = null;
  #last: Promise<unknown> = Promise.resolve();

  /** `run` must not reject. */
  constructor(run: (report: Report) => Promise<ReloadOutcome>) {
    this.#run = run;
  }

  /** A reload begins at once, or after the running one. */
  get isWaiting(): boolean {
    return this.#waiting !== null;
  }

  /** `report` receives the lines from now on. */
  request(report: Report): Promise<ReloadOutcome> {
    this.#waiting ??= this.#queue();
    this.#waiting.reports.add(report);
    return this.#waiting.outcome;
  }

  #queue(): Turn {
    const reports = new Set<Report>();
    const outcome = this.#last.then(() => {
      this.#waiting = null;
      return this.#run((line) => {
        for (const report of reports) report(line);
      });
    });
    this.#last = outcome;
    return { reports, outcome };
  }
}
