// What each address still has to hear of one key while not all of them could be told: a mail server may take a letter for one
// address and put another off. Pure; the caller says what time it is. In memory only: after a death every address is told
// once more.
// Invariant: nobody is told twice of what it has accepted or refused for good, nor more often than once a window, while what
// somebody else waits for never keeps newer alerts from the rest.

import type { MailRateLimit } from '../../mail/mail-rate-limit.ts';

export interface Group {
  readonly addresses: readonly string[];
  readonly ids: ReadonlySet<number>;
}

interface Standing {
  /** alerts that this address needs no more, while somebody else does */
  told: ReadonlySet<number>;
  /** before then it is not written to */
  nextAt: number;
  failures: number;
}

export class RecipientState {
  readonly #keys = new Map<string, Map<string, Standing>>();
  readonly #quota: MailRateLimit | null;

  /** `quota`: of letters about all keys; null = none. */
  constructor(quota: MailRateLimit | null = null) {
    this.#quota = quota;
  }

  /** When the first of the addresses (1 or more) may be written to; what is not known may be at once. */
  nextAt(key: string, addresses: readonly string[]): number {
    return Math.min(...addresses.map((address) => this.#nextAt(key, address)));
  }

  #nextAt(key: string, address: string): number {
    return Math.max(this.#of(key, address).nextAt, this.#quota?.nextAt(address) ?? 0);
  }

  /** Forgets alerts that are not owed any more, so that what is kept stays as small as what is owed. */
  prune(key: string, owed: readonly number[]): void {
    for (const standing of this.#keys.get(key)?.values() ?? [])
      if (standing.told.size > 0) standing.told = new Set(owed.filter((id) => standing.told.has(id)));
  }

  /** Who is to be told now, and of what. */
  plan(key: string, addresses: readonly string[], ids: readonly number[], now: number): readonly Group[] {
    const groups: { addresses: string[]; ids: ReadonlySet<number> }[] = [];
    const all = new Set(ids);
    for (const address of addresses) {
      if (this.#nextAt(key, address) > now) continue;
      const { told } = this.#of(key, address);
      const rest = told.size === 0 ? all : new Set(ids.filter((id) => !told.has(id)));
      if (rest.size === 0) continue;
      const like = groups.find((group) => group.ids === rest || isSame(group.ids, rest));
      if (like !== undefined) like.addresses.push(address);
      else groups.push({ addresses: [address], ids: rest });
    }
    return groups;
  }

  /** They need no more of these, and nothing else before the window ends. */
  told(key: string, { addresses, ids }: Group, now: number, windowMs: number): void {
    for (const address of addresses) {
      const before = this.#of(key, address).told;
      const told = before.size === 0 ? ids : new Set([...before, ...ids]);
      this.#put(key, address, { told, nextAt: now + windowMs, failures: 0 });
      this.#quota?.take(address, now);
    }
  }

  /** Put off; `waitMs` of the n-th time in a row. */
  deferred(key: string, address: string, now: number, waitMs: (failures: number) => number): void {
    const { told, failures } = this.#of(key, address);
    this.#put(key, address, { told, failures: failures + 1, nextAt: now + waitMs(failures + 1) });
  }

  /** How often in a row the address was put off. */
  failures(key: string, address: string): number {
    return this.#of(key, address).failures;
  }

  /** Those of the addresses that were not put off so many times in a row; all where that leaves none. */
  patient(key: string, addresses: readonly string[], tries: number): readonly string[] {
    const few = addresses.filter((address) => this.failures(key, address) < tries);
    return few.length > 0 ? few : addresses;
  }

  /** Those of the alerts that no address waits for. */
  finished(key: string, addresses: readonly string[], ids: readonly number[]): readonly number[] {
    const all = addresses.map((address) => this.#of(key, address).told);
    return ids.filter((id) => all.every((told) => told.has(id)));
  }

  /** After all that was owed has been settled. */
  forget(key: string): void {
    this.#keys.delete(key);
  }

  #of(key: string, address: string): Standing {
    return this.#keys.get(key)?.get(address) ?? { told: none, nextAt: 0, failures: 0 };
  }

  #put(key: string, address: string, standing: Standing): void {
    const known = this.#keys.get(key) ?? new Map<string, Standing>();
    this.#keys.set(key, known.set(address, standing));
  }
}

const none: ReadonlySet<number> = new Set();

function isSame(a: ReadonlySet<number>, b: ReadonlySet<number>): boolean {
  if (a.size !== b.size) return false;
  for (const id of a) if (!b.has(id)) return false;
  return true;
}
