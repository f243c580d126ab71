// Judges the origin (scheme, host, port) that several topics share. The restricted topics of an ailing
// origin share a few probes, so 400 topics on one dead server cost little more than one.

import { notifierLimits } from './limits.ts';

export class OriginHealth {
  /** Topic targets that use it. */
  targets = 0;
  /** Probes that run. */
  probes = 0;
  #unreachedInRow = 0;
  #isAiling = false;
  #repliedAt = Number.NEGATIVE_INFINITY;

  get isAiling(): boolean {
    return this.#isAiling;
  }

  /** An attempt did not reach the receiver, or its call became slow. Ignored where a reply came after
   *  `startedAt`. */
  countUnreached(startedAt: number): void {
    if (this.#repliedAt >= startedAt) return;
    this.#unreachedInRow += 1;
    if (this.#unreachedInRow >= notifierLimits.ailingAttempts) this.#isAiling = true;
  }

  /** Counts a success, or any quick reply. */
  countReply(nowMs: number): void {
    this.#repliedAt = nowMs;
    this.#unreachedInRow = 0;
    this.#isAiling = false;
  }
}
