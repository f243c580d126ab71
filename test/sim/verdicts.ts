// What the receivers and pull clients of a world ask for beside success and failure, and the rules on it
// (retry-rules.md): a reply for which deadIf is true ends its job, and a snooze delays it without an attempt.
// Of so many snoozes of a job one is a failed attempt: some jobs begin shortly before that one.

import { optionsIn } from '../../src/core/extension.ts';
import { limits } from '../../src/core/limits.ts';
import type { Judge } from './judge.ts';
import type { CallRecord, Entry, LeaseRecord } from './ledger.ts';
import type { Loop } from './loop.ts';
import type { TopicTable } from './topics.ts';

/** Of the worlds, of the replies in such a world, and of the releases of its clients. */
const shares = { worlds: 0.3, again: 0.35, release: 0.6 };
const waitsMs = [300, 1_500, 4_000, 9_000];
/** Each so many pushes one has a body that its receiver cannot use. */
const badEvery = 6;
const limitEvery = 4;

export type Asked = { readonly verdict: 'again'; readonly waitMs: number } | { readonly verdict: 'dead' };

/** What the store got for the end of a lease. */
export interface SettledItem {
  readonly delayMs?: number;
  readonly attempt?: unknown;
  readonly extension?: Buffer | undefined;
}

export interface VerdictsOptions {
  readonly loop: Loop;
  readonly judge: Judge;
  readonly topics: TopicTable;
}

const numberOf = (tag: string): number | null => (/^p\d+$/.test(tag) ? Number(tag.slice(1)) : null);
const againIn = (extension: Buffer | undefined): number => optionsIn(extension).again ?? 0;

export class Verdicts {
  readonly #options: VerdictsOptions;
  readonly #dice;
  readonly isOn: boolean;
  readonly counts = { snoozes: 0, 'snooze limits': 0, 'dead by rule': 0 };

  constructor(options: VerdictsOptions) {
    this.#options = options;
    this.#dice = options.loop.stream('verdicts');
    this.isOn = this.#dice.chance(shares.worlds);
  }

  /** Snoozes of a job that is pushed. */
  first(tag: string): number {
    const n = this.isOn ? numberOf(tag) : null;
    return n !== null && n % limitEvery === 1 ? limits.againMax - 2 : 0;
  }

  /** What a receiver asks for in its reply; null: its status says all. */
  ask(tag: string): Asked | null {
    if (!this.isOn) return null;
    const n = numberOf(tag);
    if (n !== null && n % badEvery === 3) return { verdict: 'dead' };
    if (!this.#dice.chance(shares.again)) return null;
    return { verdict: 'again', waitMs: this.#dice.pick(waitsMs) };
  }

  /** The wait with which a client releases a job; null: at once. */
  releaseWait(): number | null {
    if (!this.isOn || !this.#dice.chance(shares.release)) return null;
    return 1_000 + this.#dice.below(8_000);
  }

  /** The store gives out a job with this block. Returns its snoozes. */
  reserved({ key, again }: Entry, extension: Buffer | undefined): number {
    const stored = againIn(extension);
    this.#check(
      again === null || again === stored,
      'each snooze counts once',
      () => `${key}: ${stored} snoozes are stored, ${again} were`,
    );
    return stored;
  }

  /** Whether the retry is a snooze. */
  retried(entry: Entry, lease: LeaseRecord, item: SettledItem): boolean {
    const { call, pull, again: before } = lease;
    const { delayMs = 0, attempt, extension } = item;
    const isSnooze = attempt === null;
    const askedMs = snoozeOf(call) ?? (pull?.asksSnooze(delayMs) === true ? delayMs : null);
    const isAsked = askedMs !== null;
    const count = before + 1;
    const isLimit = count % limits.againMax === 0;
    const what = () => `${entry.key}: asked ${askedMs}, delay ${delayMs}, ${before} snoozes before`;
    if (call !== null || isSnooze)
      this.#check(
        isSnooze === (isAsked && !isLimit),
        'a snooze counts no attempt, and no failure is one',
        what,
      );
    if (isSnooze || extension !== undefined) {
      this.#check(againIn(extension) === count, 'each snooze is stored with its number', what);
      entry.again = count;
      this.counts[isSnooze ? 'snoozes' : 'snooze limits'] += 1;
    } else this.#check(call === null || !isAsked, 'each snooze is stored with its number', what);
    if (isSnooze)
      this.#check(
        delayMs === Math.max(limits.againMsMin, askedMs ?? 0),
        'a snooze waits as long as asked',
        what,
      );
    return isSnooze;
  }

  acked({ key }: Entry, { call }: LeaseRecord): void {
    this.#check(snoozeOf(call) === null, 'a snooze ends no job', () => `${key} is acked`);
    this.#check(!this.#mustDie(call), 'a reply of deadIf ends its job', () => `${key} is acked`);
  }

  /** A failed attempt that another one follows. */
  failed({ key }: Entry, { call }: LeaseRecord): void {
    this.#check(!this.#mustDie(call), 'a reply of deadIf ends its job', () => `${key} is retried`);
  }

  buried({ key }: Entry, { call }: LeaseRecord, reason: string | undefined): void {
    const isByRule = reason === 'dead_rule';
    if (isByRule) this.counts['dead by rule'] += 1;
    this.#check(
      !isByRule || call?.asked?.verdict === 'dead',
      'only a whole reply of deadIf ends a job by rule',
      () => `${key}: ${call?.asked?.verdict}`,
    );
    this.#check(
      isByRule || !this.#mustDie(call),
      'a reply of deadIf ends its job',
      () => `${key} dies of ${reason}`,
    );
  }

  /** ms, of the snooze that the reply asked for; null: it asked for none */
  waitOf(call: CallRecord | null): number | null {
    const ms = snoozeOf(call);
    return ms === null ? null : Math.max(ms, limits.againMsMin);
  }

  /** An edit can take the rule away. */
  #mustDie(call: CallRecord | null): boolean {
    if (call?.asked?.verdict !== 'dead') return false;
    const topic = call.lease.key.slice(0, call.lease.key.indexOf('/'));
    return this.#options.topics.possible(topic).every(({ deadIf }) => deadIf !== '');
  }

  #check(isKept: boolean, rule: string, detail: () => string): void {
    this.#options.judge.check(isKept, rule, detail);
  }
}

/** ms that the whole reply asked for; null: it asked for no snooze. */
function snoozeOf(call: CallRecord | null): number | null {
  return call?.asked?.verdict === 'again' ? call.asked.waitMs : null;
}
