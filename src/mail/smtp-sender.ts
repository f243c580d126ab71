// Sends one mail to the mail server and returns the server's answer for each recipient. Never retries.
// Invariant: recipients are validated addresses and are never parsed again. Data sets no envelope, header or
// path. The text is plain text.

import type { Transporter } from 'nodemailer';
import { reasonOf } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import { isMailAddress } from '../core/mail-address.ts';
import { parseSmtpUrl, type SmtpServer } from '../core/url/smtp-url.ts';
import { mailLimits } from './limits.ts';

export interface Mail {
  /** 1 or more valid addresses */
  readonly to: readonly string[];
  /** one line */
  readonly subject: string;
  readonly text: string;
}

/** refused: for good (5xx); deferred: may be tried again (4xx) */
export type Answer =
  | { readonly kind: 'accepted' }
  | { readonly kind: 'refused' | 'deferred'; readonly reason: string };

export type Sent =
  /** one answer for each address */
  | { readonly kind: 'answered'; readonly answers: ReadonlyMap<string, Answer> }
  /** no answer for any address: no connection, TLS or login, sender rejected, connection cut; the mail may
   *  have arrived */
  | { readonly kind: 'failed'; readonly reason: string };

export interface MailSender {
  /** Resolves within limits.mailMs. Rejects only for an invalid address, which is an error of the caller. */
  send(mail: Mail, signal?: AbortSignal): Promise<Sent>;
}

/** ms */
export interface MailTimes {
  readonly wholeMs: number;
  /** name lookup, connection and greeting, each */
  readonly connectMs: number;
  /** silence of the server */
  readonly idleMs: number;
}

const usualTimes: MailTimes = {
  wholeMs: limits.mailMs,
  connectMs: mailLimits.mailConnectMs,
  idleMs: mailLimits.mailIdleMs,
};

/** null without smtp.url. Throws for an invalid smtp.url. `times`: shorter in tests. */
export function openMailSender(
  config: { readonly 'smtp.url': string; readonly 'smtp.from': string },
  times: MailTimes = usualTimes,
): MailSender | null {
  if (config['smtp.url'] === '') return null;
  const server = parseSmtpUrl(config['smtp.url']);
  if (!server.ok) throw new Error(`smtp.url ${server.message}`);
  let transport: Promise<Transporter> | null = null;
  return {
    async send({ to, subject, text }, signal) {
      const invalid = to.find((address) => !isMailAddress(address));
      if (invalid !== undefined) throw new Error(`invalid mail address: ${JSON.stringify(invalid)}`);
      const timeout = AbortSignal.timeout(times.wholeMs);
      try {
        transport ??= openTransport(server.value, times).catch((error: unknown) => {
          // The files of a package are replaced under a running process; the next mail tries again.
          transport = null;
          throw error;
        });
        const info = (await (
          await transport
        ).sendMail({
          from: { name: 'dq', address: config['smtp.from'] },
          to: to.map((address) => ({ name: '', address })),
          subject: subject.replace(/\p{Cc}+/gu, ' '),
          text,
          // Suppresses vacation replies and tickets.
          headers: { 'Auto-Submitted': 'auto-generated' },
          disableFileAccess: true,
          disableUrlAccess: true,
          signal: signal === undefined ? timeout : AbortSignal.any([signal, timeout]),
        })) as SmtpError;
        return answersOf(to, info.rejectedErrors ?? []);
      } catch (error) {
        return judge(to, error as SmtpError);
      }
    },
  };
}

/** Imports nodemailer with the first mail: most processes never send one. */
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

/** The fields of nodemailer's errors that are read here. */
interface SmtpError {
  readonly command?: string;
  readonly responseCode?: number;
  readonly response?: string;
  readonly recipient?: string;
  readonly rejectedErrors?: readonly SmtpError[];
}

function judge(to: readonly string[], error: SmtpError): Sent {
  if (error.command === 'RCPT TO' && error.rejectedErrors !== undefined)
    return answersOf(to, error.rejectedErrors);
  // An answer to the text counts for every address.
  if (error.command === 'DATA' && (error.responseCode ?? 0) >= 400)
    return { kind: 'answered', answers: new Map(to.map((address) => [address, rejectionOf(error)])) };
  return { kind: 'failed', reason: reasonOf(error) };
}

/** Addresses that are not rejected are accepted: the server's own list of these may spell a domain in another
 *  way. */
function answersOf(to: readonly string[], rejected: readonly SmtpError[]): Sent {
  const errors = new Map(rejected.map((error) => [error.recipient?.toLowerCase(), error]));
  const answers = to.map((address): [string, Answer] => {
    const error = errors.get(address.toLowerCase());
    return [address, error === undefined ? { kind: 'accepted' } : rejectionOf(error)];
  });
  return { kind: 'answered', answers: new Map(answers) };
}

function rejectionOf(error: SmtpError): Answer {
  const isFinal = (error.responseCode ?? 0) >= 500;
  return { kind: isFinal ? 'refused' : 'deferred', reason: error.response ?? reasonOf(error) };
}
