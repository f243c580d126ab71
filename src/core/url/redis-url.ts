// One address of `redis`: a server, a Sentinel group or a Cluster. Reads it strictly. A message never
// repeats it: it can contain a password.

import { type Parsed, wrong } from '../duration.ts';
import { suggest } from '../suggest.ts';
import { decodeLogin, hostPattern, withoutBrackets } from './server-url.ts';

interface RedisHost {
  /** a name or an address, without the brackets of IPv6 */
  readonly host: string;
  readonly port: number;
}

export interface RedisAddress {
  /** `server`: one host · `sentinel`: the sentinels, which know the master · `cluster`: some of its
   *  nodes */
  readonly kind: 'server' | 'sentinel' | 'cluster';
  readonly hosts: readonly RedisHost[];
  /** to the servers that hold the jobs */
  readonly tls: boolean;
  /** the sentinels' name of the master */
  readonly master: string | null;
  /** of the servers that hold the jobs */
  readonly user: string | null;
  readonly password: string | null;
  readonly database: number;
  /** of the sentinels */
  readonly sentinelUser: string | null;
  readonly sentinelPassword: string | null;
  readonly sentinelTls: boolean;
  /** the name in the certificates of servers that are named by IP; null = that IP */
  readonly servername: string | null;
  readonly verifyTls: boolean;
  /** the address without its login and its parameters */
  readonly shown: string;
  /** begins a further parameter of this address */
  readonly separator: '?' | '&';
}

const kinds = {
  'redis:': { kind: 'server', tls: false, port: 6379 },
  'rediss:': { kind: 'server', tls: true, port: 6379 },
  'redis+sentinel:': { kind: 'sentinel', tls: false, port: 26_379 },
  'rediss+sentinel:': { kind: 'sentinel', tls: true, port: 26_379 },
  'redis+cluster:': { kind: 'cluster', tls: false, port: 6379 },
  'rediss+cluster:': { kind: 'cluster', tls: true, port: 6379 },
} as const;
type Scheme = (typeof kinds)[keyof typeof kinds];

/** The parameters after the question mark, each with the schemes that it belongs to. */
const parameters = {
  sentinelUser: ({ kind }) => kind === 'sentinel',
  sentinelPassword: ({ kind }) => kind === 'sentinel',
  sentinelTls: ({ kind, tls }) => kind === 'sentinel' && tls,
  servername: ({ tls }) => tls,
  'tls.rejectUnauthorized': ({ tls }) => tls,
} as const satisfies Readonly<Record<string, (scheme: Scheme) => boolean>>;
type Parameter = keyof typeof parameters;
const parameterNames = Object.keys(parameters) as readonly Parameter[];

const pattern = /^([a-z+]+:)\/\/(?:([^@/\s]*)@)?([^@/?#\s]+)(?:\/([^/?#\s]*))?(?:\?([^#\s]*))?$/;
/** a host with an optional port */
const placePattern = /^(\[[^\]]*\]|[^:]*)(?::(\d{1,5}))?$/;
const form = {
  server: '[[user]:password@]host[:port][/database]',
  sentinel: '[[user]:password@]host[:port],host[:port]/master',
  cluster: '[[user]:password@]host[:port],host[:port]',
} as const;

export function parseRedisUrl(text: string): Parsed<RedisAddress> {
  const [, protocol = '', login, hosts = '', path = '', query] = pattern.exec(text) ?? [];
  const scheme = Object.hasOwn(kinds, protocol) ? kinds[protocol as keyof typeof kinds] : undefined;
  if (scheme === undefined)
    return wrong(
      'must begin with redis://, redis+sentinel:// or redis+cluster://, with TLS rediss://, rediss+sentinel:// or rediss+cluster://, and name a host',
    );
  const { kind, tls } = scheme;
  const parsed = hosts.split(',').map((host) => parseHost(host, scheme.port));
  const known = parsed.filter((host) => host !== null);
  if (known.length < parsed.length || (kind === 'server' && known.length > 1))
    return wrong(`must be ${protocol}//${form[kind]}`);
  if (kind === 'server' && !/^\d{0,4}$/.test(path))
    return wrong(`must end with the number of a database: ${protocol}//${form.server}`);
  if (kind === 'sentinel' && !/^[A-Za-z0-9._-]{1,100}$/.test(path))
    return wrong(`must end with the sentinels' name of the master: ${protocol}//${form.sentinel}`);
  if (kind === 'cluster' && path !== '') return wrong(`has no database: ${protocol}//${form.cluster}`);
  const credentials = loginOf(login);
  if (credentials === null) return wrong('needs a password with its user, each percent-encoded');
  const given = readParameters(query ?? '', scheme);
  if (typeof given === 'string') return wrong(given);
  return {
    ok: true,
    value: {
      kind,
      hosts: known,
      tls,
      master: kind === 'sentinel' ? path : null,
      ...credentials,
      database: kind === 'server' ? Number(path) : 0,
      sentinelUser: given.get('sentinelUser') ?? null,
      sentinelPassword: given.get('sentinelPassword') ?? null,
      sentinelTls: kind === 'sentinel' && tls && given.get('sentinelTls') !== 'false',
      servername: given.get('servername') ?? null,
      verifyTls: given.get('tls.rejectUnauthorized') !== 'false',
      shown: `${protocol}//${hosts}${path === '' ? '' : `/${path}`}`,
      separator: given.size === 0 ? '?' : '&',
    },
  };
}

/** The given parameters, decoded; the message for any other text. */
function readParameters(query: string, scheme: Scheme): ReadonlyMap<Parameter, string> | string {
  const given = new Map<Parameter, string>();
  for (const item of query === '' ? [] : query.split('&')) {
    const [, name = '', encoded = ''] = /^([^=]*)=(.*)$/.exec(item) ?? [];
    const known = parameterNames.find((one) => one === name);
    if (known === undefined) return unknownParameter(name, scheme);
    if (!parameters[known](scheme)) return `${known} belongs to ${schemesOf(known)}`;
    if (given.has(known)) return `has ${known} twice`;
    const value = decoded(encoded);
    const wrong = value === null ? 'must be percent-encoded' : whyNot(known, value);
    if (value === null || wrong !== null) return `${known} ${wrong}`;
    given.set(known, value);
  }
  if (given.has('sentinelUser') && !given.has('sentinelPassword'))
    return 'sentinelUser needs sentinelPassword';
  return given;
}

function unknownParameter(name: string, scheme: Scheme): string {
  const known = parameterNames.filter((one) => parameters[one](scheme));
  const near = suggest(name, known);
  if (near !== null) return `unknown parameter ${JSON.stringify(name)}; did you mean ${near}?`;
  // The text can be a part of a password that is not percent-encoded: no message repeats it.
  const remedy = known.length === 0 ? 'this form of address has none' : `write ${known.join(', ')}`;
  return `unknown parameter after the question mark; ${remedy}; a question mark in a password is %3F`;
}

function schemesOf(name: Parameter): string {
  const schemes = Object.entries(kinds).flatMap(([scheme, kind]) =>
    parameters[name](kind) ? [`${scheme}//`] : [],
  );
  return schemes.join(', ').replace(/, (?=[^,]*$)/, ' or ');
}

/** what is wrong with the value, as the end of a sentence about its parameter; null = nothing */
function whyNot(name: Parameter, value: string): string | null {
  if (value === '') return 'must not be empty';
  if (name === 'servername')
    return hostPattern.test(value) && !/^(\[|[\d.]+$)/.test(value) ? null : 'must be a host name';
  if (name === 'sentinelTls' || name === 'tls.rejectUnauthorized')
    return /^(true|false)$/.test(value) ? null : 'must be true or false';
  return null;
}

/** null = invalid percent-encoding */
function decoded(text: string): string | null {
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}

/** Parses an address that was valid before. */
export function redisAddress(url: string): RedisAddress {
  const parsed = parseRedisUrl(url);
  if (!parsed.ok) throw new Error(`invalid address of Redis: ${parsed.message}`);
  return parsed.value;
}

/** Whether both name the same server, group or Cluster and the same database, whatever login and TLS are. */
export function isSamePlace(one: string, other: string): boolean {
  const placeOf = (url: string) => {
    const { kind, hosts, master, database } = redisAddress(url);
    return JSON.stringify([kind, hosts.map(({ host, port }) => `${host} ${port}`).sort(), master, database]);
  };
  return placeOf(one) === placeOf(other);
}

/** Whether both addresses reach their servers with the same logins and the same TLS. */
export function isSameLogin(one: string, other: string): boolean {
  const accessOf = (url: string) => {
    const { user, password, tls, servername, verifyTls, ...sentinels } = redisAddress(url);
    const { sentinelUser, sentinelPassword, sentinelTls } = sentinels;
    const own = [user, password, tls, servername, verifyTls];
    return JSON.stringify([...own, sentinelUser, sentinelPassword, sentinelTls]);
  };
  return accessOf(one) === accessOf(other);
}

/** `shown`: of an address without verification of certificates */
export const uncheckedSentence = (shown: string): string =>
  `dq does not check the certificates of ${shown} (tls.rejectUnauthorized=false)`;

function parseHost(text: string, usual: number): RedisHost | null {
  const [, name = '', digits] = placePattern.exec(text) ?? [];
  const port = digits === undefined ? usual : Number(digits);
  if (!hostPattern.test(name) || port === 0 || port > 65_535) return null;
  return { host: withoutBrackets(name), port };
}

function loginOf(login: string | undefined): Pick<RedisAddress, 'user' | 'password'> | null {
  if (login === undefined) return { user: null, password: null };
  const colon = login.indexOf(':');
  if (colon < 0 || colon === login.length - 1) return null;
  const decoded = decodeLogin(login.slice(0, colon), login.slice(colon + 1));
  return decoded && { user: decoded.user === '' ? null : decoded.user, password: decoded.password };
}
