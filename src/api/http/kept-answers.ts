// KeptAnswers keeps answers that many viewers poll: for a second or as given, and for longer where making
// them takes long, so that polls use at most a tenth of one core. Callers of one key share its answer.

import { monotonicNow } from '../../runtime/time.ts';
import { apiLimits } from '../limits.ts';

export class KeptAnswers<T> {
  readonly #kept = new Map<string, { readonly answer: Promise<T>; until: number }>();

  readonly #keepMs: (answer: T) => number;

  constructor(keepMs: (answer: T) => number = () => apiLimits.answerKeptMs) {
    this.#keepMs = keepMs;
  }

  /** `key`: all that the answer depends on, and the rights of the caller. A failure is not kept. */
  of(key: string, make: () => Promise<T>): Promise<T> {
    const from = monotonicNow();
    const known = this.#kept.get(key);
    if (known !== undefined && from < known.until) return known.answer;
    this.#kept.delete(key);
    const [oldest] = this.#kept.keys();
    if (oldest !== undefined && this.#kept.size >= apiLimits.answersKept) this.#kept.delete(oldest);
    const answer = make();
    const entry = { answer, until: Number.POSITIVE_INFINITY };
    this.#kept.set(key, entry);
    answer.then(
      (made) => {
        const now = monotonicNow();
        entry.until = now + Math.max(this.#keepMs(made), 10 * (now - from));
      },
      () => {
        // The callers have the failure; the next one tries again.
        if (this.#kept.get(key) === entry) this.#kept.delete(key);
      },
    );
    return answer;
  }
}
