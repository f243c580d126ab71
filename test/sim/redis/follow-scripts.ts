// Follows the scripts that a Redis of a world has run: reports what each changed to the ledger, and compares
// the stored records with it. A script is a COMMIT of its own.
// Invariant: it reads the arguments and the reply of a script, and what the real server holds after it. It
// asks no code of dq.

import type { Dice } from '../../../scripts/dice.ts';
import type { Lease } from '../../../src/core/job.ts';
import { readSafe } from '../../../src/core/stored-codes.ts';
import type { ScriptName } from '../../../src/store/redis/scripts/scripts.ts';
import type { JournalLaws } from '../journal/laws.ts';
import type { Judge } from '../judge.ts';
import { describe, type Following, type How, keyOf, type Ledger, type StoredJob } from '../ledger.ts';
import type { Loop } from '../loop.ts';
import type { MailServer } from '../mail.ts';
import type { Occasions } from '../occasions.ts';
import { Bucket, bucketScript } from './bucket.ts';
import type { Ran } from './redis-machine.ts';
import type { Reply } from './resp.ts';
import {
  type ReadFinish,
  type ReadOutcome,
  readBelow,
  readCancels,
  readEdits,
  readExtends,
  readFinishes,
  readInstance,
  readPushes,
  readReserve,
  readRestores,
  readSettle,
  readVerbs,
  reasonOfCode,
  sparesTicks,
} from './script-calls.ts';

export interface FollowOptions {
  readonly loop: Loop;
  readonly judge: Judge;
  readonly ledger: Ledger;
  readonly mails: MailServer;
  readonly occasions: Occasions;
  readonly retentionMs: number;
  /** decides after which scripts everything is compared */
  readonly dice: Dice;
  /** null: without a journal */
  readonly laws: JournalLaws | null;
  readonly shard: number;
  /** the reply to a script of the world, on the server that ran the last one */
  readonly read: (script: string) => Reply;
}

/** Share of the changing scripts after which everything is compared. */
const wholeShare = 0.1;
/** Leases, dead letters, alerts by version, history entries. */
const leftScript = `local P = '{dq:0}'
return { redis.call('ZRANGE', P .. ':l', 0, -1), redis.call('ZRANGE', P .. ':k', 0, -1),
  redis.call('ZRANGE', P .. ':x', 0, -1), redis.call('HKEYS', P .. ':o'),
  redis.call('ZRANGE', P .. ':e', 0, -1) }`;
const noteScript = `return redis.call('HGET', '{dq:0}:n', 'heal')`;
/** Of a run, reschedule, requeue or edit: a later version may be lost. */
const restoringKind = 4;
/** Jobs of these sets of each topic, with their due times. */
const waitingScript = (sets: readonly string[]) => `local P, out = '{dq:0}', {}
for _, no in ipairs(redis.call('HKEYS', P .. ':T')) do
  for _, set in ipairs({ ${sets.map((set) => `'${set}'`).join(', ')} }) do
    for _, one in ipairs(redis.call('ZRANGE', P .. set .. no, 0, -1, 'WITHSCORES')) do out[#out + 1] = one end
  end
end
return out`;
const readyScript = waitingScript([':r:0:', ':r:1:', ':r:2:']);
const delayedScript = waitingScript([':d:']);

type Follow = (ran: Ran) => void;

/** Scripts that change no job. */
const harmless = {
  mark: null,
  get: null,
  advance: null,
  alertDue: null,
  alertClaim: null,
  alertList: null,
  alertState: null,
  historyGet: null,
  counts: null,
  countsOf: null,
  raiseList: null,
  restTopics: null,
  moving: null,
  countQuarantined: null,
  moment: null,
  position: null,
  marks: null,
  lacks: null,
  look: null,
  horizon: null,
  deadLast: null,
  deadList: null,
  searchLive: null,
  searchEnded: null,
  searchId: null,
  ids: null,
  scan: null,
  walk: null,
} as const satisfies Readonly<Partial<Record<ScriptName, null>>>;

export class ScriptFollower {
  readonly #options: FollowOptions;
  readonly #follow: Readonly<Record<ScriptName, Follow | null>>;
  commits = 0;

  constructor(options: FollowOptions) {
    this.#options = options;
    const { ledger, judge, mails, laws, shard } = options;
    const rows = (reply: Reply) => reply as readonly (readonly [number, number, number, number])[];
    const finish =
      (verb: 'ack' | 'retry' | 'bury' | 'release'): Follow =>
      (ran) => {
        const finishes = readFinishes(verb, ran);
        for (const { number, isDone, outcome: _, ...lease } of finishes) {
          const item = {
            ...lease,
            ...(verb === 'bury' ? { reason: reasonOfCode(number) } : { delayMs: number }),
          };
          const isAbsent =
            verb === 'ack' && laws?.isNoted(shard) === true && !ledger.entries.has(keyOf(lease));
          if (isDone && isAbsent) {
            ledger.closed(lease, lease.version);
            ledger.leases.get(lease.token)?.pull?.done.add(verb);
          } else ledger.finished(verb, item, isDone ? verb : 'lease_lost');
          if (isDone && verb === 'ack') this.#ended(lease);
        }
        if (verb === 'ack' || verb === 'bury') this.#followed(verb, finishes);
      };
    const moved =
      (
        verb: 'run' | 'reschedule' | 'requeue',
        size: number,
        kindOf: (row: readonly number[]) => string,
      ): Follow =>
      ({ args, reply }) => {
        for (const [i, key] of readVerbs(args, 0, size).entries()) {
          const row = rows(reply)[i] ?? [0, 0, 0, 0];
          const [kind, version, dueAt] = row;
          if (kind === restoringKind) {
            this.#restoring(keyOf(key));
            continue;
          }
          ledger.moved(verb, key, { kind: kindOf(row), version, dueAt } as never);
        }
      };
    const unfollowed: Follow = ({ name }) => judge.check(false, 'the world follows each script', () => name);
    this.#follow = {
      ...harmless,
      // Those of fsck, which no world runs.
      examine: unfollowed,
      relink: unfollowed,
      push: ({ args, reply }) => {
        for (const [job, outcome] of readPushes(args, reply))
          if (outcome !== null) ledger.pushed(job as never, outcome);
      },
      cancel: (ran) => {
        for (const { key, code, number } of readCancels(ran)) {
          if (code === 3 || code === 129) this.#restoring(keyOf(key));
          if (code === 3) ledger.closed(key, number);
          else if (code === 129) continue;
          else if (code === 1 || code === 2)
            ledger.cancelled(key, { kind: 'cancelled', inFlight: code === 2 });
          else ledger.cancelled(key, code === 128 ? { kind: 'other_version' } : { kind: 'absent' });
        }
      },
      run: moved('run', 3, ([kind, , , state]) => {
        if (kind === 2) return state === 2 ? 'in_flight' : 'unchanged';
        return ['absent', 'run', '', 'dead', 'restoring', 'other_version'][kind ?? 0] ?? '?';
      }),
      reschedule: moved(
        'reschedule',
        4,
        ([kind = 0]) =>
          ['absent', 'rescheduled', 'in_flight', 'dead', 'restoring', 'other_version'][kind] ?? '?',
      ),
      requeue: moved(
        'requeue',
        3,
        ([kind = 0]) => ['absent', 'requeued', 'not_dead', '?', 'restoring', 'other_version'][kind] ?? '?',
      ),
      edit: ({ args, reply }) => {
        for (const [i, item] of readEdits(args).entries()) {
          const [kind = 0, version, dueAt] = rows(reply)[i] ?? [];
          if (kind === restoringKind) this.#restoring(keyOf(item));
          else {
            const kinds = ['absent', 'edited', 'in_flight', 'dead', '', 'other_version', 'not_dead'];
            ledger.edited(item, { kind: kinds[kind], version, dueAt } as never);
          }
        }
      },
      promote: ({ reply }) => {
        if ((reply as readonly number[])[0] !== 0) ledger.promoted(this.#early());
      },
      reserve: ({ args, reply }) => {
        const { owner, jobs } = readReserve(args, reply);
        for (const job of jobs) laws?.reserved(shard, job, job.version);
        ledger.reserved(owner, jobs);
      },
      ack: finish('ack'),
      retry: finish('retry'),
      bury: finish('bury'),
      release: finish('release'),
      restore: (ran) => {
        const { put, removed, isMove } = readRestores(ran);
        for (const row of put) {
          if (!isMove) laws?.putBack(row);
          ledger.restored(row);
        }
        for (const key of removed) {
          laws?.removed();
          ledger.removed(key);
        }
      },
      extend: (ran) => {
        for (const { until, ...item } of readExtends(ran))
          ledger.extended(item, until === null ? { kind: 'lease_lost' } : { kind: 'extended', until });
      },
      recover: () => this.#recovered('expired'),
      recoverOwners: ({ args }) => this.#recovered('owner', readInstance(args, 1)),
      releaseUnheld: ({ args }) => this.#recovered('unheld', readInstance(args, 0)),
      deadRequeue: ({ args }) => ledger.requeued(this.#stored(), readBelow(args)),
      deadPurge: ({ args }) => ledger.purged(this.#stored(), 'purge', readBelow(args)),
      purgeTopic: () => ledger.purged(this.#stored(), 'purge topic'),
      historyForget: ({ args, reply }) => {
        // Of a nearly full server: without a step of the clock ends of schedules are too young.
        const isSparing = sparesTicks(args) && ledger.steps === 0;
        if ((reply as readonly number[])[0] === 0) return;
        if (isSparing) ledger.historyShrank();
        else ledger.hasForgottenEnds = true;
      },
      alertSettle: ({ args }) => {
        const { as, versions } = readSettle(args);
        mails.settled(versions, as);
      },
      deadExpire: ({ reply }) => {
        if ((reply as readonly number[])[0] !== 0) ledger.swept(this.#left().dead, options.retentionMs);
      },
    };
  }

  ran(ran: Ran): void {
    this.#followNote(ran);
    const follow = this.#follow[ran.name];
    if (follow === null) return;
    follow(ran);
    this.commits += 1;
    this.#checkAlerts();
    this.#options.ledger.checkTickEnds(() => this.#left().ended);
    if (isChange(ran) && this.#options.dice.chance(wholeShare)) this.checkTables();
    this.#options.occasions.happened('commit');
  }

  /** Each script can make a note, once there was a loss; `look` reads it each second. */
  #followNote({ name, reply }: Ran): void {
    const { laws, read, shard } = this.#options;
    if (laws === null) return;
    if (laws.hasLost(shard)) laws.noted(shard, String(read(noteScript) ?? ''));
    else if (name === 'look') laws.noted(shard, String(reply));
  }

  /** The bucket is read after the whole call, which can show a lost lease of a job before the held one. Their
   *  outcome job is the same: ends come first. */
  #followed(verb: 'ack' | 'bury', finishes: readonly ReadFinish[]): void {
    const [done, lost] = [finishes.filter(({ isDone }) => isDone), finishes.filter(({ isDone }) => !isDone)];
    for (const { isDone, outcome, ...lease } of [...done, ...lost]) {
      const seen = outcome === null ? null : this.#following(outcome);
      this.#options.ledger.followed(verb, lease, isDone, seen);
    }
  }

  #following({ topic, id, body }: ReadOutcome): Following {
    const { jobs } = new Bucket(this.#options.read(bucketScript));
    const stored = jobs.find((job) => job.id === id && job.topic === topic);
    return { key: { topic, id }, row: stored === undefined ? null : { ...stored, body } };
  }

  #ended(lease: Lease): void {
    const { laws, ledger, loop } = this.#options;
    const owner = ledger.leases.get(lease.token)?.owner;
    laws?.ended(keyOf(lease), lease.version, loop.processes.get(owner?.incarnation ?? 0));
  }

  #restoring(key: string): void {
    const { laws, shard } = this.#options;
    const isNoted = laws?.isNoted(shard) === true;
    this.#options.judge.check(isNoted, 'journal: a verb waits only while Redis is healed', () => key);
  }

  /** Compares everything that is stored with the ledger. */
  checkTables(): void {
    const { ledger, judge, read } = this.#options;
    const bucket = new Bucket(read(bucketScript));
    bucket.check(judge);
    judge.check(
      bucket.jobs.length === ledger.entries.size,
      '1 no job is lost or invented',
      () => `${bucket.jobs.length} are stored, the ledger has ${ledger.entries.size}`,
    );
    for (const job of bucket.jobs) {
      const entry = ledger.entries.get(keyOf(job));
      const isSame =
        entry?.version === job.version &&
        (entry.state === 'dead') === (job.state === 'dead') &&
        (entry.lease?.token ?? 0) === (job.state === 'reserved' ? job.token : 0);
      judge.check(
        isSame,
        '1 one state',
        () => `${keyOf(job)} is stored as ${job.state}, version ${job.version}; ${describe(entry)}`,
      );
    }
  }

  #stored(): ReadonlyMap<string, StoredJob> {
    const { jobs } = new Bucket(this.#options.read(bucketScript));
    return new Map(
      jobs.map((job) => [
        keyOf(job),
        { version: job.version, dueAt: job.dueAt, isDead: job.state === 'dead' },
      ]),
    );
  }

  /** `instance`: that asks; null: its leases are recovered by their end alone */
  #recovered(how: How, instance: number | null = null): void {
    const { held } = this.#left();
    this.#options.ledger.recovered(how, { held, isFull: false, instance });
  }

  #checkAlerts(): void {
    const { ledger, judge } = this.#options;
    const died = ledger.takeDead();
    if (died.length === 0) return;
    const { alerts } = this.#left();
    for (const { key, version } of died)
      judge.check(alerts.has(version), 'decision 8: each death has its alert', () => `${key}: none`);
  }

  #left() {
    const [leases, pulled, dead, alerts, ended] = this.#options.read(leftScript) as readonly Buffer[][];
    const numbers = (members: readonly Buffer[] = []) => members.map((member) => readSafe(member, 0));
    return {
      held: new Set([...numbers(leases), ...numbers(pulled)]),
      dead: new Set(numbers(dead)),
      alerts: new Set(numbers(alerts)),
      ended: new Set(numbers(ended)),
    };
  }

  /** Versions of jobs that are ready before their due time. */
  #early(): ReadonlySet<number> {
    const { wall } = this.#options.loop;
    const early = this.#waiting(readyScript).filter(([, due]) => due > wall);
    return new Set(early.map(([version]) => version));
  }

  /** Delayed jobs that were due before this time. */
  overdue(before: number): readonly (readonly [version: number, due: number])[] {
    return this.#waiting(delayedScript).filter(([, due]) => due < before);
  }

  /** Versions of the ready jobs. */
  ready(): ReadonlySet<number> {
    return new Set(this.#waiting(readyScript).map(([version]) => version));
  }

  #waiting(script: string): readonly (readonly [version: number, due: number])[] {
    const flat = this.#options.read(script) as readonly Buffer[];
    return Array.from({ length: flat.length / 2 }, (_, i) => [
      readSafe(flat[2 * i] as Buffer, 0),
      Number(String(flat[2 * i + 1])),
    ]);
  }
}

function isChange({ name, reply }: Ran): boolean {
  if (name === 'recover' || name === 'recoverOwners' || name === 'promote' || name === 'deadExpire')
    return (reply as readonly number[])[0] !== 0;
  return name !== 'reserve' || (reply as readonly Reply[]).length > 5;
}
