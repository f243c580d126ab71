// FailureLog writes one line when a failure starts, one for each further reason of it, and one when it ends,
// however often the work fails in between. A server that first does not answer in time and then rejects the
// password has two reasons, and only the second one has a remedy.

/** Reasons of one failure that are logged. A server that starts or stops gives about three. */
const reasonsMax = 4;

/** The part of a log that it needs. */
export interface FailureLines {
  error(message: string, error?: unknown, fields?: Fields): void;
  notice(message: string, fields?: Fields): void;
}
type Fields = Readonly<Record<string, unknown>>;

export interface FailureMessages {
  /** `recoverer: cannot recover leases` */
  readonly failure: string;
  /** `recoverer: recovers leases again` */
  readonly end: string;
}

export class FailureLog {
  readonly #log: FailureLines;
  readonly #messages: FailureMessages;
  readonly #fields: Fields | undefined;
  /** Reasons of the present failure that are logged. */
  readonly #reasons = new Set<string>();
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
    const reason = sameness(error);
    if (!this.#reasons.has(reason) && this.#reasons.size < reasonsMax) {
      this.#reasons.add(reason);
      this.#log.error(this.#messages.failure, error, this.#fields);
    }
    this.#isFailing = true;
  }

  succeeded(): void {
    if (this.#isFailing) this.#log.notice(this.#messages.end, this.#fields);
    this.#isFailing = false;
    this.#reasons.clear();
  }
}

/** The texts of an error and of its causes, without numbers: those are often times or ports. */
function sameness(error: unknown): string {
  const texts: string[] = [];
  for (let at = error; at !== undefined && texts.length < 10; at = at instanceof Error ? at.cause : undefined)
    texts.push(at instanceof Error ? at.message : String(at));
  return texts.join('\n').replace(/\d+/g, '0');
}
