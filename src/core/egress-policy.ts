// The egress policy decides where callbacks may go. Pure: dials and resolves nothing.
// The first rule that applies decides:
//  1. invalid addresses are rejected;
//  2. dq's own endpoints are rejected, even inside egress.allow: an allowed 10.0.0.0/8 must not open the
//     intake itself;
//  3. egress.deny rejects;
//  4. egress.allow allows;
//  5. link-local, cloud metadata, multicast, broadcast and unspecified addresses are rejected under every
//     policy;
//  6. the policy decides: private allows the rest, public only global unicast, allowlist nothing.
// An IPv6 address that contains an IPv4 one (mapped, compatible, translated, NAT64, 6to4, Teredo) counts as
// that one: its packets go there. Own endpoints and egress.deny are compared with both forms.
// Compares bytes, never text: `new URL` writes [::ffff:127.0.0.1] as [::ffff:7f00:1], which no dotted
// pattern finds.

import ipaddr from 'ipaddr.js';
import { type Parsed, wrong } from './duration.ts';

// Addresses and ranges are compared as bytes, never as text: one address has many spellings.
type Address = ipaddr.IPv4 | ipaddr.IPv6;
export type Range = readonly [Address, number];

/** "10.0.0.0/8", "fd00::/8", or one address. IPv4 needs four decimal parts: other software reads "10/8" as
 *  0.0.0.10/8. */
export function parseRange(text: string): Parsed<Range> {
  const [base = '', bits, ...rest] = text.split('/');
  const address = parseAddress(base);
  if (address === null || rest.length > 0)
    return wrong('must be an address or a CIDR range such as 10.0.0.0/8 or fd00::/8');
  const width = address.kind() === 'ipv4' ? 32 : 128;
  if (bits === undefined) return { ok: true, value: [address, width] };
  if (!/^\d{1,3}$/.test(bits) || Number(bits) > width)
    return wrong(`must have a prefix length between 0 and ${width}`);
  return { ok: true, value: [address, Number(bits)] };
}

/** Throws for invalid text, which the configuration has rejected before. */
export function rangeOf(text: string): Range {
  const parsed = parseRange(text);
  if (!parsed.ok) throw new Error(`range ${JSON.stringify(text)}: ${parsed.message}`);
  return parsed.value;
}

/** Returns IPv4-mapped and -compatible addresses as IPv4; drops zone ids. */
export function parseAddress(text: string): Address | null {
  if (ipaddr.IPv4.isValidFourPartDecimal(text)) return ipaddr.IPv4.parse(text);
  if (!text.includes(':') || !ipaddr.IPv6.isValid(text)) return null;
  const address = new ipaddr.IPv6(ipaddr.IPv6.parse(text).parts);
  const [a, b, c, d, e, f, g = 0] = address.parts;
  // ::/96 without :: and ::1, which are addresses in their own right.
  const compatible = !a && !b && !c && !d && !e && !f && g !== 0;
  return address.isIPv4MappedAddress() || compatible ? ipv4At(address, 12) : address;
}

export function within(address: Address, ranges: readonly Range[]): boolean {
  return ranges.some(([base, bits]) => base.kind() === address.kind() && address.match(base, bits));
}

function ipv4At(address: ipaddr.IPv6, byte: number): ipaddr.IPv4 {
  return new ipaddr.IPv4(address.toByteArray().slice(byte, byte + 4));
}

export interface EgressPolicy {
  /** Checks the address that is dialled. null = allowed, else the reason in one short sentence. */
  refuses(address: string, port: number): string | null;
  /** Checks a URL at registration by its literal host and port. A host name is checked when it is dialled. */
  refusesUrl(url: URL): string | null;
}

export interface Endpoint {
  /** an IP address; a wildcard (0.0.0.0, ::) or other text means every address of this machine */
  readonly address: string;
  readonly port: number;
}

export interface EgressOptions {
  readonly policy: 'private' | 'public' | 'allowlist';
  /** CIDR ranges or single addresses, as parseRange reads them; a bad one throws */
  readonly allow: readonly string[];
  readonly deny: readonly string[];
  /** endpoints that dq listens on and connects to */
  readonly own: readonly Endpoint[];
  /** current addresses of this machine without loopback; called only for the port of a wildcard endpoint */
  readonly localAddresses: () => readonly string[];
}

export function createEgressPolicy(options: EgressOptions): EgressPolicy {
  const allow = options.allow.map(rangeOf);
  const deny = options.deny.map(rangeOf);

  function judge(address: Address): string | null {
    if (within(address, allow)) return null;
    const special = alwaysRefused(address);
    if (special !== null) return special;
    if (options.policy === 'private') return null;
    if (options.policy === 'allowlist') return 'the address is not in egress.allow';
    return isGlobal(address) ? null : 'the address is not public (egress.policy is public)';
  }

  function refuses(text: string, port: number): string | null {
    const address = parseAddress(text);
    if (address === null) return 'not an IP address';
    const carried = carriedBy(address);
    const forms = [address, ...carried];
    if (forms.some((form) => isOwn(form, port, options))) return "the address is one of dq's own endpoints";
    if (forms.some((form) => within(form, deny))) return 'the address is in egress.deny';
    for (const form of carried.length > 0 ? carried : forms) {
      const reason = judge(form);
      if (reason !== null) return reason;
    }
    return null;
  }

  return {
    refuses,
    refusesUrl(url) {
      const port = url.port === '' ? (url.protocol === 'https:' ? 443 : 80) : Number(url.port);
      const host = url.hostname.replace(/^\[|\]$/g, '');
      // The one name with known addresses (RFC 6761). The resolver gets no trailing dot.
      const literals = /^(.+\.)?localhost\.?$/i.test(host) ? ['127.0.0.1', '::1'] : [host];
      if (literals[0] === host && !isLiteral(host)) return null;
      for (const literal of literals) {
        const reason = refuses(literal, port);
        if (reason !== null) return reason;
      }
      return null;
    },
  };
}

function isLiteral(host: string): boolean {
  return host.includes(':') || /^[\d.]+$/.test(host);
}

/** The IPv4 addresses that an IPv6 address contains. */
function carriedBy(address: Address): readonly ipaddr.IPv4[] {
  if (!(address instanceof ipaddr.IPv6)) return [];
  const [a, b, c, d, e] = address.parts;
  if (a === 0x2002) return [ipv4At(address, 2)];
  // Teredo: the server, and the client with every bit inverted.
  if (a === 0x2001 && b === 0)
    return [
      ipv4At(address, 4),
      new ipaddr.IPv4(
        address
          .toByteArray()
          .slice(12)
          .map((byte) => byte ^ 0xff),
      ),
    ];
  if (a === 0x64 && b === 0xff9b && c === 1) return localNat64(address);
  const wellKnownNat64 = a === 0x64 && b === 0xff9b && !c && !d && !e && address.parts[5] === 0;
  const translated = !a && !b && !c && !d && e === 0xffff && address.parts[5] === 0;
  return wellKnownNat64 || translated ? [ipv4At(address, 12)] : [];
}

/** A local network divides 64:ff9b:1::/48: RFC 6052 puts the IPv4 address at one of four places (byte 8 is
 *  always zero). All four are checked; a reading that begins with 0 is the padding of another one. */
const localNat64Places = [
  [6, 7, 9, 10],
  [7, 9, 10, 11],
  [9, 10, 11, 12],
  [12, 13, 14, 15],
];

function localNat64(address: ipaddr.IPv6): readonly ipaddr.IPv4[] {
  const bytes = address.toByteArray();
  const readings = localNat64Places.map((place) => new ipaddr.IPv4(place.map((at) => bytes[at] ?? 0)));
  const plausible = readings.filter((reading) => reading.octets[0] !== 0);
  return plausible.length > 0 ? plausible : readings;
}

const metadata: readonly Range[] = [rangeOf('100.100.100.200'), rangeOf('fd00:ec2::254')];

function alwaysRefused(address: Address): string | null {
  if (within(address, metadata)) return 'the address is a cloud metadata service';
  switch (address.range()) {
    case 'linkLocal':
      return 'the address is link-local';
    case 'multicast':
      return 'the address is multicast';
    case 'broadcast':
      return 'the address is broadcast';
    case 'unspecified':
      return 'the address is unspecified';
    default:
      return null;
  }
}

const globalIpv6 = rangeOf('2000::/3');

function isGlobal(address: Address): boolean {
  return address.range() === 'unicast' && (address.kind() === 'ipv4' || within(address, [globalIpv6]));
}

function isOwn(address: Address, port: number, options: EgressOptions): boolean {
  return options.own.some((endpoint) => {
    if (endpoint.port !== port) return false;
    const own = parseAddress(endpoint.address);
    // Dialling the unspecified address reaches every listener of this machine.
    if (address.range() === 'unspecified') return true;
    // A name means an unknown address of this machine.
    if (own === null || own.range() === 'unspecified') return isLocal(address, options.localAddresses());
    return own.toString() === address.toString();
  });
}

function isLocal(address: Address, local: readonly string[]): boolean {
  if (address.range() === 'loopback') return true;
  return local.some((text) => parseAddress(text)?.toString() === address.toString());
}

/** The trial of the console: one topic, and a receiver on a free port of the loopback address. Callbacks of
 *  this topic to this receiver pass the egress policy while the trial runs; nothing else does. */
export const trial = {
  topic: 'trial.hello',
  /** of the receiver */
  address: '127.0.0.1',
} as const;

/** Origin of the receiver: http://127.0.0.1:41877 */
export function trialOrigin(port: number): string {
  return `http://${trial.address}:${port}`;
}
