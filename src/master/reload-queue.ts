// Runs one reload after the other: at most one runs and one waits. A request during a reload gets the waiting
// one, because the running one may have read the configuration before it was changed. The reload itself, its
// order and its outcome belong to reload.ts.

import type { ReloadRun, ReloadState } from '../process/messages.ts';
import { masterLimits } from './limits.ts';

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

interface Running {
  readonly startedAt: number;
  readonly lines: string[];
}

/** Remembers the running and the last reload of this daemon, for the console. Lost with the master: after a
 *  restart there was no reload. */
export class ReloadHistory {
  #running: Running | null = null;
  #last: ReloadRun | null = null;

  begin(now: number): void {
    this.#running = { startedAt: now, lines: [] };
  }

  line(text: string): void {
    const { reloadLinesMax, reloadLineCharsMax } = masterLimits;
    const lines = this.#running?.lines;
    if (lines !== undefined && lines.length < reloadLinesMax) lines.push(text.slice(0, reloadLineCharsMax));
  }

  /** `generation`: in force now */
  end(outcome: ReloadOutcome, generation: number, now: number): void {
    const { startedAt = now, lines = [] } = this.#running ?? {};
    const run = { startedAt, endedAt: now, lines, generation };
    const shortened = (text: string) => text.slice(0, masterLimits.reloadLineCharsMax);
    if (outcome.kind === 'refused')
      this.#last = { ...run, outcome: 'rejected', reason: shortened(outcome.reason) };
    else if (outcome.flaws.length === 0) this.#last = { ...run, outcome: 'reloaded', reason: null };
    else this.#last = { ...run, outcome: 'partly', reason: shortened(outcome.flaws.join('; ')) };
    this.#running = null;
  }

  state(): Pick<ReloadState, 'running' | 'last'> {
    return { running: this.#running, last: this.#last };
  }
}
