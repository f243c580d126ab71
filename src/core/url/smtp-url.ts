// smtp.url: where mail is handed in, as one text. Reads it strictly and never repeats it in a message: it holds a password.
// A user's password never travels in the clear unless the text says so.

import type { Parsed } from '../duration.ts';
import { hostPattern, readSwitches } from './url-parts.ts';

export interface SmtpServer {
  /** a name or an address, without the brackets of IPv6 */
  readonly host: string;
  readonly port: number;
  /** TLS from the first byte */
  readonly secure: boolean;
  /** no mail without STARTTLS */
  readonly requireTls: boolean;
  /** no STARTTLS although the server offers it */
  readonly ignoreTls: boolean;
  readonly verifyTls: boolean;
  readonly login: { readonly user: string; readonly password: string } | null;
}

const ports: Readonly<Record<string, number>> = { 'smtp:': 25, 'smtps:': 465 };
const switches = ['requireTLS', 'ignoreTLS', 'tls.rejectUnauthorized'];

/** `smtp://[user:password@]host[:port][?requireTLS=true&ignoreTLS=true&tls.rejectUnauthorized=false]`, or `smtps://`. */
export function parseSmtpUrl(text: string): Parsed<SmtpServer> {
  if (/\s|\p{Cc}/u.test(text) || !URL.canParse(text))
    return wrong('must be smtp://[user:password@]host[:port]');
  const url = new URL(text);
  const port = ports[url.protocol];
  if (port === undefined) return wrong('must begin with smtp:// or smtps://');
  if (!hostPattern.test(url.hostname)) return wrong('has no host, or one that is no name and no address');
  if (url.port === '0') return wrong('must not have port 0');
  if (!['', '/'].includes(url.pathname) || url.hash !== '')
    return wrong('must end after the port or its switches');

  const given = readSwitches(url, switches);
  if (typeof given === 'string') return wrong(given);
  const login = loginOf(url);
  if (login === 'bad') return wrong('needs a user with a password, each percent-encoded');
  const secure = url.protocol === 'smtps:';
  const ignoreTls = given.get('ignoreTLS') ?? false;
  const requireTls = given.get('requireTLS') ?? (login !== null && !secure && !ignoreTls);
  if (requireTls && ignoreTls) return wrong('cannot both require and ignore TLS');
  return {
    ok: true,
    value: {
      host: url.hostname.replace(/^\[|\]$/g, ''),
      port: url.port === '' ? port : Number(url.port),
      secure,
      requireTls,
      ignoreTls,
      verifyTls: given.get('tls.rejectUnauthorized') ?? true,
      login,
    },
  };
}

function loginOf({ username, password }: URL): SmtpServer['login'] | 'bad' {
  if (username === '' && password === '') return null;
  if (username === '' || password === '') return 'bad';
  try {
    return { user: decodeURIComponent(username), password: decodeURIComponent(password) };
  } catch {
    return 'bad'; // the one way to learn that an escape is none
  }
}

function wrong(message: string): Parsed<never> {
  return { ok: false, message };
}
