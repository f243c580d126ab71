// Where callbacks may go (callback.md, "Egress policy"). Pure: judges addresses, dials nothing.

export interface EgressPolicy {
  /** Judges the very address that is dialled. null = allowed, else the reason in one short sentence. */
  refuses(address: string, port: number): string | null;
  /** Judges a URL at registration: its literal host and port; a host name is judged when it is dialled. */
  refusesUrl(url: URL): string | null;
}
