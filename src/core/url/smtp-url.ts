// smtp.url: the mail server as one text. A password never travels in the clear unless the text says so.

import type { Parsed } from '../duration.ts';
import { parseServerUrl, wrong } from './server-url.ts';

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

const form = {
  form: 'smtp://[user:password@]host[:port]',
  ports: { 'smtp:': 25, 'smtps:': 465 },
  switches: ['requireTLS', 'ignoreTLS', 'tls.rejectUnauthorized'],
};

/** `smtp://[user:password@]host[:port][?requireTLS=true&ignoreTLS=true&tls.rejectUnauthorized=false]`, or
 *  `smtps://`. */
export function parseSmtpUrl(text: string): Parsed<SmtpServer> {
  const parsed = parseServerUrl(text, form);
  if (!parsed.ok) return parsed;
  const { scheme, host, port, user, password, path, switches } = parsed.value;
  if (path !== '' && path !== '/') return wrong('must end after the port or its switches');
  if ((user === '') !== (password === '')) return wrong('needs both a user and a password');
  const login = user === '' ? null : { user, password };
  const secure = scheme === 'smtps:';
  const ignoreTls = switches.get('ignoreTLS') ?? false;
  const requireTls = switches.get('requireTLS') ?? (login !== null && !secure && !ignoreTls);
  if (requireTls && ignoreTls) return wrong('cannot both require and ignore TLS; write one of them');
  const verifyTls = switches.get('tls.rejectUnauthorized') ?? true;
  return { ok: true, value: { host, port, secure, requireTls, ignoreTls, verifyTls, login } };
}
