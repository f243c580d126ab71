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

  /** ms, of the releases with a wait; null: no client asked for one. `least` 0: a client sent a nack, too */
  get snoozes(): { readonly least: number; readonly most: number } | null {
    const asked = this.#asked.filter(({ verb }) => verb === 'retry');
    const waits = asked.flatMap(({ isSnooze, ms }) => (isSnooze === true ? [ms ?? 0] : []));
    if (waits.length === 0) return null;
    return { least: waits.length < asked.length ? 0 : Math.min(...waits), most: Math.max(...waits) };
  }

  /** The wait to the next attempt is that of a client. */
  hasOwnWait(ms: number): boolean {
    return this.#asked.some((asked) => asked.verb === 'retry' && asked.ms === ms);
  }
}
