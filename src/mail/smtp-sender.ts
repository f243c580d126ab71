// Sends one mail to the mail server and returns the answer for each recipient. Never retries.
// Invariant: recipients are validated addresses and are never parsed again. Data sets no envelope, header or
// path. The text is plain text.

import type { Socket } from 'node:net';
import type { NodemailerError } from 'nodemailer';
import { isMailAddress, noMail } from '../core/alert-receiver.ts';
import { messageOf } from '../core/errors.ts';
import { parseSmtpUrl } from '../core/url/server-url.ts';
import { openSocket } from '../runtime/dial.ts';
import { monotonicNow, timeoutSignal } from '../runtime/time.ts';
import type { Log } from '../telemetry/log.ts';
import { mailLimits } from './limits.ts';
import type { MailText } from './mail-text.ts';

export interface Mail extends MailText {
  /** 1 or more valid addresses */
  readonly to: readonly string[];
}

/** refused: for good (5xx); deferred: may be tried again (4xx) */
export type Answer =
  | { readonly kind: 'accepted' }
  | { readonly kind: 'refused' | 'deferred'; readonly reason: string }
  /** for all addresses: no connection, TLS or login, sender rejected, connection cut; the mail may have
   *  arrived */
  | { readonly kind: 'failed'; readonly reason: string };

/** by address, one for each of the mail */
export type Answers = ReadonlyMap<string, Answer>;

export interface MailSender {
  /** Resolves within limits.mailMs. Rejects only for an invalid address, which is an error of the caller. */
  send(mail: Mail, signal?: AbortSignal): Promise<Answers>;
}

type GetSocket = (error: Error | null, socket?: { readonly connection: Socket }) => void;

export type MailTimes = Readonly<Record<keyof typeof mailLimits.mailTimes, number>>;

/** null without smtp.url. Throws for an invalid smtp.url. `times`: shorter in tests. */
export function openMailSender(
  config: { readonly 'smtp.url': string; readonly 'smtp.from': string },
  times: MailTimes = mailLimits.mailTimes,
): MailSender | null {
  if (config['smtp.url'] === '') return null;
  const options = transportOf(config['smtp.url'], times);
  return {
    async send({ to, subject, text }, signal) {
      const invalid = to.find((address) => !isMailAddress(address));
      if (invalid !== undefined) throw new Error(`invalid mail address: ${JSON.stringify(invalid)}`);
      const timeout = timeoutSignal(times.wholeMs);
      try {
        // Not at the start: most processes never send a mail.
        const { createTransport } = await import('nodemailer');
        const info = await createTransport(options).sendMail({
          from: { name: 'dq', address: config['smtp.from'] },
          to: to.map((address) => ({ name: '', address })),
          subject: subject.replace(/\p{Cc}+/gu, ' '),
          text,
          // Suppresses vacation replies and tickets.
          headers: { 'Auto-Submitted': 'auto-generated' },
          signal: signal === undefined ? timeout : AbortSignal.any([signal, timeout]),
        });
        return answersOf(to, info.rejectedErrors);
      } catch (caught) {
        const error = caught as NodemailerError;
        const { command, responseCode = 0, rejectedErrors } = error;
        if (command === 'RCPT TO' && rejectedErrors !== undefined) return answersOf(to, rejectedErrors);
        // A reply to the text counts for every address.
        const isAboutText = command === 'DATA' && responseCode >= 400;
        const answer: Answer = isAboutText
          ? rejectionOf(error)
          : { kind: 'failed', reason: messageOf(error) };
        return new Map(to.map((address) => [address, answer]));
      }
    },
  };
}

/** Addresses that are not rejected are accepted: the server's own list of these may spell a domain in another
 *  way. */
function answersOf(to: readonly string[], rejected: readonly NodemailerError[] = []): Answers {
  const errors = new Map(rejected.map((error) => [error.recipient?.toLowerCase(), error]));
  return new Map(
    to.map((address) => {
      const error = errors.get(address.toLowerCase());
      return [address, error === undefined ? { kind: 'accepted' } : rejectionOf(error)];
    }),
  );
}

function rejectionOf(error: NodemailerError): Answer {
  const isFinal = (error.responseCode ?? 0) >= 500;
  return { kind: isFinal ? 'refused' : 'deferred', reason: error.response ?? messageOf(error) };
}

/** Connects as for a mail: greeting, STARTTLS and login; sends none. Returns why no mail would go out;
 *  null: one would. Throws for an invalid URL. */
export async function whyNoMail(url: string, times: MailTimes): Promise<string | null> {
  const options = transportOf(url, times);
  const { createTransport } = await import('nodemailer');
  const transport = createTransport(options);
  try {
    await transport.verify();
    return null;
  } catch (error) {
    return messageOf(error);
  } finally {
    transport.close();
  }
}

/** Throws for an invalid URL. */
function transportOf(url: string, times: MailTimes) {
  const server = parseSmtpUrl(url);
  if (!server.ok) throw new Error(`smtp.url ${server.message}`);
  const { host, port, secure, requireTls, ignoreTls, verifyTls, login } = server.value;
  return {
    host,
    port,
    secure,
    requireTLS: requireTls,
    ignoreTLS: ignoreTls,
    tls: { rejectUnauthorized: verifyTls },
    ...(login === null ? {} : { auth: { user: login.user, pass: login.password } }),
    getSocket: (_: unknown, done: GetSocket) => {
      openSocket({ host, port, timeoutMs: times.connectMs }).then(
        (connection) => done(null, { connection }),
        (error) => done(error),
      );
    },
    connectionTimeout: times.connectMs,
    greetingTimeout: times.connectMs,
    socketTimeout: times.idleMs,
    maxResponseSize: mailLimits.mailReplyBytesMax,
    disableFileAccess: true,
    disableUrlAccess: true,
  };
}

/** ms */
export interface BackoffTimes {
  readonly min: number;
  readonly max: number;
}

/** ms to wait after `failures` (1 or more) in a row */
export const backoffMs = ({ min, max }: BackoffTimes, failures: number): number =>
  Math.min(min * 2 ** Math.min(failures - 1, 30), max);

/** Sends the mails of this process, and stops all of them for a while after a failure of the mail server or
 *  of the way to it. Each failure in a row doubles the pause, from `min` to `max` ms. */
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
    return backoffMs(this.#times, failures);
  }

  async send(mail: Mail, signal: AbortSignal): Promise<Answers> {
    if (this.#sender === null) throw new Error(noMail);
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
