// ip-range.ts reads IP addresses and CIDR ranges, and says whether an address is within one. Pure.
// Compares bytes, never text: one address has many spellings.

import ipaddr from 'ipaddr.js';
import type { Parsed } from './duration.ts';

export type Address = ipaddr.IPv4 | ipaddr.IPv6;
export type Range = readonly [Address, number];

/** "10.0.0.0/8", "fd00::/8", or one address. IPv4 needs four decimal parts: other software reads "10/8" as
 *  0.0.0.10/8. */
export function parseRange(text: string): Parsed<Range> {
  const [base = '', bits, ...rest] = text.split('/');
  const address = parseAddress(base);
  if (address === null || rest.length > 0)
    return { ok: false, message: 'must be an address or a CIDR range such as 10.0.0.0/8 or fd00::/8' };
  const width = address.kind() === 'ipv4' ? 32 : 128;
  if (bits === undefined) return { ok: true, value: [address, width] };
  if (!/^\d{1,3}$/.test(bits) || Number(bits) > width)
    return { ok: false, message: `must have a prefix length between 0 and ${width}` };
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

export function ipv4At(address: ipaddr.IPv6, byte: number): ipaddr.IPv4 {
  return new ipaddr.IPv4(address.toByteArray().slice(byte, byte + 4));
}
