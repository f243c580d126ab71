// smtp.url, mysql.url and console.publicUrl: an address as one text; redis-url.ts reads those of `redis`.
// Reads them strictly. A message never repeats the URL: it can contain a password.

import { type Parsed, wrong } from '../duration.ts';

interface ServerUrl {
  /** with its colon */
  readonly scheme: string;
  /** a name or an address, without the brackets of IPv6 */
  readonly host: string;
  readonly port: number;
  /** decoded; '' = none */
  readonly user: string;
  readonly password: string;
  /** with its slash; '' = none */
  readonly path: string;
  readonly switches: ReadonlyMap<string, boolean>;
}

export interface ServerUrlForm {
  /** shown for an invalid URL */
  readonly form: string;
  /** the default port of each scheme with its colon */
  readonly ports: Readonly<Record<string, number>>;
  /** names that may follow the question mark, each with true or false */
  readonly switches: readonly string[];
}

/** a name, an IPv4 address, or an IPv6 address in brackets */
export const hostPattern = /^([A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?|\[[0-9a-fA-F:.]{2,45}\])$/;

/** Reads `scheme://[user[:password]@]host[:port][/path][?switch=true]`. */
export function parseServerUrl(text: string, { form, ports, switches }: ServerUrlForm): Parsed<ServerUrl> {
  if (/\s|\p{Cc}/u.test(text) || !URL.canParse(text)) return wrong(`must be ${form}`);
  const url = new URL(text);
  const port = Object.hasOwn(ports, url.protocol) ? ports[url.protocol] : undefined;
  if (port === undefined)
    return wrong(
      `must begin with ${Object.keys(ports)
        .map((scheme) => `${scheme}//`)
        .join(' or ')}`,
    );
  // URL accepts a host of any letters in a scheme that it does not know.
  if (!hostPattern.test(url.hostname)) return wrong('must contain a host name or IP address');
  if (url.port === '0') return wrong('must not have port 0');
  if (url.hash !== '') return wrong(`must not have a fragment (#…): ${form}`);
  const login = decodeLogin(url.username, url.password);
  if (login === null) return wrong('must have user and password percent-encoded');
  const given = readSwitches(url, switches);
  if (typeof given === 'string') return wrong(given);
  return {
    ok: true,
    value: {
      scheme: url.protocol,
      host: withoutBrackets(url.hostname),
      port: url.port === '' ? port : Number(url.port),
      ...login,
      path: url.pathname,
      switches: given,
    },
  };
}

/** null = invalid percent-encoding. */
export function decodeLogin(user: string, password: string): Pick<ServerUrl, 'user' | 'password'> | null {
  try {
    return { user: decodeURIComponent(user), password: decodeURIComponent(password) };
  } catch {
    return null;
  }
}

export function withoutBrackets(host: string): string {
  return host.replace(/^\[|\]$/g, '');
}

/** Port of an http URL, which omits port 80. */
export function portOf(url: string): number {
  return Number(new URL(url).port || 80);
}

/** The given switches, each at most once; the message for any other text. */
function readSwitches(url: URL, names: readonly string[]): ReadonlyMap<string, boolean> | string {
  const given = new Map<string, boolean>();
  for (const [name, value] of url.searchParams) {
    if (!names.includes(name) || given.has(name) || !/^(true|false)$/.test(value))
      return `has an unknown or repeated switch; write ${names.map((known) => `${known}=true|false`).join(', ')}`;
    given.set(name, value === 'true');
  }
  return given;
}

interface SmtpServer {
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

const smtpForm = {
  form: 'smtp://[user:password@]host[:port]',
  ports: { 'smtp:': 25, 'smtps:': 465 },
  switches: ['requireTLS', 'ignoreTLS', 'tls.rejectUnauthorized'],
};

/** `smtp://[user:password@]host[:port][?requireTLS=true&ignoreTLS=true&tls.rejectUnauthorized=false]`, or
 *  `smtps://`. A password never travels in the clear unless the text says so. */
export function parseSmtpUrl(text: string): Parsed<SmtpServer> {
  const parsed = parseServerUrl(text, smtpForm);
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

/** The client library gets these values only: it would read any of its settings from a URL. */
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
const mysqlForm = {
  form: 'mysql://user[:password]@host[:port]/database',
  ports: { 'mysql:': 3306 },
  switches: ['tls', 'tls.rejectUnauthorized'],
};

/** `mysql://user[:password]@host[:port]/database[?tls=true&tls.rejectUnauthorized=false]` */
export function parseMysqlUrl(text: string): Parsed<MysqlServer> {
  const parsed = parseServerUrl(text, mysqlForm);
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

/** The address under which browsers reach the console behind a proxy. */
interface PublicUrl {
  /** as browsers write it in the header Origin */
  readonly origin: string;
  /** '' or `/path` without a slash at its end */
  readonly basePath: string;
  readonly isHttps: boolean;
}

const urlCharsMax = 1_024;
/** The path goes into the page as it is. */
const pathPattern = /^(?:\/[A-Za-z0-9._~-]+)*\/?$/;

export function parsePublicUrl(text: string): Parsed<PublicUrl> {
  const url = text.length <= urlCharsMax && URL.canParse(text) ? new URL(text) : null;
  if (url === null || !/^https?:$/.test(url.protocol))
    return wrong('must be a URL such as https://dq.example.org/console');
  if (url.username !== '' || url.password !== '' || url.search !== '' || url.hash !== '')
    return wrong('must have no user, query and fragment');
  if (!pathPattern.test(url.pathname)) return wrong('must have a path of A-Z a-z 0-9 . _ ~ - and /');
  return {
    ok: true,
    value: {
      origin: url.origin,
      basePath: url.pathname.replace(/\/$/, ''),
      isHttps: url.protocol === 'https:',
    },
  };
}
