// Reads parts that addresses have in common: a host, a port, and switches behind a question mark.

/** a name, an IPv4 address, or an IPv6 address in brackets */
export const hostPattern = /^([A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?|\[[0-9a-fA-F:.]{2,45}\])$/;

/** Of an http URL, which leaves the port 80 out. */
export function portOf(url: string): number {
  return Number(new URL(url).port || 80);
}

/** Each given once at most, as true or false; a sentence about those allowed where another thing is there. */
export function readSwitches(url: URL, names: readonly string[]): ReadonlyMap<string, boolean> | string {
  const given = new Map<string, boolean>();
  for (const [name, value] of url.searchParams) {
    if (!names.includes(name) || given.has(name) || !/^(true|false)$/.test(value))
      return `has a switch that is none of ${names.map((known) => `${known}=true|false`).join(', ')}`;
    given.set(name, value === 'true');
  }
  return given;
}
