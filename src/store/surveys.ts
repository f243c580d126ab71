// What the surveys of both stores share. They must not delay other calls: one at a time, few waiting, and a
// rest after each step. Groups of dead letters keep no dead letter.

import type { AttemptRecord, DeadReason } from '../core/job.ts';
import { type DeadSelection, fitsMarks } from '../core/survey.ts';
import type { DeadGroup, DeadGroups } from '../ports/job-store.ts';
import { StoreError } from '../ports/store-error.ts';
import { monotonicNow, sleep } from '../runtime/time.ts';
import { storeLimits } from './limits.ts';
import { newest, type Place } from './pages.ts';

/** Runs surveys one after the other. */
export class SurveyQueue {
  #pending = 0;
  #last: Promise<unknown> = Promise.resolve();

  /** Rejects with not_stored, survey_busy, when too many wait; else as `survey`. */
  async run<T>(survey: () => Promise<T>): Promise<T> {
    if (this.#pending > storeLimits.surveysWaitingMax)
      throw new StoreError({ kind: 'not_stored', code: 'survey_busy' });
    this.#pending += 1;
    // The failure of a survey belongs to its own caller.
    const run = this.#last.then(survey, survey);
    this.#last = run;
    try {
      return await run;
    } finally {
      this.#pending -= 1;
    }
  }
}

/** The time of one survey. */
export class SurveyPace {
  readonly #end: number;
  readonly #lately: number[] = [];
  #stepAt = monotonicNow();

  /** @param budgetMs the survey should end by then */
  constructor(budgetMs: number = storeLimits.surveyMsMax) {
    this.#end = monotonicNow() + Math.min(budgetMs, storeLimits.surveyMsMax);
  }

  get isOver(): boolean {
    return monotonicNow() >= this.#end;
  }

  /** Call after each piece of work: rests when the pieces since the last rest make a step. */
  async rest(): Promise<void> {
    const took = monotonicNow() - this.#stepAt;
    if (took < storeLimits.surveyStepMs) return;
    await sleep(this.restMsAfter(took));
    this.#stepAt = monotonicNow();
  }

  /** By the shortest of the last steps: a longer one mostly waited, for other calls or for the processor. */
  restMsAfter(tookMs: number): number {
    this.#lately.push(tookMs);
    if (this.#lately.length > storeLimits.surveyStepsCompared) this.#lately.shift();
    return Math.min(...this.#lately) * storeLimits.surveyRestPerStep;
  }

  /** The same, for a survey that cannot return a part. Throws not_stored, survey_too_long. */
  async restOrGiveUp(): Promise<void> {
    if (this.isOver) throw new StoreError({ kind: 'not_stored', code: 'survey_too_long' });
    await this.rest();
  }
}

const hourMs = 3_600_000;
const hoursKept = 12;

export type LastAttempt = Pick<AttemptRecord, 'reason' | 'status'>;

export interface GroupedDeath {
  readonly topic: string;
  readonly deadAt: number;
  readonly deadReason: DeadReason;
  /** null: no attempt is stored */
  readonly last: LastAttempt | null;
}

/** Dead letters of a selection by topic and cause. They come newest first. */
export class DeadGrouping {
  readonly #selection: DeadSelection;
  readonly #groups = new Map<string, DeadGroup & { hours: number[]; count: number }>();
  #examined = 0;

  constructor(selection: DeadSelection) {
    this.#selection = selection;
  }

  /** Where the deaths before `until` begin. */
  get start(): Place {
    const { until } = this.#selection;
    return until === undefined ? newest : { at: Math.max(0, until), version: 0 };
  }

  /** Whether this death and all before it are too old. */
  isPast(deadAt: number): boolean {
    return deadAt < (this.#selection.since ?? 0);
  }

  /** `now`: the storage clock, epoch ms */
  add({ topic, deadAt, deadReason, last }: GroupedDeath, now: number): void {
    if (this.isPast(deadAt) || !fitsMarks(this.#selection, deadReason, last)) return;
    const { reason: lastReason = null, status = null } = last ?? {};
    const cause = { topic, deadReason, lastReason, status };
    const name = JSON.stringify(Object.values(cause));
    const empty = { ...cause, count: 0, firstAt: deadAt, lastAt: deadAt };
    const group = this.#groups.get(name) ?? { ...empty, hours: new Array<number>(hoursKept).fill(0) };
    const hour = hoursKept - 1 - Math.floor(Math.max(0, now - deadAt) / hourMs);
    if (hour >= 0) group.hours[hour] = (group.hours[hour] ?? 0) + 1;
    this.#examined += 1;
    this.#groups.set(name, {
      ...group,
      count: group.count + 1,
      firstAt: Math.min(group.firstAt, deadAt),
      lastAt: Math.max(group.lastAt, deadAt),
    });
  }

  /** `isWhole`: every dead letter of the selection was added */
  result(isWhole: boolean): DeadGroups {
    const all = [...this.#groups.values()].sort((a, b) => b.count - a.count || b.lastAt - a.lastAt);
    const groups = all.slice(0, storeLimits.deadGroupsMax);
    return { groups, examined: this.#examined, complete: isWhole && groups.length === all.length };
  }
}
