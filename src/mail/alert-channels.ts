// Sends alerts to their recipients: mail addresses through the mail server, names of hooks through HTTP.
// Invariant: a failure of the mail server stops no hook, and a failure of a hook stops nothing else.

import { isMailAddress } from '../core/alert-receiver.ts';
import type { HookSender } from './hook-sender.ts';
import type { Answer, Answers, Mail, MailCircuitBreaker } from './smtp-sender.ts';

const noAnswers: Answers = new Map();

export class AlertChannels {
  readonly #mails: MailCircuitBreaker;
  readonly #hooks: HookSender;

  constructor(mails: MailCircuitBreaker, hooks: HookSender) {
    this.#mails = mails;
    this.#hooks = hooks;
  }

  /** false: the mail server is paused, and there is no hook */
  get areOpen(): boolean {
    return !this.#mails.isOpen() || this.#hooks.names.length > 0;
  }

  get canMail(): boolean {
    return this.#mails.canSend;
  }

  /** false: an address without a mail server, or a name that alerts.hooks lacks */
  canReach(recipient: string): boolean {
    return isMailAddress(recipient) ? this.#mails.canSend : this.#hooks.has(recipient);
  }

  /** Whether the recipient gets nothing now, after a failure. */
  isPaused(recipient: string): boolean {
    return isMailAddress(recipient) ? this.#mails.isOpen() : this.#hooks.isPaused(recipient);
  }

  /** ms to wait after `failures` (1 or more) in a row */
  backoffMs(failures: number): number {
    return this.#mails.backoffMs(failures);
  }

  /** Sends to all of `to`, which canReach() accepts, at the same time. */
  async send({ to, ...text }: Mail, signal: AbortSignal): Promise<Answers> {
    const addresses = to.filter(isMailAddress);
    const names = to.filter((recipient) => !isMailAddress(recipient));
    const post = async (name: string): Promise<[string, Answer]> => [
      name,
      await this.#hooks.send(name, text, signal),
    ];
    const [mailed, posted] = await Promise.all([
      addresses.length === 0 ? noAnswers : this.#mails.send({ ...text, to: addresses }, signal),
      Promise.all(names.map(post)),
    ]);
    return new Map([...mailed, ...posted]);
  }
}
