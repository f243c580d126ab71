// How many letters an address may get in an hour. What is over waits: its alerts stay owed, gather, and are counted in the letter
// that goes later. Pure; the caller says what time it is. In memory only: a restart begins anew.
// For each address and not for all: where the topics of one team die by the hundred, another team hears of its first death at
// once all the same.

const hourMs = 3_600_000;

export class MailRateLimit {
  /** half of the hour's letters may go at once, the other half spread over it */
  readonly #atOnce: number;
  readonly #everyMs: number;
  /** address → when its quota is whole again */
  readonly #wholeAt = new Map<string, number>();

  constructor(perHour: number) {
    this.#atOnce = Math.max(1, Math.floor(perHour / 2));
    this.#everyMs = hourMs / Math.max(1, perHour - this.#atOnce);
  }

  /** From when on it may have the next one. */
  nextAt(address: string): number {
    return (this.#wholeAt.get(address) ?? 0) - (this.#atOnce - 1) * this.#everyMs;
  }

  take(address: string, now: number): void {
    for (const [known, wholeAt] of this.#wholeAt) if (wholeAt <= now) this.#wholeAt.delete(known);
    this.#wholeAt.set(address, Math.max(this.#wholeAt.get(address) ?? 0, now) + this.#everyMs);
  }
}
