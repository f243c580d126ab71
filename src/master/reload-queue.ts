// One reload after the other: at most one runs and one waits. Whoever asks while one runs gets the one that waits, because
// the running one may have read the configuration before it was changed.

export type Say = (line: string) => void;

export type ReloadOutcome =
  /** `flaws`: what is in force and does not work yet, one sentence each */
  | { readonly kind: 'reloaded'; readonly flaws: readonly string[] }
  /** nothing has changed; one sentence or several lines */
  | { readonly kind: 'refused'; readonly reason: string };

interface Turn {
  readonly says: Set<Say>;
  readonly outcome: Promise<ReloadOutcome>;
}

export class ReloadQueue {
  readonly #run: (say: Say) => Promise<ReloadOutcome>;
  #waiting: Turn | null = null;
  #last: Promise<unknown> = Promise.resolve();

  /** `run` must not reject. */
  constructor(run: (say: Say) => Promise<ReloadOutcome>) {
    this.#run = run;
  }

  /** `say` hears how it goes, from now on. */
  ask(say: Say): Promise<ReloadOutcome> {
    this.#waiting ??= this.#queue();
    this.#waiting.says.add(say);
    return this.#waiting.outcome;
  }

  #queue(): Turn {
    const says = new Set<Say>();
    const outcome = this.#last.then(() => {
      this.#waiting = null;
      return this.#run((line) => {
        for (const say of says) say(line);
      });
    });
    this.#last = outcome;
    return { says, outcome };
  }
}
