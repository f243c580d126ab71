// Decides which recipients of a key get a mail now, and about which alerts. A key is a topic or an incident.
// A recipient of a key is ready, or in one of three states, which are kept in memory only:
//
//   waiting      it got a mail or rejected one for good: no further mail before the window ends. Then it
//                backs off, too, while another recipient fails to take an alert that it has
//   backing off  the mail server deferred it: a retry after 10, 20, 40 … 300 s
//   capped       it got its mails of the hour, about all keys: half of them at once, the rest spread over it
//
// Invariant: a recipient gets each alert once and never delays another recipient. A restart repeats alerts
// that were mailed and not settled, and so does a recipient with more than doneMax of them.
// Pure: the caller passes the time, monotonicNow().

import type { Answers } from '../../mail/smtp-sender.ts';
import { upkeepLimits } from '../limits.ts';

/** One mail: these recipients, about these alerts. */
interface Batch {
  readonly addresses: readonly string[];
  readonly ids: ReadonlySet<number>;
}

interface Recipient {
  /** Alerts that this recipient needs no more and that are not settled: another recipient needs them, or the
   *  store failed to settle them. In the order of their last claims. */
  readonly done: Set<number>;
  /** end of the window or of the backoff */
  nextAt: number;
  /** deferred so many times in a row */
  failures: number;
  /** claims in a row that had nothing for it, while another recipient still needs its alerts */
  idle: number;
}

interface RecipientRules {
  /** mails that an address may get in an hour; null = no cap */
  readonly perHour: number | null;
  readonly windowMs: number;
  /** after so many failures in a row */
  readonly backoffMs: (failures: number) => number;
  /** Alerts in `done`, of one recipient and key: a shard may be unreachable for any time between the mail and
   *  the settlement, so only a number bounds them. The one that was claimed longest ago goes first. */
  readonly doneMax: number;
}

const hourMs = 3_600_000;

export class RecipientState {
  readonly #rules: RecipientRules;
  readonly #atOnce: number;
  readonly #everyMs: number;
  /** key → address */
  readonly #keys = new Map<string, Map<string, Recipient>>();
  /** address → when it may get #atOnce mails at once again */
  readonly #uncappedAt = new Map<string, number>();
  /** keys whose last mail failed, the latest last */
  readonly #failed = new Set<string>();

  constructor(rules: RecipientRules) {
    const { perHour } = rules;
    this.#rules = rules;
    this.#atOnce = perHour === null ? 1 : Math.max(1, Math.floor(perHour / 2));
    this.#everyMs = perHour === null ? 0 : hourMs / Math.max(1, perHour - this.#atOnce);
  }

  /** The keys in the order in which they get their mails: a key that failed may be the cause and goes
   *  last. */
  inOrder(due: readonly string[]): readonly string[] {
    const keys = new Set(due);
    for (const key of this.#failed) if (!keys.delete(key)) this.#failed.delete(key);
    return [...keys, ...this.#failed];
  }

  /** When the first of the addresses (1 or more) is ready. */
  nextAt(key: string, addresses: readonly string[]): number {
    return Math.min(...addresses.map((address) => this.#nextAt(key, address)));
  }

  /** The mails to send now. `owed`: the alerts of one claim. It lacks those that an earlier claim holds. */
  plan(key: string, addresses: readonly string[], owed: readonly number[], now: number): readonly Batch[] {
    const batches: { addresses: string[]; ids: Set<number>; failures: number }[] = [];
    const all = new Set(owed);
    for (const address of addresses) {
      const recipient = this.#of(key, address);
      const { done, failures } = recipient;
      for (const id of owed) if (done.delete(id)) done.add(id);
      const ids = done.size === 0 ? all : new Set(owed.filter((id) => !done.has(id)));
      if (this.#nextAt(key, address) > now) continue;
      // Or each round would claim the alerts that another recipient fails to take: a write each.
      recipient.idle = ids.size === 0 ? recipient.idle + 1 : 0;
      if (ids.size === 0) {
        recipient.nextAt = now + this.#rules.backoffMs(recipient.idle);
        continue;
      }
      const same = batches.find((b) => b.ids === ids || owed.every((id) => b.ids.has(id) === ids.has(id)));
      // After a failure each address gets its own mail: the server may hang up at one of them.
      if (same === undefined || this.#failed.has(key)) batches.push({ addresses: [address], ids, failures });
      else same.addresses.push(address);
    }
    return batches.sort((a, b) => a.failures - b.failures);
  }

  /** The mail server has answered the mail about `ids`, or failed at it. `all`: the addresses of the key. */
  answered(key: string, ids: Iterable<number>, answers: Answers, all: readonly string[], now: number): void {
    this.#failed.delete(key);
    for (const [address, { kind }] of answers) {
      const recipient = this.#of(key, address);
      if (kind === 'failed') this.failed(key);
      // An address at which the server fails, while the key has others, may be the cause.
      if (kind === 'deferred' || (kind === 'failed' && answers.size === 1 && all.length > 1)) {
        recipient.failures += 1;
        recipient.nextAt = now + this.#rules.backoffMs(recipient.failures);
      } else if (kind !== 'failed') {
        const { done } = recipient;
        for (const id of ids) done.add(id);
        for (const id of done) {
          if (done.size <= this.#rules.doneMax) break;
          done.delete(id);
        }
        recipient.failures = 0;
        recipient.nextAt = now + this.#rules.windowMs;
        for (const [known, at] of this.#uncappedAt) if (at <= now) this.#uncappedAt.delete(known);
        this.#uncappedAt.set(address, Math.max(this.#uncappedAt.get(address) ?? 0, now) + this.#everyMs);
      }
    }
  }

  /** The key failed for any reason: it goes last in the next round. */
  failed(key: string): void {
    this.#failed.delete(key);
    this.#failed.add(key);
  }

  /** The addresses that were deferred fewer than mailTriesMax times in a row; if there are none, all. */
  patient(key: string, addresses: readonly string[]): readonly string[] {
    const few = addresses.filter((address) => this.#of(key, address).failures < upkeepLimits.mailTriesMax);
    return few.length > 0 ? few : addresses;
  }

  /** The alerts that none of the addresses needs any more. */
  finished(key: string, addresses: readonly string[], owed: readonly number[]): readonly number[] {
    const done = addresses.map((address) => this.#of(key, address).done);
    return owed.filter((id) => done.every((ids) => ids.has(id)));
  }

  settled(key: string, ids: readonly number[]): void {
    for (const { done } of this.#keys.get(key)?.values() ?? []) for (const id of ids) done.delete(id);
  }

  /** Every alert of a claim is settled: the store knows when the window ends. */
  forget(key: string): void {
    const recipients = this.#keys.get(key);
    for (const [address, { done }] of recipients ?? []) if (done.size === 0) recipients?.delete(address);
    if (recipients?.size === 0) this.#keys.delete(key);
  }

  #nextAt(key: string, address: string): number {
    const uncappedAt = (this.#uncappedAt.get(address) ?? 0) - (this.#atOnce - 1) * this.#everyMs;
    // Adds no entry: another instance may mail the key.
    return Math.max(this.#keys.get(key)?.get(address)?.nextAt ?? 0, uncappedAt);
  }

  #of(key: string, address: string): Recipient {
    const recipients = this.#keys.get(key) ?? new Map<string, Recipient>();
    const recipient = recipients.get(address) ?? {
      done: new Set<number>(),
      nextAt: 0,
      failures: 0,
      idle: 0,
    };
    this.#keys.set(key, recipients.set(address, recipient));
    return recipient;
  }
}
