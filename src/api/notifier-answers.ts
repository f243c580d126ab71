// NotifierAnswers asks the notifiers once for all readers of the same jobs: pages poll a job each second, and
// producers read jobs too. Bounded by the three numbers apiLimits.why….
// Without an answer in time the result is null; the answer serves the next reader.

import type { AnswerOf } from '../process/questions.ts';
import { monotonicNow, setTimeout } from '../runtime/time.ts';
import { apiLimits } from './limits.ts';

export type Answers<T> = readonly AnswerOf<T>[] | null;

export class NotifierAnswers<T> {
  readonly #kept = new Map<string, { readonly at: number; readonly answers: Promise<Answers<T>> }>();

  /** `about`: what the question is about; the same text gets the same answers. `ask` must not reject. */
  of(about: string, ask: () => Promise<Answers<T>>): Promise<Answers<T>> {
    return Promise.race([this.#answersAbout(about, ask), nothingAfter(apiLimits.whyMs)]);
  }

  #answersAbout(about: string, ask: () => Promise<Answers<T>>): Promise<Answers<T>> {
    const now = monotonicNow();
    // In the order of the questions, so the first ones are the oldest.
    for (const [old, { at }] of this.#kept)
      if (now - at >= apiLimits.whyKeptMs) this.#kept.delete(old);
      else break;
    const kept = this.#kept.get(about);
    if (kept !== undefined) return kept.answers;
    if (this.#kept.size >= apiLimits.whyKeptMax) return Promise.resolve(null);
    const answers = ask();
    this.#kept.set(about, { at: now, answers });
    return answers;
  }
}

function nothingAfter(ms: number): Promise<null> {
  return new Promise((resolve) => void setTimeout(() => resolve(null), ms).unref());
}
