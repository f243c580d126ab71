// Sends the mails of this process and stops all of them for a while after a failure of the mail server or of
// the way to it.
// Owns the backoff: each failure in a row doubles the pause, from `min` to `max` ms.

import { monotonicNow } from '../runtime/time.ts';
import type { Log } from '../telemetry/log.ts';
import type { Answers, Mail, MailSender } from './smtp-sender.ts';

/** ms */
export interface BackoffTimes {
  readonly min: number;
  readonly max: number;
}

export class MailCircuitBreaker {
  readonly #sender: MailSender | null;
  readonly #log: Log;
  readonly #times: BackoffTimes;
  #failures = 0;
  /** monotonicNow() */
  #openUntil = 0;

  constructor(sender: MailSender | null, log: Log, times: BackoffTimes) {
    this.#sender = sender;
    this.#log = log;
    this.#times = times;
  }

  /** false = no mail server is configured */
  get canSend(): boolean {
    return this.#sender !== null;
  }

  /** true = no mail is sent now */
  isOpen(): boolean {
    return monotonicNow() < this.#openUntil;
  }

  /** ms to wait after `failures` (1 or more) in a row */
  backoffMs(failures: number): number {
    return Math.min(this.#times.min * 2 ** Math.min(failures - 1, 30), this.#times.max);
  }

  async send(mail: Mail, signal: AbortSignal): Promise<Answers> {
    if (this.#sender === null) throw new Error('no mail server is configured');
    const answers = await this.#sender.send(mail, signal);
    const failed = [...answers.values()].find((answer) => answer.kind === 'failed');
    if (failed === undefined) {
      if (this.#failures > 0) this.#log.notice('mailer: mails are sent again');
      this.#failures = 0;
    } else if (!signal.aborted) {
      this.#failures += 1;
      const retryMs = this.backoffMs(this.#failures);
      this.#openUntil = monotonicNow() + retryMs;
      this.#log.error('mailer: cannot send mails', undefined, { reason: failed.reason, retryMs });
    }
    return answers;
  }
}
