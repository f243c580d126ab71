// A lease of a pulled job, from the side of its clients: which one got it, and what they asked for with it.
// Invariant: only a client with the text of a lease, or its end, changes anything.

/** What the store does for a client. A nack is a retry or a bury. */
export type PullVerb = 'ack' | 'retry' | 'bury' | 'release' | 'extend';

export interface Asked {
  readonly verb: PullVerb;
  /** to the next attempt, or to the new end of the lease; null: the topic decides */
  readonly ms: number | null;
  /** a nack that buries */
  readonly isDead: boolean;
  /** a release with a wait */
  readonly isSnooze?: boolean;
}

export class PullRecord {
  /** null: no client got it */
  client: string | null = null;
  wasSent = false;
  /** what the store did */
  readonly done = new Set<PullVerb>();
  #asked: readonly Asked[] = [];

  /** A dq-server sends it to a client. */
  see(): void {
    this.wasSent = true;
  }

  ask(...asked: readonly Asked[]): void {
    this.#asked = [...this.#asked, ...asked];
  }

  /** Whether a client asked for this step of the store. `ms` null: the topic decides. `isFailure`: the step
   *  counts an attempt; a snooze that does waits for the backoff of the topic, at least as long as asked. */
  asksFor(verb: PullVerb, ms: number | null, reason = '', isFailure = false): boolean {
    const isTime = (asked: Asked) =>
      asked.ms === null ||
      asked.ms === ms ||
      (asked.isSnooze === true && isFailure && ms !== null && ms > asked.ms);
    return this.#asked.some(
      (asked) => asked.verb === verb && isTime(asked) && (reason === 'nacked') === asked.isDead,
    );
  }

  /** to the next attempt, as a client asked for it */
  get longestWait(): number {
    return Math.max(0, ...this.#asked.map(({ verb, ms }) => (verb === 'retry' ? (ms ?? 0) : 0)));
  }

  asksSnooze(ms: number): boolean {
    return this.#asked.some((asked) => asked.isSnooze === true && asked.ms === ms);
  }

  /** null: no client asked for one */
  get longestSnooze(): number | null {
    const waits = this.#asked.flatMap(({ isSnooze, ms }) => (isSnooze === true ? [ms ?? 0] : []));
    return waits.length === 0 ? null : Math.max(...waits);
  }

  /** The wait to the next attempt is that of a client. */
  hasOwnWait(ms: number): boolean {
    return this.#asked.some((asked) => asked.verb === 'retry' && asked.ms === ms);
  }
}
