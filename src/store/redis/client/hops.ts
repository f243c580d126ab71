// Says which server on the way to Redis failed, at which step, and what to do: a sentinel, the master that it
// names, or a node of a Cluster. The library reports a failure without its server, or as "Connection is
// closed." only.

import { isIP } from 'node:net';
import type { PeerCertificate } from 'node:tls';
import { wordsOf } from '../../../core/errors.ts';
import type { RedisAddress } from '../../../core/url/redis-url.ts';
import { DialFailure, HandshakeFailure } from '../../../runtime/dial.ts';
import { SetUpError } from './set-up.ts';

export interface Hop {
  /** server: the only one, which the address names */
  readonly role: 'server' | 'sentinel' | 'master' | 'node';
  readonly host: string;
  readonly port: number;
  /** the sentinel that named this master, as shownPlaceOf */
  readonly namedBy?: string;
}

/** In their order on the way to one server: a failure at a later one says more. */
const steps = ['connection', 'TLS', 'login', 'next address'] as const;
type Step = (typeof steps)[number];

/** dial: until TCP and TLS are open · set-up: until the server has accepted the login */
export type Phase = 'dial' | 'set-up' | 'ready';

/** The message names the server, unless the address names it alone. */
export class HopError extends Error {
  readonly step: Step;
  readonly origin: Error;
  readonly code: string | undefined;

  constructor(title: string, { step, words }: Explained, origin: Error) {
    super(title === '' ? words : `${title}: ${words}`);
    this.name = 'HopError';
    this.step = step;
    this.origin = origin;
    this.code = (origin as NodeJS.ErrnoException).code;
  }
}

/** A sentinel answered, but did not name a master. */
export class UnknownMaster extends Error {}

/** The way to the servers of one address: its failures by server, until the server is reached. */
export class Route {
  readonly #address: RedisAddress;
  readonly #failures = new Map<string, HopError>();
  /** the server that the connection leads to; of a Cluster none */
  hop: Hop | null;

  constructor(address: RedisAddress) {
    this.#address = address;
    const [first] = address.hosts;
    this.hop = address.kind === 'server' && first !== undefined ? { role: 'server', ...first } : null;
  }

  failed(hop: Hop, error: Error, phase: Phase): HopError {
    const failure =
      error instanceof HopError
        ? error
        : new HopError(titleOf(hop), explained(error, hop, phase, this.#address), error);
    this.#failures.set(placeOf(hop), failure);
    return failure;
  }

  reached(place: string): void {
    this.#failures.delete(place);
  }

  clear(): void {
    this.#failures.clear();
  }

  failureAt(place: string): HopError | undefined {
    return this.#failures.get(place);
  }

  /** the one that says most */
  get failure(): HopError | null {
    let furthest: HopError | null = null;
    for (const failure of this.#failures.values())
      if (furthest === null || steps.indexOf(failure.step) > steps.indexOf(furthest.step)) furthest = failure;
    return furthest;
  }

  /** An error of the client, with its server. */
  located(error: Error, phase: Phase): Error {
    if (error instanceof HopError) return error;
    return this.hop === null ? (this.failure ?? error) : this.failed(this.hop, error, phase);
  }
}

export const placeOf = ({ host, port }: Pick<Hop, 'host' | 'port'>): string => `${host}:${port}`;

/** An address of IPv6 is in brackets. */
export function shownPlaceOf(hop: Pick<Hop, 'host' | 'port'>): string {
  return hop.host.includes(':') ? `[${hop.host}]:${hop.port}` : placeOf(hop);
}

function titleOf(hop: Hop): string {
  if (hop.role === 'server') return '';
  const place = shownPlaceOf(hop);
  const by = hop.namedBy === undefined ? '' : `, named by sentinel ${hop.namedBy}`;
  return `${hop.role} ${place}${by}`;
}

interface Explained {
  readonly step: Step;
  readonly words: string;
}

/** Codes of Node and OpenSSL for a certificate that dq does not trust. */
const untrusted: Readonly<Record<string, string>> = {
  DEPTH_ZERO_SELF_SIGNED_CERT: 'self-signed certificate',
  SELF_SIGNED_CERT_IN_CHAIN: 'certificate of an unknown authority',
  UNABLE_TO_GET_ISSUER_CERT: 'certificate of an unknown authority',
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: 'certificate of an unknown authority',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'certificate of an unknown authority',
};
const certificateRemedy =
  'wants a certificate of its client, which dq does not have; set tls-auth-clients optional on that server';
/** In TLS 1.2 one alert has two causes. */
const handshakeRemedy =
  'ended the TLS handshake: it wants a certificate of its client (set tls-auth-clients optional on that server), or shares no cipher with dq (tls-ciphers)';
const outOfTime: Readonly<Record<string, string>> = {
  CERT_HAS_EXPIRED: 'the certificate has expired; replace it on that server',
  CERT_NOT_YET_VALID: 'the certificate is not valid yet; compare the clocks of that server and of this one',
};
/** The server ended the handshake because it wants a certificate of its client. */
const wantsCertificate = /^ERR_SSL_(TLSV13_ALERT_CERTIFICATE_REQUIRED|SSLV3_ALERT_BAD_CERTIFICATE)$/;

function explained(error: Error, hop: Hop, phase: Phase, address: RedisAddress): Explained {
  const { code = '', syscall } = error as NodeJS.ErrnoException;
  const at = (step: Step, words: string): Explained => ({ step, words });
  if (error instanceof UnknownMaster) return at('next address', error.message);
  const reply = replyOf(error);
  if (reply !== null) return at('login', repliedWords(error, reply, hop, address));
  const trust = untrusted[code];
  if (trust !== undefined) return at('TLS', `${trust}; start dq with NODE_EXTRA_CA_CERTS=FILE`);
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID') return at('TLS', otherName(error, hop, address));
  const time = outOfTime[code];
  if (time !== undefined) return at('TLS', time);
  if (wantsCertificate.test(code)) return at('TLS', certificateRemedy);
  if (code === 'ERR_SSL_SSLV3_ALERT_HANDSHAKE_FAILURE') return at('TLS', handshakeRemedy);
  if (/_ALERT_/.test(code))
    return at(
      'TLS',
      `ended the TLS handshake: ${reasonOf(error)}; its log and its tls-protocols have the cause`,
    );
  if (error.message === silentSentinel)
    return at('connection', `gives no answer${reachRemedy(hop, address)}`);
  const words = wordsOf(error);
  const hasTls = hop.role === 'sentinel' ? address.sentinelTls : address.tls;
  const isTcp =
    syscall === 'getaddrinfo' || (error instanceof DialFailure && !(error instanceof HandshakeFailure));
  if (hasTls && phase === 'dial' && !isTcp) return at('TLS', `${words}; ${withoutTls(hop, address)}`);
  // A server with TLS takes the first command for a broken handshake.
  if (!hasTls && phase !== 'ready' && code === 'ECONNRESET')
    return at('connection', `${words}; if it serves TLS, begin the address with rediss`);
  return at('connection', isTcp ? `${words}${reachRemedy(hop, address)}` : words);
}

/** Of the library, for a sentinel that accepts the connection only. */
const silentSentinel = 'Command timed out';

/** The alert of the server, without the source file of OpenSSL: `tlsv1 alert protocol version`. */
function reasonOf(error: Error & { readonly reason?: string }): string {
  return error.reason ?? wordsOf(error);
}

/** The server's error reply; null = there was none. */
function replyOf(error: Error): string | null {
  if (error instanceof SetUpError) return error.reply;
  return error.name === 'ReplyError' ? error.message : null;
}

function repliedWords(error: Error, reply: string, hop: Hop, address: RedisAddress): string {
  const isSentinel = hop.role === 'sentinel';
  if (/\bNOAUTH\b/.test(reply))
    return isSentinel
      ? `needs a password; add ${address.separator}sentinelPassword=`
      : 'needs a password; write :password@ before the first host of the address';
  if (/\bWRONGPASS\b|invalid password/i.test(reply))
    return `${error.message.replace(/\.$/, '')}; correct ${isSentinel ? 'sentinelPassword' : 'the user and password of the address'}`;
  if (/without any password configured|no password is set/.test(reply))
    return `has no password; remove ${isSentinel ? 'sentinelPassword' : 'that of the address'}`;
  return error.message;
}

/** The names of a certificate that is not for this server. An attacker's peer chooses them, so the message
 *  never proposes one of them in place of a name that was asked for. */
function otherName(error: Error, { host }: Hop, address: RedisAddress): string {
  const { cert } = error as Error & { readonly cert?: Partial<PeerCertificate> };
  const alternatives = cert?.subjectaltname?.split(', ') ?? [];
  const namesOf = (kind: string) =>
    alternatives.flatMap((name) => (name.startsWith(kind) ? [name.slice(kind.length)] : []));
  const dns = namesOf('DNS:');
  const names = [...dns, ...namesOf('IP Address:')].slice(0, namesMax);
  const { servername, separator } = address;
  const asked = isIP(host) === 0 ? host : (servername ?? host);
  if (names.length === 0) return `the certificate names no server; make one for ${asked}`;
  const found = `the certificate is for ${names.join(', ')}`;
  const name = dns.find((one) => !one.startsWith('*'));
  if (isIP(host) === 0 || dns.length === 0)
    return `${found}, not for ${asked}; name the server so, or make a certificate for ${asked}`;
  if (servername !== null)
    return `${found}, not for ${servername}; correct servername, or the certificate of that server`;
  return `${found}; if that is this server, add ${separator}servername=${name ?? ' with a name of that domain'}`;
}

const namesMax = 3;

function withoutTls({ role }: Hop, { separator }: RedisAddress): string {
  return role === 'sentinel'
    ? `if it serves no TLS, add ${separator}sentinelTls=false`
    : 'if it serves no TLS at this port, correct the port, or begin the address with redis instead of rediss';
}

function reachRemedy(hop: Hop, { hosts }: RedisAddress): string {
  if (hop.role === 'server') return '';
  if (hosts.some((one) => placeOf(one) === placeOf(hop))) return '; start it, or correct the address';
  return hop.role === 'master'
    ? '; start it, or let the sentinels name an address that this machine reaches (replica-announce-ip)'
    : '; start it, or let the Cluster name an address that this machine reaches (cluster-announce-ip)';
}
