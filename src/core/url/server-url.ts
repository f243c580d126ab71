// The parts that the server URLs of smtp.url, mysql.url and redis share: scheme, host, port, login, switches.
// Reads them strictly. A message never repeats the URL: it can contain a password.

import type { Parsed } from '../duration.ts';

export interface ServerUrl {
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

export function wrong(message: string): Parsed<never> {
  return { ok: false, message };
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
