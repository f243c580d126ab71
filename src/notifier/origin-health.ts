// Judges the origin (scheme, host, port) that several topics share. The restricted topics of an ailing origin share a few
// probes, so 400 topics on one dead server cost little more than one.

import { notifierLimits } from './limits.ts';

export class OriginHealth {
  /** Lanes that use it. */
  lanes = 0;
  /** Probes that run. */
  probes = 0;
  #awayInRow = 0;
  #ailing = false;
  #repliedAt = Number.NEGATIVE_INFINITY;

  get isAiling(): boolean {
    return this.#ailing;
  }

  /** An attempt failed as if the receiver were unreachable, or has become slow. `startedAt`: a reply after it wins. */
  countAway(startedAt: number): void {
    if (this.#repliedAt >= startedAt) return;
    this.#awayInRow += 1;
    if (this.#awayInRow >= notifierLimits.ailingAttempts) this.#ailing = true;
  }

  /** Any quick reply, or a success. */
  countReply(nowMs: number): void {
    this.#repliedAt = nowMs;
    this.#awayInRow = 0;
    this.#ailing = false;
  }
}
