// The one way out for mails of this process: after a failure that is the server's own, or the way's to it, everybody waits,
// longer each time. Owns when that ends, and says once that it began and once that it is over.

import type { Log } from '../telemetry/log.ts';
import type { Letter, MailSender, Sent } from './smtp-sender.ts';

export interface AgainTimes {
  readonly min: number;
  readonly max: number;
}

export class MailCircuitBreaker {
  readonly #sender: MailSender | null;
  readonly #log: Log;
  readonly #times: AgainTimes;
  #failures = 0;
  #closedUntil = 0;

  constructor(sender: MailSender | null, log: Log, times: AgainTimes) {
    this.#sender = sender;
    this.#log = log;
    this.#times = times;
  }

  /** false = there is no mail server to send by, now or later */
  get canSend(): boolean {
    return this.#sender !== null;
  }

  isClosed(): boolean {
    return performance.now() < this.#closedUntil;
  }

  /** How long to wait after so many failures in a row. */
  againMs(failures: number): number {
    return Math.min(this.#times.min * 2 ** Math.min(failures - 1, 30), this.#times.max);
  }

  async send(letter: Letter, signal: AbortSignal): Promise<Sent> {
    if (this.#sender === null) throw new Error('there is no mail server');
    const sent = await this.#sender.send(letter, signal);
    if (sent.kind === 'answered') {
      if (this.#failures > 0) this.#log.notice('mails can be sent again');
      this.#failures = 0;
    } else if (!signal.aborted) {
      this.#failures += 1;
      const againMs = this.againMs(this.#failures);
      this.#closedUntil = performance.now() + againMs;
      this.#log.error('no mail can be sent; it is tried again', undefined, { reason: sent.reason, againMs });
    }
    return sent;
  }
}
