// FailureLog writes one line when a failure starts and one line when it ends, however often the work fails
// in between.

/** The part of a log that it needs. */
interface FailureLines {
  error(message: string, error?: unknown, fields?: Fields): void;
  notice(message: string, fields?: Fields): void;
}
type Fields = Readonly<Record<string, unknown>>;

export interface FailureMessages {
  /** `recoverer: cannot recover leases` */
  readonly failure: string;
  /** `recoverer: recovers leases again`; absent: the end is not logged */
  readonly end?: string;
}

export class FailureLog {
  readonly #log: FailureLines;
  readonly #messages: FailureMessages;
  readonly #fields: Fields | undefined;
  #isFailing = false;

  /** `fields`: of both lines */
  constructor(log: FailureLines, messages: FailureMessages, fields?: Fields) {
    this.#log = log;
    this.#messages = messages;
    this.#fields = fields;
  }

  get isFailing(): boolean {
    return this.#isFailing;
  }

  failed(error: unknown): void {
    if (!this.#isFailing) this.#log.error(this.#messages.failure, error, this.#fields);
    this.#isFailing = true;
  }

  succeeded(): void {
    const { end } = this.#messages;
    if (this.#isFailing && end !== undefined) this.#log.notice(end, this.#fields);
    this.#isFailing = false;
  }
}
