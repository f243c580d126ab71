// One address of `redis`: a server, a Sentinel group or a Cluster. Reads it strictly. A message never
// repeats it: it can contain a password.

import type { Parsed } from '../duration.ts';
import { decodeLogin, hostPattern, withoutBrackets, wrong } from './server-url.ts';

export interface RedisHost {
  /** a name or an address, without the brackets of IPv6 */
  readonly host: string;
  readonly port: number;
}

export interface RedisAddress {
  /** `server`: one host · `sentinel`: the sentinels, which know the master · `cluster`: some of its
   *  nodes */
  readonly kind: 'server' | 'sentinel' | 'cluster';
  readonly hosts: readonly RedisHost[];
  readonly tls: boolean;
  /** the sentinels' name of the master */
  readonly master: string | null;
  readonly user: string | null;
  readonly password: string | null;
  readonly database: number;
  /** the address without its login */
  readonly shown: string;
}

const kinds = {
  'redis:': { kind: 'server', tls: false, port: 6379 },
  'rediss:': { kind: 'server', tls: true, port: 6379 },
  'redis+sentinel:': { kind: 'sentinel', tls: false, port: 26_379 },
  'redis+cluster:': { kind: 'cluster', tls: false, port: 6379 },
} as const;
const pattern = /^([a-z+]+:)\/\/(?:([^@/\s]*)@)?([^@/?#\s]+)(?:\/([^/?#\s]*))?$/;
/** a host with an optional port */
const placePattern = /^(\[[^\]]*\]|[^:]*)(?::(\d{1,5}))?$/;
const form = {
  server: 'redis://[[user]:password@]host[:port][/database]',
  sentinel: 'redis+sentinel://[[user]:password@]host[:port],host[:port]/master',
  cluster: 'redis+cluster://[[user]:password@]host[:port],host[:port]',
} as const;

export function parseRedisUrl(text: string): Parsed<RedisAddress> {
  const [, protocol = '', login, hosts = '', path = ''] = pattern.exec(text) ?? [];
  const scheme = Object.hasOwn(kinds, protocol) ? kinds[protocol as keyof typeof kinds] : undefined;
  if (scheme === undefined)
    return wrong(
      'must begin with redis://, rediss://, redis+sentinel:// or redis+cluster://, and name a host',
    );
  const { kind, tls } = scheme;
  const parsed = hosts.split(',').map((host) => parseHost(host, scheme.port));
  const known = parsed.filter((host) => host !== null);
  if (known.length < parsed.length || (kind === 'server' && known.length > 1))
    return wrong(`must be ${form[kind]}`);
  if (kind === 'server' && !/^\d{0,4}$/.test(path))
    return wrong(`must end with the number of a database: ${form.server}`);
  if (kind === 'sentinel' && !/^[A-Za-z0-9._-]{1,100}$/.test(path))
    return wrong(`must end with the sentinels' name of the master: ${form.sentinel}`);
  if (kind === 'cluster' && path !== '') return wrong(`has no database: ${form.cluster}`);
  const credentials = loginOf(login);
  if (credentials === null) return wrong('needs a password with its user, each percent-encoded');
  return {
    ok: true,
    value: {
      kind,
      hosts: known,
      tls,
      master: kind === 'sentinel' ? path : null,
      ...credentials,
      database: kind === 'server' ? Number(path) : 0,
      shown: `${protocol}//${hosts}${path === '' ? '' : `/${path}`}`,
    },
  };
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

/** Whether both addresses have the same user, password and TLS. */
export function isSameLogin(one: string, other: string): boolean {
  const [a, b] = [redisAddress(one), redisAddress(other)];
  return a.user === b.user && a.password === b.password && a.tls === b.tls;
}

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
