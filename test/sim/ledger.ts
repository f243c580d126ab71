// The ledger: what the store of a world has committed, operation by operation, and the rules on it. It knows
// the operations of the engine and their results (follow-engine.ts), and asks no client of dq.
// Invariant: it changes only at a COMMIT, in the order of the operations.

import {
  isPulled,
  type JobKey,
  type Lease,
  type Owner,
  type ReservedJob,
  type VersionedKey,
} from '../../src/core/job.ts';
import { isTickId } from '../../src/core/job-id.ts';
import { limits } from '../../src/core/limits.ts';
import type { Topic } from '../../src/core/topic/topic.ts';
import type {
  CancelOutcome,
  EditItem,
  EditOutcome,
  ExtendItem,
  ExtendOutcome,
  PushJob,
  PushOutcome,
  RequeueOutcome,
  RescheduleOutcome,
  RunOutcome,
} from '../../src/ports/job-store.ts';
import { sqliteLimits } from '../../src/store/sqlite/limits.ts';
import { type Deadlines, deadlineOf } from './deadlines.ts';
import type { Judge } from './judge.ts';
import type { Loop } from './loop.ts';
import type { MailServer } from './mail.ts';
import type { Network } from './network.ts';
import type { Process } from './process.ts';
import { PullRecord } from './pull-record.ts';
import type { TopicTable } from './topics.ts';
import type { Asked, SettledItem, Verdicts } from './verdicts.ts';
import type { LastEnd, Windows } from './windows.ts';

export interface LeaseRecord {
  readonly token: number;
  readonly version: number;
  readonly key: string;
  readonly owner: Owner;
  /** virtual ms of the reserve, or of the last extension */
  at: number;
  ms: number;
  /** of the reserve */
  readonly firstMs: number;
  readonly failures: number;
  readonly strikes: number;
  /** snoozes of its job */
  readonly again: number;
  readonly timeoutMs: number;
  /** of its job, epoch ms; Infinity: none */
  readonly deadline: number;
  /** ms that the wall clock stepped ahead while no dq-store ran: it ends so much earlier */
  unseenMs: number;
  /** ms that the wall clock stepped back while no dq-store ran, or that of Redis: it ends so much later */
  behindMs: number;
  /** The store once forgot that it gave it, or that it ended: its notifier knows better. */
  wasForgotten: boolean;
  /** null: it holds */
  ended: string | null;
  call: CallRecord | null;
  /** null: of a notifier */
  readonly pull: PullRecord | null;
}

export interface CallRecord {
  readonly lease: LeaseRecord;
  readonly process: Process;
  /** virtual ms */
  readonly startedAt: number;
  endedAt: number | null;
  /** of the whole reply; null: without one */
  status: number | null;
  /** by the whole reply */
  asked: Asked | null;
  /** calls of its topic that its process might allow when it began */
  readonly concurrency: number;
}

export interface Entry {
  readonly key: string;
  readonly topic: string;
  readonly id: string;
  /** of the push that stored it */
  readonly tag: string;
  body: Buffer;
  /** version of the push; 0: drawn by an edit */
  origin: number;
  version: number;
  dueAt: number;
  /** The wall clock was not stepped since the due time was set: it tells early from late. */
  isDueKnown: boolean;
  failures: number;
  strikes: number;
  /** its snoozes; null: the store got the job without telling */
  again: number | null;
  state: 'live' | 'dead';
  /** virtual ms */
  deadAt: number;
  /** the wall clock was not stepped since its death */
  isAgeKnown: boolean;
  lease: LeaseRecord | null;
}

/** What the ledger knew at one moment. */
export interface LedgerSnapshot {
  readonly entries: readonly Entry[];
  readonly stored: ReadonlyMap<string, number>;
  readonly lastNumber: number;
  /** steps of the wall clock until then */
  readonly steps: number;
}

/** What the store puts back. `deadAt`: epoch ms; null: it waits. `isTold`: its alert is settled. */
export interface RestoredRow extends JobKey {
  readonly version: number;
  readonly origin: number;
  readonly dueAt: number;
  readonly failures: number;
  readonly body: Buffer;
  readonly deadAt: number | null;
  readonly isTold: boolean;
}

/** How recovery ends a lease. */
export type How = 'expired' | 'owner' | 'unheld';
export interface Recovered {
  /** tokens in the tables after the recovery */
  readonly held: ReadonlySet<number>;
  /** the disk reserve is in use */
  readonly isFull: boolean;
  /** that asks for it; null: the store has one, or the leases have expired */
  readonly instance: number | null;
}
/** What the ledger needs of an edit. */
export type EditedItem = VersionedKey & Pick<EditItem, 'body' | 'requeue'>;
type Moved = RunOutcome | RescheduleOutcome | RequeueOutcome;
type Finish = 'ack' | 'retry' | 'bury' | 'release';
interface FinishItem extends Lease, SettledItem {
  readonly isPulled?: boolean;
  readonly ifExpired?: boolean;
  readonly reason?: string;
}

/** From the begin to the COMMIT. */
const transactionMsMax = 50;
/** A stored job, as it is after an operation of the store. */
export interface StoredJob {
  readonly version: number;
  readonly dueAt: number;
  readonly isDead: boolean;
}

/** The id of an outcome job, and what the store has under it after the end that brought it; null: nothing. */
export interface Following {
  readonly key: JobKey;
  readonly row: { readonly version: number; readonly dueAt: number; readonly body: Uint8Array | null } | null;
}

/** How an operator's call changed a job. */
export type TouchVerb = 'cancel' | 'run' | 'reschedule' | 'requeue' | 'edit' | 'purge' | 'purge topic';
export interface Touch {
  readonly verb: TouchVerb;
  /** as it was before */
  readonly entry: Readonly<Entry>;
  /** of a bulk call: deaths with a lower number match, null: all. absent: the call names the job */
  readonly below?: number | null;
}

export interface LedgerListener {
  /** The store holds a push that it did not hold before. `old`: the job that it replaced */
  pushed?(entry: Readonly<Entry>, old: Readonly<Entry> | undefined): void;
  touched?(touch: Touch): void;
  /** The store has lost its last writes. */
  lost?(): void;
  /** A job arrives, or a row of the journal is put back. */
  restored?(entry: Readonly<Entry>): void;
}

/** Longer than a drain. */
const drainMsMax = 20_000;
/** dq-upkeep asks for the warning of the clock once a second. */
const clockLookMs = 1_100;
/** What a receiver asks for with the status 429. */
export const retryAfterMs = 2_000;

export const keyOf = ({ topic, id }: JobKey): string => `${topic}/${id}`;

export interface LedgerOptions {
  readonly loop: Loop;
  readonly judge: Judge;
  readonly topics: TopicTable;
  readonly mails: MailServer;
  readonly deadlines: Deadlines;
  readonly windows: Windows;
  readonly verdicts: Verdicts;
  readonly network: Network;
  readonly retryUnitMs: number;
  /** Nothing that happens in this world loses a message. */
  readonly isGentle: boolean;
}

export class Ledger {
  readonly entries = new Map<string, Entry>();
  readonly leases = new Map<number, LeaseRecord>();
  /** version of each stored push, by its tag */
  readonly stored = new Map<string, number>();
  /** the same of pushes that the store has lost */
  readonly lost = new Map<string, number>();
  /** how often each ending of a lease, and each move of a job, happened */
  readonly counts: Record<string, number> = {};
  readonly #options: LedgerOptions;
  #lastNumber = 0;
  /** by number: the job that got it; a loss of the store changes nothing here */
  readonly #numbered = new Map<number, string>();
  /** of the wall clock */
  steps = 0;
  /** virtual ms of the last jump of the clock that the running dq-store could see */
  #jumpedAt = Number.NEGATIVE_INFINITY;
  /** ms of each step of the wall clock since the last COMMIT */
  #uncommitted: number[] = [];
  /** Steps between which nothing may have looked at the clock. */
  #jump = { at: Number.NEGATIVE_INFINITY, ms: 0, earlierAt: Number.NEGATIVE_INFINITY };
  /** virtual ms of the last start of dq-store, or of the Redis that has the jobs */
  startedAt = Number.NEGATIVE_INFINITY;
  /** virtual ms of the last start of the dq-store that has the jobs */
  #storeStartedAt = Number.POSITIVE_INFINITY;
  /** entries that died in this transaction */
  #died: Entry[] = [];
  /** by key: jobs of schedules that ended since the last loss or step of the clock */
  readonly #tickEnds = new Map<string, { readonly version: number; readonly at: number }>();
  #areTickEndsChecked = true;
  /** by version: virtual ms of the end of the job */
  #ended = new Map<number, number>();
  /** by key: the highest version that ended, and its virtual ms; a loss of the store changes nothing here */
  readonly #ends = new Map<
    string,
    { readonly version: number; readonly at: number; readonly isFree: boolean }
  >();
  /** virtual ms of the last loss */
  #lostAt = Number.NEGATIVE_INFINITY;
  /** virtual ms of the last step of the wall clock */
  steppedAt = Number.NEGATIVE_INFINITY;
  /** body of each stored push, by its tag */
  readonly #bodies = new Map<string, Buffer>();
  /** the same of its edits, in the order of their versions; a loss of the store changes nothing here */
  readonly #editedBodies = new Map<string, { readonly version: number; readonly body: Buffer }[]>();
  readonly listeners: LedgerListener[] = [];
  /** how often the store returned to an earlier state */
  losses = 0;
  /** The store forgot ends of jobs: a tick of a schedule may be made again. */
  hasForgottenEnds = false;
  /** virtual ms of the last reserve that brought a job */
  reservedAt = Number.NEGATIVE_INFINITY;

  constructor(options: LedgerOptions) {
    this.#options = options;
  }

  /** of all that were drawn, and reported here */
  get lastNumber(): number {
    return this.#lastNumber;
  }

  /** From now on the due times and ages of the stored jobs prove nothing. dq-store cannot see a step while it
   *  does not run: then the leases prove nothing, either. */
  wallStepped(ms: number, isSeen: boolean): void {
    this.steps += 1;
    this.steppedAt = this.#options.loop.at;
    this.#tickEnds.clear();
    for (const entry of this.entries.values()) {
      entry.isDueKnown = false;
      entry.isAgeKnown = false;
    }
    if (isSeen) this.#uncommitted.push(ms);
    else this.#stepsUnseen(ms);
    const { at } = this.#options.loop;
    if (at - this.#jump.at > clockLookMs) this.#jump = { at, ms: 0, earlierAt: this.#jumpedAt };
    this.#jump.ms += ms;
    const isJump = Math.abs(this.#jump.ms) > sqliteLimits.clockJumpMs;
    if (isSeen) this.#jumpedAt = isJump ? at : this.#jump.earlierAt;
  }

  #stepsUnseen(ms: number): void {
    for (const { lease } of this.entries.values()) {
      if (lease === null) continue;
      lease.unseenMs += Math.max(0, ms);
      lease.behindMs += Math.max(0, -ms);
    }
  }

  /** The ends of the leases have moved with the steps before it. */
  committed(): void {
    this.#uncommitted = [];
  }

  /** Returns a function that brings this moment back, after a power cut or from a backup. All processes are
   *  dead then, so no later lease counts. */
  copy(): () => void {
    const { loop } = this.#options;
    const entries = [...this.entries.values()].map((entry) => ({ ...entry }));
    const leases = [...this.leases.values()].map((lease) => [lease, { ...lease }] as const);
    const restoreMails = this.#options.mails.copy();
    const [stored, ended] = [new Map(this.stored), new Map(this.#ended)];
    const [lastNumber, wallOffset] = [this.#lastNumber, loop.wallOffset];
    return () => {
      this.#lostAt = loop.at;
      this.losses += 1;
      this.entries.clear();
      for (const entry of entries) this.entries.set(entry.key, { ...entry });
      for (const lease of this.leases.values()) lease.ended ??= 'undone';
      for (const [lease, { ended, at, ms }] of leases) {
        // Its client may know that it had ended.
        if (lease.pull !== null && ended === null && lease.ended !== 'undone') lease.wasForgotten = true;
        Object.assign(lease, { ended, at, ms });
      }
      this.stored.clear();
      for (const [tag, version] of stored) this.stored.set(tag, version);
      this.#ended = ended;
      this.#lastNumber = lastNumber;
      this.#died = [];
      this.#tickEnds.clear();
      restoreMails();
      if (loop.wallOffset !== wallOffset) this.wallStepped(loop.wallOffset - wallOffset, false);
    };
  }

  /** It has seen no step, nor has the one before seen those after its last COMMIT. */
  storeStarted(hasJobs: boolean): void {
    for (const ms of this.#uncommitted.splice(0)) this.#stepsUnseen(ms);
    this.startedAt = this.#options.loop.at;
    if (hasJobs) this.#storeStartedAt = this.#options.loop.at;
    this.#jumpedAt = Number.NEGATIVE_INFINITY;
    this.#jump = { at: Number.NEGATIVE_INFINITY, ms: 0, earlierAt: Number.NEGATIVE_INFINITY };
  }

  snapshot(): LedgerSnapshot {
    const entries = [...this.entries.values()].map((entry) => ({ ...entry }));
    const [lastNumber, steps] = [this.#lastNumber, this.steps];
    return { entries, stored: new Map(this.stored), lastNumber, steps };
  }

  /** The store has lost what it wrote since the snapshot; null: everything. Leases that it forgot, and leases
   *  that hold again, prove nothing; their notifiers may still call. */
  rollBack(snapshot: LedgerSnapshot | null): void {
    const { entries = [], stored = new Map<string, number>(), lastNumber = 0, steps = 0 } = snapshot ?? {};
    for (const { lease } of this.entries.values()) if (lease !== null) this.#forget(lease);
    this.losses += 1;
    this.#tickEnds.clear();
    this.entries.clear();
    for (const saved of entries) {
      const entry = { ...saved };
      if (steps !== this.steps) {
        entry.isDueKnown = false;
        entry.isAgeKnown = false;
      }
      this.entries.set(entry.key, entry);
      if (entry.lease === null) continue;
      // It holds again.
      this.#forget(entry.lease);
      entry.lease.ended = null;
    }
    for (const [tag, version] of this.stored) if (!stored.has(tag)) this.lost.set(tag, version);
    this.stored.clear();
    for (const [tag, version] of stored) this.stored.set(tag, version);
    this.#lostAt = this.#options.loop.at;
    this.#options.mails.forget();
    this.#lastNumber = lastNumber;
    if (snapshot !== null) for (const listener of this.listeners) listener.lost?.();
  }

  /** Entries that died since the last call and are still dead. */
  takeDead(): readonly Entry[] {
    const died = this.#died;
    this.#died = [];
    return died.filter((entry) => entry.state === 'dead' && this.entries.get(entry.key) === entry);
  }

  /** A full store removed history entries. */
  historyShrank(): void {
    this.#areTickEndsChecked = false;
  }

  /** A process that takes over an instant looks for the end of its job.
   *  `entries`: versions in the history */
  checkTickEnds(entries: () => ReadonlySet<number>): void {
    if (this.#areTickEndsChecked) return;
    this.#areTickEndsChecked = true;
    const { at } = this.#options.loop;
    const kept = entries();
    for (const [key, end] of this.#tickEnds)
      this.#check(
        kept.has(end.version) || this.entries.has(key) || at - end.at >= limits.tickHistoryMs,
        'schedules: the end of each tick is kept',
        () => `that of ${key} left the history after ${seconds(at - end.at)}`,
      );
  }

  pushed(job: PushJob, outcome: PushOutcome): void {
    const key = keyOf(job);
    const old = this.entries.get(key);
    if (outcome.kind === 'kept' || outcome.kind === 'job_exists') {
      this.#check(
        old?.state === 'live' && old.version === outcome.version,
        '1 one state',
        () => `${key} is ${outcome.kind} as version ${outcome.version}, the ledger has ${old?.version}`,
      );
      return;
    }
    if (outcome.kind !== 'stored' && outcome.kind !== 'ended') return;
    if (old?.state !== 'live')
      this.#options.windows.answered(tagOfJob(job), key, outcome, this.#lastEnd(key, old));
    if (outcome.kind === 'ended') {
      this.#check(old?.state !== 'live', '1 one state', () => `${key} counts as ended; ${describe(old)}`);
      return;
    }
    const { version, dueAt } = outcome;
    this.#number(version, key, 'version');
    const wasLive = old?.state === 'live';
    this.#check(
      outcome.replaced === wasLive && outcome.inFlight === (wasLive && old.lease !== null),
      '1 one state',
      () => `${key}: replaced ${outcome.replaced}, in flight ${outcome.inFlight}; ${describe(old)}`,
    );
    if (old !== undefined) this.#withdraw(old, 'replaced');
    const tag = tagOfJob(job);
    const isTick = isTickId(job.id);
    // A process that takes over an instant whose job the store lost makes it again.
    const isOutcome = outcomeTag.test(tag);
    // The end of a job that came back after a loss runs again.
    const before = this.stored.get(tag) ?? (isTick || isOutcome ? undefined : this.lost.get(tag));
    const rule = isTick ? 'schedules: each tick is one job' : '4 a push is stored once';
    this.#check(
      before === undefined || (isTick && this.hasForgottenEnds),
      isOutcome ? 'O2 one end, at most one outcome job' : rule,
      () => `${isTick ? '' : 'push '}${tag} has the versions ${before} and ${version}`,
    );
    this.stored.set(tag, version);
    const fresh = {
      again: this.#options.verdicts.first(tag),
      failures: 0,
      strikes: 0,
      state: 'live',
      deadAt: 0,
      isAgeKnown: true,
      lease: null,
    } as const;
    const { topic, id } = job;
    const body = Buffer.from(job.body);
    this.#bodies.set(tag, body);
    const known = { key, topic, id, tag, body, origin: version, version, dueAt, isDueKnown: true };
    const entry: Entry = { ...known, ...fresh };
    this.entries.set(key, entry);
    for (const listener of this.listeners) listener.pushed?.(entry, old);
    this.#tell(`The store holds push ${tag}: ${key}, ${inTime(dueAt - this.#wall)}.`);
  }

  #lastEnd(key: string, dead: Entry | undefined): LastEnd | null {
    const last =
      dead === undefined ? this.#ends.get(key) : { version: dead.version, at: dead.deadAt, isFree: false };
    if (last === undefined) return null;
    const isKnown = last.at > this.#lostAt && last.at > this.steppedAt && dead?.isAgeKnown !== false;
    // A purge, and the removal of an old dead letter, leave the id free.
    if (isKnown && last.isFree) return null;
    return { version: last.version, at: isKnown ? last.at : null };
  }

  /** The highest version of an id that ever ended; 0: none. */
  endedVersion(key: string): number {
    return this.#ends.get(key)?.version ?? 0;
  }

  /** While Redis is healed, an end of a job that it does not have is recorded. */
  closed(key: JobKey, version: number): void {
    const name = keyOf(key);
    this.#check(!this.entries.has(name), '1 one state', () => `${name} is stored, and ends as an absent job`);
    this.#noteEnd(name, version);
    this.#tell(`The store ends ${name}, which it does not have.`);
  }

  /** A push that is stored elsewhere, and may arrive. */
  knows(tag: string, body: Buffer): void {
    this.#bodies.set(tag, body);
  }

  /** A row of the journal is put back, or a job of a jobs.db arrives. */
  restored(row: RestoredRow): void {
    const { topic, id, version, origin, dueAt, failures, deadAt, isTold } = row;
    const key = keyOf(row);
    const old = this.entries.get(key);
    this.#check(
      old === undefined || old.version <= version,
      '2 nothing is put back over a later version',
      () => `${key}, version ${version}: ${describe(old)}`,
    );
    // A job of the same version keeps its body: the row may come without it.
    const isSame = old?.version === version;
    const body = isSame ? old.body : row.body;
    const tag = tagOf(body);
    if (old?.lease) this.#forget(old.lease);
    this.#check(
      isSame || this.#bodyOf(tag, version)?.equals(body) === true,
      '5 the body is unchanged',
      () => `${key}, version ${version}: ${body.length} bytes are put back of push ${tag}`,
    );
    const isKnown = this.steps === 0;
    const state = deadAt === null ? 'live' : 'dead';
    const entry: Entry = {
      ...{ key, topic, id, tag, body, version, origin, dueAt, isDueKnown: isKnown },
      ...{ failures, strikes: 0, again: null, state },
      ...{ deadAt: (deadAt ?? 0) - this.#options.loop.wallOffset, isAgeKnown: isKnown, lease: null },
    };
    this.entries.set(key, entry);
    this.stored.set(tag, this.stored.get(tag) ?? this.lost.get(tag) ?? version);
    this.lost.delete(tag);
    if (state === 'dead' && !isTold) this.#options.mails.diedAgain(version, topic, key);
    for (const listener of this.listeners) listener.restored?.(entry);
    this.#tell(`The store gets ${key}, ${state}, with push ${tag}.`);
  }

  /** A job that came back is removed, because the journal has its end. */
  removed(key: JobKey): void {
    const entry = this.entries.get(keyOf(key));
    if (entry === undefined) return;
    if (entry.lease !== null) this.#forget(entry.lease);
    this.entries.delete(entry.key);
    this.#tell(`The journal removes ${entry.key}.`);
  }

  #forget(lease: LeaseRecord): void {
    lease.wasForgotten = true;
    lease.unseenMs = Number.POSITIVE_INFINITY;
    lease.ended = 'forgotten';
    this.#count('forgotten');
  }

  cancelled(key: VersionedKey, outcome: CancelOutcome): void {
    const entry = this.#named(key, outcome.kind);
    if (outcome.kind !== 'cancelled' || entry === undefined) return;
    this.#check(
      outcome.inFlight === (entry.lease !== null),
      '1 one state',
      () => `${entry.key}: in flight ${outcome.inFlight}; ${describe(entry)}`,
    );
    this.#touched({ verb: 'cancel', entry: { ...entry } });
    this.#withdraw(entry, 'cancelled');
    this.#tell(`The store removes ${entry.key}: it is cancelled.`);
  }

  moved(verb: 'run' | 'reschedule' | 'requeue', key: VersionedKey, outcome: Moved): void {
    const entry = this.#named(key, outcome.kind);
    if (entry === undefined) return;
    const { kind } = outcome;
    this.#count(kind);
    const isRight =
      kind === 'dead'
        ? entry.state === 'dead'
        : kind === 'in_flight'
          ? entry.lease !== null
          : kind === 'requeued'
            ? entry.state === 'dead'
            : kind === 'run' || kind === 'rescheduled'
              ? entry.state === 'live' && entry.lease === null
              : true;
    this.#check(isRight, '1 one state', () => `${verb} of ${entry.key}: ${kind}; ${describe(entry)}`);
    if (kind !== 'run' && kind !== 'rescheduled' && kind !== 'requeued') return;
    this.#move({ verb, entry: { ...entry } }, entry, outcome);
  }

  /** Of a version of a push: that of its last edit, or its own. */
  #bodyOf(tag: string, version: number): Buffer | undefined {
    const edits = this.#editedBodies.get(tag) ?? [];
    return edits.findLast((edit) => edit.version <= version)?.body ?? this.#bodies.get(tag);
  }

  /** Whether the store ever had this edit. */
  hadEdit(tag: string, version: number): boolean {
    return this.#editedBodies.get(tag)?.some((edit) => edit.version === version) === true;
  }

  edited(item: EditedItem, outcome: EditOutcome): void {
    const entry = this.#named(item, outcome.kind);
    if (entry === undefined) return;
    const { kind } = outcome;
    this.#count(kind);
    const { state, lease } = entry;
    const isRight =
      kind === 'dead' || kind === 'not_dead'
        ? (state === 'dead') === (kind === 'dead')
        : kind === 'in_flight'
          ? lease !== null
          : kind !== 'edited' || ((state === 'dead') === item.requeue && lease === null);
    this.#check(isRight, '1 one state', () => `edit of ${entry.key}: ${kind}; ${describe(entry)}`);
    if (kind !== 'edited') return;
    this.#move({ verb: 'edit', entry: { ...entry } }, entry, outcome);
    if (item.requeue) this.#startAgain(entry);
    entry.body = Buffer.from(item.body);
    // Only a version that is not its origin tells that an operator moved the job.
    entry.origin = 0;
    const edits = this.#editedBodies.get(entry.tag) ?? [];
    this.#editedBodies.set(entry.tag, [...edits, { version: outcome.version, body: entry.body }]);
  }

  /** Dead letters that a bulk call made ready; `stored`: by key, what the store holds after it. */
  requeued(stored: ReadonlyMap<string, StoredJob>, below: number | null): void {
    const moved = [...this.entries.values()].flatMap((entry) => {
      const now = stored.get(entry.key);
      return entry.state === 'dead' && now !== undefined && now.version !== entry.version
        ? [{ entry, now }]
        : [];
    });
    for (const { entry, now } of moved.sort((a, b) => a.now.version - b.now.version)) {
      this.#check(!now.isDead, '1 one state', () => `${entry.key} is requeued, and dead`);
      this.#count('requeued');
      this.#move({ verb: 'requeue', entry: { ...entry }, below }, entry, now);
    }
  }

  /** Jobs that a bulk call removed: dead letters, or all of a topic; `stored`: as for requeued(). */
  purged(
    stored: ReadonlyMap<string, StoredJob>,
    verb: 'purge' | 'purge topic',
    below: number | null = null,
  ): void {
    for (const entry of [...this.entries.values()]) {
      if (stored.has(entry.key)) continue;
      this.#check(
        verb === 'purge topic' || entry.state === 'dead',
        '1 a purge removes dead letters',
        () => `${entry.key}: ${describe(entry)}`,
      );
      this.#touched({ verb, entry: { ...entry }, below });
      this.#withdraw(entry, 'purged');
      this.#tell(`The store removes ${entry.key}: it is purged.`);
    }
  }

  #move(touch: Touch, entry: Entry, to: Pick<StoredJob, 'version' | 'dueAt'>): void {
    this.#touched(touch);
    this.#number(to.version, entry.key, 'version');
    entry.version = to.version;
    entry.dueAt = to.dueAt;
    entry.isDueKnown = true;
    entry.state = 'live';
    if (touch.verb === 'requeue') this.#startAgain(entry);
    this.#tell(`The store ${touch.verb}s ${entry.key}, ${inTime(entry.dueAt - this.#wall)}.`);
  }

  #startAgain(entry: Entry): void {
    entry.failures = 0;
    entry.strikes = 0;
    entry.again = 0;
  }

  #touched(touch: Touch): void {
    for (const listener of this.listeners) listener.touched?.(touch);
  }

  reserved(owner: Owner, jobs: readonly ReservedJob[]): void {
    for (const job of jobs) this.#reserve(owner, job);
    if (jobs.length > 0) this.reservedAt = this.#options.loop.at;
  }

  #reserve(owner: Owner, job: ReservedJob): void {
    const key = keyOf(job);
    const entry = this.entries.get(key);
    this.#number(job.token, key, 'token');
    const isReady = entry?.state === 'live' && entry.lease === null;
    this.#check(isReady, '1 only a ready job is reserved', () => `${key}: ${describe(entry)}`);
    if (!isReady) return;
    const { version, failures, strikes } = entry;
    const end = this.#ends.get(key);
    this.#check(
      end === undefined || end.version < version || end.at <= this.#lostAt,
      '1 an ended job does not come back',
      () => `${key}, version ${version}: up to ${end?.version} it has ended`,
    );
    this.#check(
      version === job.version,
      '2 a reserved job has its newest version',
      () => `${key}: version ${job.version} of ${version}`,
    );
    this.#check(
      failures === job.failures && strikes === job.strikes,
      '7 each outcome counts once',
      () =>
        `${key}: ${job.failures} failures, ${job.strikes} strikes are stored; ${failures} and ${strikes} were`,
    );
    this.#check(
      entry.body.equals(job.body),
      '5 the body is unchanged',
      () => `${key}: ${job.body.length} bytes of ${entry.body.length}`,
    );
    this.checkEarly(entry, 'reserved');
    const owned = this.#options.loop.processes.get(owner.incarnation)?.instance ?? 0;
    this.#check(
      owned === owner.instance,
      '14 a lease belongs to the instance of its process',
      () => `${key}: #${owner.incarnation} of instance ${owned} reserves as one of ${owner.instance}`,
    );
    const timeoutMs = Math.min(...this.#topicsOf(entry).map((topic) => topic.timeoutMs));
    const { token, leaseMs: ms } = job;
    const { at } = this.#options.loop;
    const deadline = deadlineOf(entry);
    const again = this.#options.verdicts.reserved(entry, job.extension);
    entry.again = again;
    const its = { version, key, failures, strikes, again, timeoutMs, deadline };
    const lease = { ...its, token, owner, at, ms, firstMs: ms };
    const pull = isPulled(owner) ? new PullRecord() : null;
    entry.lease = { ...lease, unseenMs: 0, behindMs: 0, wasForgotten: false, ended: null, call: null, pull };
    this.leases.set(token, entry.lease);
    const holder = pull === null ? `notifier #${owner.incarnation}` : 'a pull client';
    this.#tell(`The store leases ${key} for ${seconds(ms)} to ${holder}.`);
    if (pull !== null) this.#checkPulled(entry);
    else
      this.#check(
        // One that was started again while the registry did not answer knows no topic: it releases the job.
        !this.#options.topics.isReadSoon || this.#topicsOf(entry).some(({ delivery }) => delivery !== 'pull'),
        'notifiers get no jobs of pull topics',
        () => entry.key,
      );
  }

  /** A client gets no job of a topic that is not active, and none that notifiers call. */
  #checkPulled(entry: Entry): void {
    const { topics } = this.#options;
    this.#check(
      !topics.isKnownClosed(entry.topic),
      '10 a topic that is not active gives no jobs to clients',
      () => entry.key,
    );
    this.#check(
      this.#topicsOf(entry).some(({ delivery }) => delivery === 'pull'),
      'clients get jobs of pull topics alone',
      () => entry.key,
    );
  }

  /** The lease that a caller shows, if it holds; a pull client never shows one of a notifier. */
  #shown(item: FinishItem): LeaseRecord | null {
    const lease = this.leases.get(item.token);
    const isIt = lease?.key === keyOf(item) && lease.version === item.version && lease.ended === null;
    return isIt && (item.isPulled !== true || lease.pull !== null) ? lease : null;
  }

  #checkLost(what: string, item: FinishItem): void {
    // An expired lease that is to end may have been extended.
    const isLost = this.#shown(item) === null || item.ifExpired === true;
    this.#check(isLost, '2 a held lease is not lost', () => `${what} of ${keyOf(item)}, token ${item.token}`);
  }

  /** A lease of a client ends later, or sooner; no other changes. */
  extended(item: ExtendItem, outcome: ExtendOutcome): void {
    const shown = { ...item, isPulled: true };
    if (outcome.kind === 'lease_lost') this.#checkLost('extend', shown);
    if (outcome.kind !== 'extended') return;
    const lease = this.#shown(shown);
    const key = keyOf(item);
    this.#check(
      lease?.pull?.asksFor('extend', item.leaseMs) === true,
      '2 only a client with the text of a lease changes it',
      () => `extend of ${key}, token ${item.token}: lease ${this.leases.get(item.token)?.ended}`,
    );
    if (lease === null) return;
    // A transaction has the time of its begin.
    const lateMs = this.#wall + item.leaseMs - outcome.until;
    this.#check(
      lateMs >= 0 && lateMs <= transactionMsMax,
      '6 an extension counts from the call',
      () => `${key}: the lease ends ${lateMs} ms earlier than asked for`,
    );
    this.#count('extend');
    lease.pull?.done.add('extend');
    lease.at = this.#options.loop.at - lateMs;
    lease.ms = item.leaseMs;
    lease.unseenMs = 0;
    lease.behindMs = 0;
    this.#tell(`The store extends the lease of ${key} to ${seconds(lease.ms)} from now.`);
  }

  finished(verb: Finish, item: FinishItem, kind: string): void {
    const key = keyOf(item);
    const lease = this.leases.get(item.token);
    const entry = this.entries.get(key);
    if (kind === 'lease_lost') {
      this.#checkLost(verb, item);
      return;
    }
    this.#tell(`The store takes the ${verb} of ${key}.`);
    this.#count(verb);
    const isHeld = lease !== undefined && this.#shown(item) === lease && entry?.lease === lease;
    this.#check(
      isHeld,
      '2 only the held lease ends a job',
      () => `${verb} of ${key}, version ${item.version}, token ${item.token}: lease ${lease?.ended}`,
    );
    if (!isHeld || entry === undefined) return;
    this.#check(
      verb !== 'release' || lease.call === null || lease.call.endedAt !== null,
      '7 a running call is not released',
      () => `${key}, token ${item.token}`,
    );
    if (lease.pull !== null) this.#checkAsked(verb, item, lease, lease.pull);
    lease.ended = verb;
    entry.lease = null;
    if (verb === 'ack') this.#acked(entry, lease);
    else if (verb === 'retry') this.#retried(entry, lease, item);
    else if (verb === 'bury') this.#buried(entry, lease, item);
  }

  /** After the end of a job; `seen`: null: it was sent without an outcome job. */
  followed(verb: 'ack' | 'bury', item: JobKey, isDone: boolean, seen: Following | null): void {
    if (seen === null) {
      const field = verb === 'ack' ? 'onDone' : 'onDead';
      this.#check(
        !isDone || this.#options.topics.possible(item.topic).some((topic) => topic[field] === ''),
        'O1 an end and its outcome job are both stored, or neither',
        () => `${verb} of ${keyOf(item)} has no outcome job`,
      );
      return;
    }
    const { key, row } = seen;
    const name = keyOf(key);
    const isNew = row !== null && row.version !== this.entries.get(name)?.version;
    this.#check(
      isDone ? row !== null || this.endedVersion(name) > 0 : !isNew,
      'O1 an end and its outcome job are both stored, or neither',
      () => `${verb} of ${keyOf(item)}: done ${isDone}, ${name} is stored ${row !== null}, new ${isNew}`,
    );
    if (!isNew || !isDone) return;
    this.#count('outcome job');
    const job = { ...key, body: Buffer.from(row.body ?? []) } as unknown as PushJob;
    const { version, dueAt } = row;
    this.pushed(job, { kind: 'stored', version, dueAt, state: 'ready', replaced: false, inFlight: false });
  }

  /** A lease of a client ends as a client with its text asks, by its time, or unseen by every client. */
  #checkAsked(verb: Finish, item: FinishItem, lease: LeaseRecord, pull: PullRecord): void {
    const { key } = lease;
    pull.done.add(verb);
    if (item.ifExpired === true) {
      this.#count('pull expired');
      this.#checkLength(lease);
      this.#check(
        verb === 'retry' || verb === 'bury' || this.#options.topics.wasAway,
        '7 an expired lease of a client is a failed attempt',
        () => `${verb} of ${key}`,
      );
      this.#check(
        pull.wasSent || !this.#options.isGentle,
        '7 a job that no client got is released',
        () => `the lease of ${key} expired`,
      );
      return;
    }
    const isLate = verb === 'bury' && item.reason === 'expired' && item.attempt === null;
    const isUnseen = (verb === 'release' || isLate) && !pull.wasSent;
    if (isUnseen) this.#count(`unseen ${verb}`);
    this.#check(
      isUnseen ||
        pull.asksFor(verb, verb === 'retry' ? (item.delayMs ?? 0) : null, item.reason, item.attempt !== null),
      '2 only a client with the text of a lease changes it',
      () => `${verb} of ${key}, token ${item.token}, ${item.reason ?? ''}`,
    );
  }

  /** The clock of a file is whole, so it is up to 1 ms behind at both ends. */
  #checkLength(lease: LeaseRecord): void {
    const ranMs = this.#options.loop.at - lease.at;
    this.#check(
      ranMs >= lease.ms - lease.unseenMs - 2,
      '6 a lease is not shortened',
      () => `${lease.key}: ${ranMs} of ${lease.ms} ms`,
    );
  }

  #acked(entry: Entry, lease: LeaseRecord): void {
    const { call, pull } = lease;
    const status = call?.status ?? 0;
    this.#check(
      pull !== null || (status >= 200 && status < 300),
      '7 an ack follows a reply 2xx',
      () => `${entry.key}: ${status}`,
    );
    this.#options.verdicts.acked(entry, lease);
    this.#end(entry, 'acked');
  }

  #retried(entry: Entry, lease: LeaseRecord, item: FinishItem): void {
    const { call, pull } = lease;
    const { verdicts, deadlines } = this.#options;
    if (verdicts.retried(entry, lease, item)) {
      deadlines.retried(entry, lease, item.delayMs ?? 0, this.steppedAt);
      this.#check(call !== null || pull !== null, '7 a snooze follows a call', () => entry.key);
      entry.strikes = 0;
      entry.dueAt = this.#wall + (item.delayMs ?? 0);
      entry.isDueKnown = true;
      return;
    }
    verdicts.failed(entry, lease);
    const maxAttempts = Math.max(...this.#topicsOf(entry).map((topic) => topic.maxAttempts));
    const hasOwnWait = item.ifExpired !== true && pull?.hasOwnWait(item.delayMs ?? 0) === true;
    if (!hasOwnWait) this.#checkWait(entry, lease, item);
    deadlines.retried(entry, lease, item.delayMs ?? 0, this.steppedAt);
    this.#check(call !== null || pull !== null, '7 a retry follows a call', () => entry.key);
    entry.failures += 1;
    entry.strikes = 0;
    this.#check(
      entry.failures < maxAttempts,
      '7 attempts ≤ maxAttempts',
      () => `${entry.key}: retry after ${entry.failures} of ${maxAttempts}`,
    );
    entry.dueAt = this.#wall + (item.delayMs ?? 0);
    entry.isDueKnown = true;
  }

  /** 1, 3, 5 … units, at least what the receiver asks for, or the client whose snooze was one too many. */
  #waitOf(
    entry: Entry,
    { call, pull }: LeaseRecord,
    isExpired: boolean,
  ): { readonly leastMs: number; readonly mostMs: number } {
    const { verdicts, retryUnitMs } = this.#options;
    const askedMs = verdicts.waitOf(call) ?? (call?.status === 429 ? retryAfterMs : 0);
    const snoozes = isExpired ? null : pull?.snoozes;
    const leastMs = Math.max((2 * entry.failures + 1) * retryUnitMs, askedMs);
    const jitter = Math.max(...this.#topicsOf(entry).map((topic) => topic.jitter));
    return {
      leastMs: Math.max(leastMs, snoozes?.least ?? 0),
      mostMs: Math.max(leastMs, snoozes?.most ?? 0) * (1 + jitter) + 1,
    };
  }

  #checkWait(entry: Entry, lease: LeaseRecord, { delayMs = 0, ifExpired = false }: FinishItem): void {
    const { leastMs, mostMs } = this.#waitOf(entry, lease, ifExpired);
    this.#check(
      delayMs >= leastMs && delayMs <= mostMs,
      '7 attempts are 1, 3, 5 … units apart',
      () => `${entry.key}: ${delayMs} ms after ${entry.failures + 1} failures, due are ${leastMs}`,
    );
  }

  #buried(entry: Entry, lease: LeaseRecord, item: FinishItem): void {
    this.#options.verdicts.buried(entry, lease, item.reason);
    if (item.reason === 'expired') this.#expired(entry, lease, item);
    if (item.reason === 'poison') this.#poisoned(entry, lease);
    this.#check(
      item.attempt !== null || item.reason === 'expired' || item.reason === 'poison',
      '7 a job without an attempt dies as expired or as poison',
      () => `${entry.key}: ${item.reason}`,
    );
    if (item.attempt !== null) entry.failures += 1;
    const { failures } = entry;
    // No upper bound: each earlier failure was below the maximum of its time (#retried), and a topic that was
    // edited since may allow fewer.
    const least = Math.min(...this.#topicsOf(entry).map(({ maxAttempts }) => maxAttempts));
    this.#check(
      item.reason !== 'attempts_exhausted' || failures >= least,
      '7 a job dies after maxAttempts',
      () => `${entry.key}: dead after ${failures} of ${least}`,
    );
    this.#die(entry);
  }

  #expired(entry: Entry, lease: LeaseRecord, item: FinishItem): void {
    const { call, pull } = lease;
    const ownMs = pull?.longestWait ?? 0;
    const snoozeMs = this.#options.verdicts.waitOf(call) ?? pull?.snoozes?.most ?? null;
    const waitMs =
      item.attempt === null
        ? snoozeMs
        : Math.max(ownMs, this.#waitOf(entry, lease, item.ifExpired === true).mostMs);
    this.#options.deadlines.expired(entry, lease, waitMs, this.steppedAt);
  }

  recovered(how: How, { held, isFull, instance }: Recovered): void {
    for (const entry of this.entries.values()) {
      const { lease } = entry;
      if (lease === null || held.has(lease.token)) continue;
      lease.ended = how;
      entry.lease = null;
      this.#count(how);
      this.#tell(`The store ends the lease of ${entry.key}: ${endings[how]}.`);
      this.#check(
        instance === null || instance === lease.owner.instance,
        '14 an instance ends no unexpired lease of another one',
        () => `${entry.key}: instance ${instance} ends a lease of instance ${lease.owner.instance}`,
      );
      this.#checkRecovered(how, entry, lease, isFull);
      // On a full disk leases expire because outcomes cannot be stored.
      if (how === 'unheld' || (how === 'expired' && isFull)) continue;
      entry.strikes += 1;
      this.#check(
        entry.strikes < limits.strikesPoison,
        '7 the last strike buries a job',
        () => `${entry.key} is ready with ${entry.strikes} strikes`,
      );
    }
  }

  /** Its lease ended without an outcome, as a recovered one: by its time, or by the end of its notifier. */
  #poisoned(entry: Entry, lease: LeaseRecord): void {
    const owner = this.#options.loop.processes.get(lease.owner.incarnation);
    const hasExpired = this.#options.loop.at - lease.at >= lease.ms - lease.unseenMs - 2;
    this.#checkRecovered(hasExpired && owner?.isAlive === true ? 'expired' : 'owner', entry, lease, false);
    this.#check(
      entry.strikes + 1 >= limits.strikesPoison,
      '7 the last strike buries a job',
      () => `${entry.key}: poison after ${entry.strikes + 1} strikes`,
    );
    this.#count('poisoned');
  }

  #checkRecovered(how: How, { key }: Entry, lease: LeaseRecord, isFull: boolean): void {
    const { loop, network, topics } = this.#options;
    const owner = loop.processes.get(lease.owner.incarnation);
    if (lease.pull !== null) {
      this.#check(
        how === 'expired',
        '14 the end of a process ends no lease of a client',
        () => `${key}: ${endings[how]}`,
      );
      this.#check(isFull, '7 an expired lease of a client is a failed attempt', () => `${key} is released`);
    }
    if (how === 'expired') {
      this.#checkLength(lease);
      if (lease.pull !== null) return;
      const isSilent = owner?.isAlive !== true || owner.lastPauseEnd > lease.at;
      // A new connection waits for the registry.
      const isCutOff = topics.wasAway && this.startedAt > lease.at;
      this.#check(
        isSilent || isCutOff || network.slowUntil > lease.at || lease.unseenMs > 0,
        '7 only a dead or silent notifier gets a strike',
        () => `${key}: ${owner?.title} lives, and its lease of ${lease.ms} ms expired`,
      );
    } else if (how === 'owner') {
      this.#check(
        owner?.isAlive !== true,
        '7 only the leases of dead notifiers end early',
        () => `${key} of ${owner?.title}`,
      );
      // A reserve that was sent before the drain can be served after it.
      const from = lease.at - drainMsMax;
      const wasReached = network.slowUntil < from && this.#storeStartedAt < from;
      this.#check(
        owner?.exitCode !== 0 || !wasReached,
        '7 a drain leaves no lease',
        () => `${key} of ${owner?.title}`,
      );
    } else
      this.#check(
        lease.call?.process.isAlive !== true || lease.wasForgotten,
        '7 a held lease is not released',
        () => `${key}, token ${lease.token}`,
      );
  }

  /** `ready`: versions of jobs that are ready before their due time. */
  promoted(ready: ReadonlySet<number>): void {
    for (const entry of this.entries.values())
      if (entry.state === 'live' && entry.lease === null && ready.has(entry.version))
        this.checkEarly(entry, 'promoted');
  }

  /** `dead`: versions of the dead letters that are left. */
  swept(dead: ReadonlySet<number>, retentionMs: number): void {
    for (const entry of [...this.entries.values()]) {
      if (entry.state !== 'dead' || dead.has(entry.version)) continue;
      const { at } = this.#options.loop;
      const ageMs = at - entry.deadAt;
      const isHeld = at - this.#jumpedAt < sqliteLimits.clockHoldMs;
      this.#check(
        ageMs >= retentionMs || (!entry.isAgeKnown && !isHeld),
        '8 a jump of the clock removes nothing',
        () => `dead letter ${entry.key} was removed after ${seconds(ageMs)}`,
      );
      this.#check(
        !this.#options.mails.isOwed(entry.version),
        'decision 8: no dead letter is removed before its alert is settled',
        () => entry.key,
      );
      this.#end(entry, 'expired');
    }
  }

  /** Versions whose history entries the janitor removed. */
  forgotten(removed: readonly number[]): void {
    const { at } = this.#options.loop;
    this.hasForgottenEnds ||= removed.length > 0;
    for (const version of removed) {
      const endedAt = this.#ended.get(version) ?? at;
      this.#check(
        at - endedAt >= limits.tickHistoryMs,
        '8 a history entry lives as long as its retention',
        () => `that of version ${version} was removed after ${seconds(at - endedAt)}`,
      );
    }
  }

  checkEarly({ key, dueAt, isDueKnown }: Entry, what: string): void {
    const earlyMs = dueAt - this.#wall;
    this.#check(!isDueKnown || earlyMs <= 0, '8 never early', () => `${key} is ${what} ${earlyMs} ms early`);
  }

  /** A verb that names another version, or no stored job, changes nothing. */
  #named({ topic, id, version }: VersionedKey, kind: string): Entry | undefined {
    const entry = this.entries.get(keyOf({ topic, id }));
    const isOther = entry !== undefined && version !== undefined && version !== entry.version;
    this.#check(
      (kind === 'absent') === (entry === undefined) && (kind === 'other_version') === isOther,
      '2 a verb compares the version that it names',
      () => `${keyOf({ topic, id })}, version ${version}: ${kind}; ${describe(entry)}`,
    );
    return isOther ? undefined : entry;
  }

  #number(n: number, key: string, what: string): void {
    this.#check(
      n > this.#lastNumber,
      '2 numbers rise',
      () => `${what} ${n} of ${key} after ${this.#lastNumber}`,
    );
    this.#check(
      !this.#numbered.has(n),
      '2 no number is used twice',
      () => `${what} ${n} of ${key}, and of ${this.#numbered.get(n)}`,
    );
    this.#lastNumber = n;
    this.#numbered.set(n, key);
  }

  #count(what: string): void {
    this.counts[what] = (this.counts[what] ?? 0) + 1;
  }

  #noteEnd(key: string, version: number, isFree = false): void {
    if (version >= this.endedVersion(key))
      this.#ends.set(key, { version, at: this.#options.loop.at, isFree });
  }

  #withdraw(entry: Entry, how: 'replaced' | 'cancelled' | 'purged'): void {
    if (entry.lease !== null) this.#count('withdrawn lease');
    this.#end(entry, how);
  }

  #end(entry: Entry, how: string): void {
    this.#count(how);
    if (entry.lease !== null) entry.lease.ended = how;
    this.entries.delete(entry.key);
    this.#noteEnd(entry.key, entry.version, how === 'purged' || how === 'expired');
    this.#ended.set(entry.version, this.#options.loop.at);
    if (!isTickId(entry.id)) return;
    this.#tickEnds.set(entry.key, { version: entry.version, at: this.#options.loop.at });
    this.#areTickEndsChecked = false;
  }

  #die(entry: Entry): void {
    entry.state = 'dead';
    entry.deadAt = this.#options.loop.at;
    entry.isAgeKnown = true;
    this.#died.push(entry);
    this.#options.mails.died(entry.version, entry.topic, entry.key);
    this.#tell(`${entry.key} is dead.`);
  }

  #check(isKept: boolean, rule: string, detail: () => string): void {
    this.#options.judge.check(isKept, rule, detail);
  }

  #tell(sentence: string): void {
    this.#options.loop.tell(sentence);
  }

  /** All settings of its topic that a process may know now. */
  #topicsOf({ topic }: Entry): readonly Topic[] {
    return this.#options.topics.possible(topic);
  }

  get #wall(): number {
    return this.#options.loop.wall;
  }
}

const endings: Readonly<Record<How, string>> = {
  expired: 'it expired',
  owner: 'its notifier is dead',
  unheld: 'its notifier does not hold it',
};

/** A tick is named by its id, in whatever topic it is. */
function tagOfJob({ id, body }: PushJob): string {
  return isTickId(id) ? id : tagOf(body);
}

/** Of an outcome job: `webhook-id` and version of the ended one. */
export const outcomeTag = /^msg_[0-9a-z]{25}:\d+$/;

/** The body of a push begins with its tag. */
export function tagOf(body: Buffer): string {
  const text = body.toString('latin1', 0, 2_000);
  const [, webhookId, version] = /^\{"type":"dq\..*?"webhookId":"(.*?)","version":"(.*?)"/.exec(text) ?? [];
  if (webhookId !== undefined) return `${webhookId}:${version}`;
  return body.toString('latin1', 0, Math.max(0, body.indexOf(';')));
}

export function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(1)} s`;
}

const inTime = (ms: number): string => (ms <= 0 ? 'due now' : `due in ${seconds(ms)}`);

export function describe(entry: Entry | undefined): string {
  if (entry === undefined) return 'the ledger has no such job';
  const { state, version, failures, strikes, lease } = entry;
  const holder = lease?.pull === null ? `#${lease.owner.incarnation}` : 'a client';
  const held = lease === null ? '' : `, leased to ${holder}`;
  return `the ledger has it ${state}${held}, version ${version}, ${failures} failures, ${strikes} strikes`;
}
