// mysql.url: a MySQL or MariaDB server as one text. The client library gets these values only: it would read
// any of its settings from a URL.

import type { Parsed } from '../duration.ts';
import { parseServerUrl, wrong } from './server-url.ts';

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

/** Names that need no quoting in SQL. */
const databasePattern = /^\/[A-Za-z0-9_-]{1,64}$/;
const form = {
  form: 'mysql://user[:password]@host[:port]/database',
  ports: { 'mysql:': 3306 },
  switches: ['tls', 'tls.rejectUnauthorized'],
};

/** `mysql://user[:password]@host[:port]/database[?tls=true&tls.rejectUnauthorized=false]` */
export function parseMysqlUrl(text: string): Parsed<MysqlServer> {
  const parsed = parseServerUrl(text, form);
  if (!parsed.ok) return parsed;
  const { host, port, user, password, path, switches } = parsed.value;
  if (!databasePattern.test(path))
    return wrong('must name a database of letters, digits, _ and - after the host');
  if (user === '') return wrong('needs a user');
  const isVerified = switches.get('tls.rejectUnauthorized') ?? true;
  const hasTls = switches.get('tls') === true;
  if (!isVerified && !hasTls) return wrong('has tls.rejectUnauthorized without tls=true; add tls=true');
  const tls = !hasTls ? 'off' : isVerified ? 'verified' : 'unverified';
  return { ok: true, value: { host, port, user, password, database: path.slice(1), tls } };
}

/** `127.0.0.1:3306/dq`: identifies the registry, without the login. */
export function placeOf({ host, port, database }: MysqlServer): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}/${database}`;
}
