// mysql.url: where a MySQL or MariaDB server is, as one text. Reads it strictly and never repeats it in a message: it holds a
// password. Nothing but what stands here reaches the client library, which would read any of its settings from a URL.

import type { Parsed } from '../duration.ts';
import { hostPattern, readSwitches } from './url-parts.ts';

export interface MysqlServer {
  /** a name or an address, without the brackets of IPv6 */
  readonly host: string;
  readonly port: number;
  readonly user: string;
  /** '' = none */
  readonly password: string;
  readonly database: string;
  readonly tls: 'off' | 'verified' | 'unverified';
}

const defaultPort = 3306;
/** What needs no quoting in any statement that a person might type. */
const databasePattern = /^\/[A-Za-z0-9_-]{1,64}$/;
const switches = ['tls', 'tls.rejectUnauthorized'];
const form = 'mysql://user[:password]@host[:port]/database';

/** `mysql://user[:password]@host[:port]/database[?tls=true&tls.rejectUnauthorized=false]` */
export function parseMysqlUrl(text: string): Parsed<MysqlServer> {
  // `mysql:` is no scheme that URL knows: it would take a host of any letters.
  if (/\s|\p{Cc}/u.test(text) || !URL.canParse(text)) return wrong(`must be ${form}`);
  const url = new URL(text);
  if (url.protocol !== 'mysql:') return wrong('must begin with mysql://');
  if (!hostPattern.test(url.hostname)) return wrong('has no host, or one that is no name and no address');
  if (url.port === '0') return wrong('must not have port 0');
  if (!databasePattern.test(url.pathname) || url.hash !== '')
    return wrong('must name a database of letters, digits, _ and - after the host');

  const given = readSwitches(url, switches);
  if (typeof given === 'string') return wrong(given);
  const login = loginOf(url);
  if (login === null) return wrong('needs a user, percent-encoded as the password is');
  const isVerified = given.get('tls.rejectUnauthorized') ?? true;
  if (!isVerified && given.get('tls') !== true) return wrong('has tls.rejectUnauthorized without tls=true');
  return {
    ok: true,
    value: {
      host: url.hostname.replace(/^\[|\]$/g, ''),
      port: url.port === '' ? defaultPort : Number(url.port),
      ...login,
      database: url.pathname.slice(1),
      tls: given.get('tls') !== true ? 'off' : isVerified ? 'verified' : 'unverified',
    },
  };
}

/** `127.0.0.1:3306/dq`: which registry it is, without who asks */
export function placeOf({ host, port, database }: MysqlServer): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}/${database}`;
}

function loginOf({ username, password }: URL): { user: string; password: string } | null {
  try {
    const user = decodeURIComponent(username);
    return user === '' ? null : { user, password: decodeURIComponent(password) };
  } catch {
    return null; // the one way to learn that an escape is none
  }
}

function wrong(message: string): Parsed<never> {
  return { ok: false, message };
}
