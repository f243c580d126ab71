// Remembers the running and the last reload of this daemon, for the console. The reload itself, its order and
// its outcome belong to reload.ts. Lost with the master: after a restart there was no reload.

import type { ReloadRun, ReloadState } from '../process/messages.ts';
import { masterLimits } from './limits.ts';
import type { ReloadOutcome } from './reload-queue.ts';

interface Running {
  readonly startedAt: number;
  readonly lines: string[];
}

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
    const reasonOf = (text: string) => text.slice(0, masterLimits.reloadLineCharsMax);
    if (outcome.kind === 'refused')
      this.#last = { ...run, outcome: 'rejected', reason: reasonOf(outcome.reason) };
    else if (outcome.flaws.length === 0) this.#last = { ...run, outcome: 'reloaded', reason: null };
    else this.#last = { ...run, outcome: 'partly', reason: reasonOf(outcome.flaws.join('; ')) };
    this.#running = null;
  }

  state(): Pick<ReloadState, 'running' | 'last'> {
    return { running: this.#running, last: this.#last };
  }
}
