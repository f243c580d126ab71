// Keeps surveys from delaying other calls: one at a time, few waiting, and a rest after each step.

import { StoreError } from '../ports/store-error.ts';
import { monotonicNow, sleep } from '../runtime/time.ts';
import { storeLimits } from './limits.ts';

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
