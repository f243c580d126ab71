// The laws of the journal in a world: nothing that was accepted is lost, however the store loses its data,
// and a job that came back after its end is not reserved once the loss is noticed.
// Invariant: it knows the records of the spools, the note in Redis and the ledger, and no code of dq that
// merges or compares records.

import type { JobKey, Version } from '../../../src/core/job.ts';
import type { Change } from '../../../src/core/job-change.ts';
import type { Judge } from '../judge.ts';
import { type Entry, keyOf, seconds } from '../ledger.ts';
import type { Ledgers } from '../ledgers.ts';
import type { Loop } from '../loop.ts';
import type { Network } from '../network.ts';
import type { Occasions } from '../occasions.ts';
import type { Process } from '../process.ts';

/** What the records say about an id. */
interface Newest {
  readonly version: Version;
  readonly isEnded: boolean;
  readonly origin: Version;
  /** the highest origin that ended */
  readonly endedOrigin: Version;
  /** the highest origin whose push is recorded: not that of a push without an answer */
  readonly pushedOrigin: Version;
}

interface Note {
  readonly id: Version;
  readonly phase: string;
  /** virtual ms */
  readonly at: number;
}

/** What a shard knows of its losses: a part of its data. */
export interface Noted {
  /** as #newest when the note was made that is in force, or was last */
  readonly beforeNote: ReadonlyMap<string, Newest> | null;
  readonly note: Note | null;
}

/** of one shard */
interface Losses {
  noted: Noted;
  /** virtual ms of the first note since the shard was healed last; null: none. A newer loss does not begin
   *  the wait for a silent instance again. */
  unhealedSince: number | null;
  /** virtual ms of the last loss that no note covers yet; null: none */
  lostAt: number | null;
  hasLost: boolean;
}

export interface JournalLawsOptions {
  readonly loop: Loop;
  readonly judge: Judge;
  readonly ledger: Pick<Ledgers, 'entries' | 'endedVersion' | 'steppedAt'>;
  readonly shards: number;
  /** a healing waits so long for an instance */
  readonly peerWaitMs: number;
  readonly network: Pick<Network, 'slowUntil'>;
  readonly occasions: Occasions;
}

/** An end in the store whose record is awaited. */
interface AwaitedEnd {
  readonly key: string;
  readonly version: Version;
  readonly by: Process;
  /** the Redis that took the ack */
  readonly server: Process | null;
  /** virtual ms */
  readonly at: number;
}

/** Timers, and messages between a moment and its log line. */
const earlyMs = 1_500;
/** A record follows the reply of the store. */
const recordedMs = 3_000;
/** Without a healing nothing is reserved for so long after a loss (reserve.lua). */
const holdMs = 60_000;
/** dq compares its numbers with those of the store within this time, when all of them are shipped. */
const noticedMs = 12_000;

const nothingNoted: Noted = { beforeNote: null, note: null };

export class JournalLaws {
  readonly #options: JournalLawsOptions;
  /** by key */
  readonly #newest = new Map<string, Newest>();
  /** by key: no version of the journal's jobs of that id compares with it */
  readonly #arrived = new Map<string, Version>();
  readonly #losses: readonly Losses[];
  /** A healing went on without the latest changes of an instance. */
  #hasGivenUp = false;
  #awaited: AwaitedEnd[] = [];
  readonly counts = {
    losses: 0,
    notes: 0,
    'rows put back': 0,
    'ended rows removed': 0,
    'judged reserves': 0,
    'judged ends': 0,
  };

  constructor(options: JournalLawsOptions) {
    this.#options = options;
    this.#losses = Array.from({ length: options.shards }, () => ({
      ...{ noted: nothingNoted, unhealedSince: null, lostAt: null, hasLost: false },
    }));
  }

  /** From the first loss on the note can change with each script. */
  hasLost(shard: number): boolean {
    return this.#of(shard).hasLost;
  }

  /** The shard knows that it has lost changes. */
  isNoted(shard: number): boolean {
    return this.#of(shard).noted.note !== null;
  }

  get isHealing(): boolean {
    return this.#losses.some(({ noted, lostAt }) => noted.note !== null || lostAt !== null);
  }

  #of(shard: number): Losses {
    const losses = this.#losses[shard];
    if (losses === undefined) throw new Error(`the world has no shard ${shard}`);
    return losses;
  }

  /** A record reaches a spool. */
  recorded(_instance: number, change: Change): void {
    if (change.kind === 'alert') return;
    const key = keyOf(change);
    const known = this.#newest.get(key);
    const isEnded = change.kind === 'ended';
    const { version, origin, number } = change;
    const ends = isEnded ? (version === number ? version : origin) : 0;
    const endedOrigin = Math.max(known?.endedOrigin ?? 0, ends);
    const pushes = change.kind === 'accepted' ? origin : 0;
    const pushedOrigin = Math.max(known?.pushedOrigin ?? 0, pushes);
    const isNewer =
      known === undefined ||
      version > known.version ||
      (version === known.version && (isEnded || !known.isEnded));
    const newest = isNewer ? { version, isEnded, origin } : known;
    this.#newest.set(key, { ...newest, endedOrigin, pushedOrigin });
  }

  /** A job of the jobs.db of one instance, whose id other instances gave to jobs that have ended since. */
  arrived(key: string, version: Version): void {
    this.#arrived.set(key, version);
  }

  /** The answer to a client: `version` of the job now, or of the one that it ended. */
  answered(what: string, key: string, version: Version, isEnd: boolean): void {
    const newest = this.#newest.get(key);
    const isRecorded =
      newest !== undefined &&
      (newest.version > version || (newest.version === version && (newest.isEnded || !isEnd)));
    this.#options.judge.check(
      isRecorded,
      'journal: an answer follows its record',
      () => `${what} of ${key}, version ${version}: recorded is ${newest?.version ?? 'none'}`,
    );
  }

  /** An ack in the store. */
  ended(key: string, version: Version, by: Process | undefined): void {
    const { at, current } = this.#options.loop;
    if (by !== undefined) this.#awaited.push({ key, version, by, server: current, at });
  }

  /** Several times a second. A reply that is late or lost, and a process that stands still or dies, excuse a
   *  missing record. */
  look(): void {
    const { loop, judge, network } = this.#options;
    const due = this.#awaited.filter(({ at }) => at <= loop.at - recordedMs);
    this.#awaited = this.#awaited.filter(({ at }) => at > loop.at - recordedMs);
    for (const { key, version, by, server, at } of due) {
      // The Redis died in the turn of the ack: it may have sent the hints of the outcome job, and no reply.
      if (server?.diedAt === at) continue;
      if (!by.isAlive || by.lastPauseEnd > at - recordedMs || network.slowUntil > at - recordedMs) continue;
      const newest = this.#newest.get(key);
      const isRecorded = newest !== undefined && (newest.isEnded || newest.version > version);
      this.counts['judged ends'] += 1;
      judge.check(isRecorded, 'journal: each end is recorded', () => `${key}, version ${version}`);
    }
  }

  /** For a copy of the shard's data. */
  notedBy(shard: number): Noted {
    return this.#of(shard).noted;
  }

  /** A shard has lost something, or may have. `noted`: what its data knows now. */
  lost(shard: number, noted: Noted | null): void {
    this.#awaited = [];
    this.counts.losses += 1;
    const lostAt = this.#options.loop.at;
    Object.assign(this.#of(shard), { hasLost: true, lostAt, noted: noted ?? nothingNoted });
  }

  /** `text`: of the field `heal` */
  noted(shard: number, text: string): void {
    const { loop, judge, occasions } = this.#options;
    const losses = this.#of(shard);
    const [, id, phase] = text.split(' ');
    const { note, beforeNote } = losses.noted;
    if (id === undefined || phase === undefined) {
      if (note !== null) {
        loop.tell(`Shard ${shard} of Redis is healed.`);
        losses.unhealedSince = null;
      }
      losses.noted = { note: null, beforeNote };
      return;
    }
    const known = note?.id === Number(id) ? note : null;
    if (known === null) {
      this.counts.notes += 1;
      losses.lostAt = null;
      losses.unhealedSince ??= loop.at;
      loop.tell(`Shard ${shard} of Redis notes that it lost changes.`);
      judge.check(losses.hasLost, 'journal: no loss is noticed without one', () => text);
    }
    if (known?.phase !== phase) occasions.happened('healing', phase);
    losses.noted = {
      note: { id: Number(id), phase, at: known?.at ?? loop.at },
      beforeNote: known === null ? new Map(this.#newest) : beforeNote,
    };
  }

  /** A healing waits no longer. */
  gaveUp(): void {
    const { loop, judge, peerWaitMs } = this.#options;
    const began = this.#losses.flatMap(({ unhealedSince }) => unhealedSince ?? []);
    const sinceMs = loop.at - Math.min(...began);
    judge.check(
      this.#hasGivenUp || began.length === 0 || sinceMs >= peerWaitMs - earlyMs,
      'journal: a healing waits for each instance',
      () => `it goes on ${seconds(sinceMs)} after the first note`,
    );
    this.#hasGivenUp = true;
  }

  putBack({ version, ...key }: JobKey & { readonly version: Version }): void {
    this.counts['rows put back'] += 1;
    const newest = this.#newest.get(keyOf(key));
    this.#options.judge.check(
      newest !== undefined && version <= newest.version,
      'journal: only what was recorded is put back',
      () => `${keyOf(key)}, version ${version}: recorded is ${newest?.version ?? 'none'}`,
    );
  }

  removed(): void {
    this.counts['ended rows removed'] += 1;
  }

  /** In the phase `ends` nothing is known about the jobs that came back. */
  reserved(shard: number, key: JobKey, version: Version): void {
    const name = keyOf(key);
    const { loop, judge, ledger } = this.#options;
    const { note, beforeNote } = this.#of(shard).noted;
    if (note?.phase === 'ends') {
      judge.check(
        loop.at - note.at >= holdMs - earlyMs || ledger.steppedAt >= note.at,
        'journal: no job is reserved before the ends are compared',
        () => name,
      );
      return;
    }
    if (beforeNote === null || this.#hasGivenUp) return;
    const newest = beforeNote.get(name);
    if (newest === undefined || this.#arrived.get(name) === version) return;
    this.counts['judged reserves'] += 1;
    const isOver = version < newest.version || (version === newest.version && newest.isEnded);
    judge.check(
      !isOver,
      'journal: no job is called that ended before the loss was noticed',
      () =>
        `${name}, version ${version}: the spool had version ${newest.version}${newest.isEnded ? ', ended' : ''}`,
    );
  }

  /** Whether each loss was noticed and healed: `shippedAt` = virtual ms since when no spool has an unshipped
   *  change. */
  isHealed(shippedAt: number | null): boolean {
    const { at } = this.#options.loop;
    if (shippedAt === null) return false;
    return this.#losses.every(
      ({ noted, lostAt }) =>
        noted.note === null && (lostAt === null || at - Math.max(lostAt, shippedAt) > noticedMs),
    );
  }

  /** What the store holds and once ended, against all records. */
  checkEnd(): void {
    const { ledger, judge } = this.#options;
    for (const [key, newest] of this.#newest) {
      const { version, isEnded, origin, endedOrigin, pushedOrigin } = newest;
      const entry = ledger.entries.get(key);
      if (isEnded)
        judge.check(
          entry === undefined ||
            entry.version > version ||
            entry.version === this.#arrived.get(key) ||
            this.#hasGivenUp,
          'journal: no ended job is stored after the healing',
          () => `${key}: version ${entry?.version}, ended up to ${version}`,
        );
      else if (pushedOrigin >= origin)
        judge.check(
          isThere(entry, version) || ledger.endedVersion(key) >= version || origin <= endedOrigin,
          'journal: no recorded job is lost',
          () => `${key}, version ${version}: ${entry?.version ?? 'none'} is stored`,
        );
    }
  }

  /** A push that was answered as stored. */
  checkAccepted(tag: string, key: string, version: Version): void {
    const { ledger, judge } = this.#options;
    const isKept = isThere(ledger.entries.get(key), version) || ledger.endedVersion(key) >= version;
    judge.check(isKept, 'journal: no accepted job is lost', () => `push ${tag}: ${key}, version ${version}`);
  }
}

const isThere = (entry: Entry | undefined, version: Version): boolean =>
  entry !== undefined && entry.version >= version;
