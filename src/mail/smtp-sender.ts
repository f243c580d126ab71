// Hands one letter to the mail server and says, address by address, what became of it. Owns the connection, its time limits
// and the reading of SMTP's answers; tries nothing again and remembers nothing.
// Invariant: recipients are validated addresses that travel as such, never as text that is parsed again; no envelope, no
// header and no path is ever taken from data; what is sent is plain text.

import type { Transporter } from 'nodemailer';
import { reasonOf } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import { isMailAddress } from '../core/mail-address.ts';
import { parseSmtpUrl, type SmtpServer } from '../core/url/smtp-url.ts';
import { mailLimits } from './limits.ts';

export interface Letter {
  /** 1 or more, all of them valid */
  readonly to: readonly string[];
  /** one line */
  readonly subject: string;
  readonly text: string;
}

/** accepted · refused for good (5xx) · deferred: to be tried again (4xx) */
export type Answer =
  | { readonly kind: 'accepted' }
  | { readonly kind: 'refused' | 'deferred'; readonly reason: string };

export type Sent =
  /** the server has decided about each address */
  | { readonly kind: 'answered'; readonly answers: ReadonlyMap<string, Answer> }
  /** it decided about none: not reached, no TLS, no login, sender refused, cut off; the letter may have arrived all the same */
  | { readonly kind: 'failed'; readonly reason: string };

export interface MailSender {
  /** Ends within limits.mailMs. Rejects for an invalid address alone: the caller has made a mistake. */
  send(letter: Letter, signal?: AbortSignal): Promise<Sent>;
}

export interface MailTimes {
  /** of a whole letter */
  readonly wholeMs: number;
  /** name, connection and greeting each */
  readonly connectMs: number;
  /** a server that says nothing */
  readonly idleMs: number;
}

const usualTimes: MailTimes = {
  wholeMs: limits.mailMs,
  connectMs: mailLimits.mailConnectMs,
  idleMs: mailLimits.mailIdleMs,
};

/** null without smtp.url. `times`: for tests that cannot wait for the limits. */
export function openMailSender(
  config: { readonly 'smtp.url': string; readonly 'smtp.from': string },
  times: MailTimes = usualTimes,
): MailSender | null {
  if (config['smtp.url'] === '') return null;
  const server = parseSmtpUrl(config['smtp.url']);
  if (!server.ok) throw new Error(`smtp.url ${server.message}`);
  return new SmtpSender(server.value, config['smtp.from'], times);
}

/** Of nodemailer's errors, as far as they are read here. */
interface SmtpError {
  readonly command?: string;
  readonly responseCode?: number;
  readonly response?: string;
  readonly recipient?: string;
  readonly rejectedErrors?: readonly SmtpError[];
}

class SmtpSender implements MailSender {
  readonly #server: SmtpServer;
  readonly #from: string;
  readonly #times: MailTimes;
  #transport: Promise<Transporter> | null = null;

  constructor(server: SmtpServer, from: string, times: MailTimes) {
    this.#server = server;
    this.#from = from;
    this.#times = times;
  }

  async send({ to, subject, text }: Letter, signal?: AbortSignal): Promise<Sent> {
    const wrong = to.find((address) => !isMailAddress(address));
    if (wrong !== undefined) throw new Error(`no mail address: ${JSON.stringify(wrong)}`);
    const ends = AbortSignal.timeout(this.#times.wholeMs);
    try {
      this.#transport ??= openTransport(this.#server, this.#times);
      const info = (await (
        await this.#transport
      ).sendMail({
        from: { name: 'dq', address: this.#from },
        to: to.map((address) => ({ name: '', address })),
        subject: subject.replace(/\p{Cc}+/gu, ' '),
        text,
        // Vacation replies and ticket systems answer nobody.
        headers: { 'Auto-Submitted': 'auto-generated' },
        disableFileAccess: true,
        disableUrlAccess: true,
        signal: signal === undefined ? ends : AbortSignal.any([signal, ends]),
      })) as SmtpError;
      return answered(to, info.rejectedErrors ?? []);
    } catch (error) {
      return judge(to, error);
    }
  }
}

/** Loaded with the first letter: most processes never send one. */
async function openTransport(server: SmtpServer, times: MailTimes): Promise<Transporter> {
  const { createTransport } = await import('nodemailer');
  const { host, port, secure, requireTls, ignoreTls, verifyTls, login } = server;
  return createTransport({
    host,
    port,
    secure,
    requireTLS: requireTls,
    ignoreTLS: ignoreTls,
    tls: { rejectUnauthorized: verifyTls },
    ...(login === null ? {} : { auth: { user: login.user, pass: login.password } }),
    dnsTimeout: times.connectMs,
    connectionTimeout: times.connectMs,
    greetingTimeout: times.connectMs,
    socketTimeout: times.idleMs,
    maxResponseSize: mailLimits.mailReplyBytesMax,
    disableFileAccess: true,
    disableUrlAccess: true,
  }) as Transporter;
}

function judge(to: readonly string[], error: unknown): Sent {
  const { command, responseCode = 0, rejectedErrors } = error as SmtpError;
  if (command === 'RCPT TO' && rejectedErrors !== undefined) return answered(to, rejectedErrors);
  // What the server says to the letter itself it says of every address.
  if (command === 'DATA' && responseCode >= 400) {
    const answer = refusalOf(error as SmtpError);
    return { kind: 'answered', answers: new Map(to.map((address) => [address, answer])) };
  }
  return { kind: 'failed', reason: reasonOf(error) };
}

/** By exclusion: the server's list of the accepted may spell a domain in another way. */
function answered(to: readonly string[], refused: readonly SmtpError[]): Sent {
  const byAddress = new Map(refused.map((one) => [one.recipient?.toLowerCase(), one]));
  const answers = new Map<string, Answer>(
    to.map((address) => {
      const error = byAddress.get(address.toLowerCase());
      return [address, error === undefined ? { kind: 'accepted' } : refusalOf(error)];
    }),
  );
  return { kind: 'answered', answers };
}

function refusalOf(error: SmtpError): Answer {
  const final = (error.responseCode ?? 0) >= 500;
  return { kind: final ? 'refused' : 'deferred', reason: error.response ?? reasonOf(error) };
}
