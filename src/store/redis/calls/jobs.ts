// Jobs of the port, by scripts: the arguments of each call, and what its reply means. Keeps no state except
// the copies of the rings (reserve-call.ts).

import { optionsIn } from '../../../core/extension.ts';
import type { AttemptRecord, JobKey, Lease, VersionedKey } from '../../../core/job.ts';
import type { Changed } from '../../../core/job-change.ts';
import { limits } from '../../../core/limits.ts';
import { inBatches } from '../../../core/lists.ts';
import { deadReasonCodes, endCodes, packFirstAttempt } from '../../../core/stored-codes.ts';
import type {
  AckItem,
  BuryItem,
  CancelOutcome,
  EditItem,
  EditOutcome,
  EndingLease,
  ExpiredPull,
  FinishOutcome,
  JobStore,
  OnStored,
  OtherVersion,
  Outcome,
  Partition,
  PushJob,
  PushOutcome,
  Recovered,
  RequeueOutcome,
  RescheduleItem,
  RescheduleOutcome,
  RetryItem,
  RunOutcome,
} from '../../../ports/job-store.ts';
import type { StoreFailure } from '../../../ports/store-error.ts';
import { endBatches, pushBatches } from '../../batches.ts';
import { storeLimits } from '../../limits.ts';
import { redisLimits } from '../limits.ts';
import { idOf, tidOf } from '../scripts/keys.ts';
import {
  flagsOf,
  liesApart,
  readWhole,
  tailBytesMax,
  timeOf,
  type WholeReply,
  wholeMs,
  writeTail,
} from '../scripts/records.ts';
import type { ScriptName } from '../scripts/scripts.ts';
import { type Arg, lookUp, type Shards } from '../shard/shards.ts';
import { callItems, ofEach } from './calls.ts';
import { changeIn, readCodes } from './changes.ts';
import { type Finish, finishArgs, readExtensions, readFinishes } from './finish-call.ts';
import { pushArgs, readPushes, restoring } from './push-call.ts';
import { ReserveCalls } from './reserve-call.ts';
import { search } from './search.ts';

type Hints = Pick<JobStore, 'onHint'>;

export function jobCalls(
  shards: Shards,
  hints: Hints,
  capacitiesMax: number = redisLimits.capacitiesMax,
): JobStore {
  const reserves = new ReserveCalls(shards, capacitiesMax);
  return {
    partitions: () => shards.openPartitions,
    whyUnknown: () => shards.whyUnknown,
    nameOf: (partition) => shards.lastingNameOf(partition),
    partitionsOf(key) {
      if (shards.whyUnknown !== null) return [];
      const { earlier, home } = shards.routeOf(key);
      return home === null ? earlier : [...earlier, home];
    },
    ...hints,
    push: (jobs, onStored) => pushAnywhere(shards, jobs, onStored),
    get: (job, how) =>
      lookUp(shards, job, async (partition, list) => {
        const reply = await shards.run('get', partition, [...keyArgs(job), how ?? ''], list);
        return (reply as unknown[]).length === 0 ? null : readWhole(reply as WholeReply);
      }),
    search: (filter, limit, cursor) => search(shards, filter, limit, cursor),
    ...operatorCalls(shards),
    async promote(partition, max) {
      const bound = Math.min(max, limits.promoteMax);
      const [moved, waitMs] = (await shards.run('promote', partition, [bound])) as [number, number];
      return { moved, waitMs: waitMs < 0 ? null : waitMs };
    },
    async reserve(partition, request) {
      const answer = await reserves.reserve(partition, request);
      shards.leased(partition, answer.jobs);
      return answer;
    },
    ...leaseCalls(shards),
    ...recoveryCalls(shards),
  };
}

// Pushes

const push = (shards: Shards, jobs: readonly PushJob[], onEarly?: OnStored) =>
  callItems<PushJob, PushOutcome>(shards, jobs, {
    script: 'push',
    args: pushArgs,
    onEarly,
    read: readPushes,
    batches: pushBatches,
    isOfNoLiveJob: ({ kind }) => kind === 'ended',
    // A generated id lives in no earlier place.
    routeOf: (job) => {
      const route = shards.routeOf(job);
      return job.anotherId === undefined ? route : { ...route, earlier: [] };
    },
  });

/** A job with a generated id whose home does not answer goes to another shard, under another id. */
async function pushAnywhere(
  shards: Shards,
  jobs: readonly PushJob[],
  onStored: OnStored | undefined,
): Promise<readonly PushOutcome[]> {
  const outcomes = [...(await push(shards, jobs, onStored))];
  const moved = jobs.flatMap((job, at) => {
    const other = outcomes[at]?.kind === 'not_stored' ? shards.elsewhere(job) : null;
    return other === null ? [] : [{ other, at }];
  });
  if (moved.length === 0) return outcomes;
  const second = await push(
    shards,
    moved.map(({ other }) => other),
  );
  for (const [i, { other, at }] of moved.entries()) {
    const outcome = second[i] as PushOutcome;
    const mayBeStored = outcome.kind === 'stored' || outcome.kind === 'unknown';
    outcomes[at] = mayBeStored ? { ...outcome, id: other.id } : outcome;
  }
  return outcomes;
}

// Verbs of operators and producers

const keyArgs = ({ topic, id }: JobKey): readonly Arg[] => [topic, tidOf(id)];
const versionedArgs = (item: VersionedKey): readonly Arg[] => [...keyArgs(item), item.version ?? ''];

type MoveReply = readonly [kind: number, version: number, dueAt: number, state: number, change: Buffer];
type ReadMove<O> = (reply: MoveReply, change: { readonly change?: Changed }) => O;
type Unmoved = { readonly kind: 'absent' } | OtherVersion | StoreFailure;
const otherVersion: OtherVersion = { kind: 'other_version' };
/** Kinds of replies that mean the same in run, reschedule, requeue and edit. */
const unmoved: Readonly<Record<number, Unmoved>> = { 0: { kind: 'absent' }, 4: restoring, 5: otherVersion };

function operatorCalls(shards: Shards): Pick<JobStore, 'cancel' | 'run' | 'reschedule' | 'requeue' | 'edit'> {
  const isElsewhere = ({ kind }: { readonly kind: string }) => kind === 'absent';
  const move = <I extends VersionedKey, O extends { readonly kind: string }>(
    script: ScriptName,
    items: readonly I[],
    argsOf: (item: I) => readonly Arg[],
    read: ReadMove<O>,
    batches?: (items: readonly I[]) => readonly (readonly I[])[],
  ) =>
    callItems<I, O | Unmoved>(shards, items, {
      script,
      ...(batches === undefined ? {} : { batches }),
      args: ofEach(argsOf),
      read: (reply, _items, place) =>
        (reply as MoveReply[]).map((each) => unmoved[each[0]] ?? read(each, changeIn(each[4], place))),
      isElsewhere,
    });
  return {
    cancel: (keys, as) =>
      callItems<VersionedKey, CancelOutcome>(shards, keys, {
        script: 'cancel',
        args: (batch) => [endCodes.indexOf(as ?? 'cancelled'), ...ofEach(versionedArgs)(batch)],
        read: (reply, _items, place) => readCodes(reply, place).map(cancelOutcome),
        isElsewhere,
        isFallback: (outcome) => outcome.kind === 'absent' && outcome.isRecorded === true,
      }),
    run: (keys) => move('run', keys, versionedArgs, runOutcome),
    reschedule(items) {
      const argsOf = (item: RescheduleItem) => {
        const { from, ms } = timeOf(item.when);
        return [...versionedArgs(item), `${from}${ms}`];
      };
      return move('reschedule', items, argsOf, rescheduleOutcome);
    },
    requeue: (keys) => move('requeue', keys, versionedArgs, requeueOutcome),
    edit: (items) => move('edit', items, editArgs, editOutcome, pushBatches),
  };
}

function cancelOutcome({ code, ...change }: ReturnType<typeof readCodes>[number]): CancelOutcome {
  if (code === 1 || code === 2) return { kind: 'cancelled', inFlight: code === 2, ...change };
  if (code === 128) return otherVersion;
  if (code === 129) return restoring;
  // The id had no job here, or a lost one, which will not come back.
  return code === 3 ? { kind: 'absent', isRecorded: true, ...change } : { kind: 'absent' };
}

function editArgs(item: EditItem): readonly Arg[] {
  const { from, ms } = item.when === null ? { from: '', ms: '' } : timeOf(item.when);
  const tail = Buffer.allocUnsafe(tailBytesMax(item));
  const end = writeTail(tail, 0, item);
  return [
    ...versionedArgs(item),
    `${from}${ms}`,
    item.requeue ? 1 : 0,
    flagsOf(item),
    tail.subarray(0, end),
    liesApart(item) ? item.body : '',
  ];
}

const runOutcome: ReadMove<RunOutcome> = ([kind, version, dueAt, state], change) => {
  if (kind === 3) return { kind: 'dead' };
  if (kind === 1) return { kind: 'run', version, dueAt, ...change };
  return { kind: 'unchanged', state: state === 1 ? 'ready' : 'reserved', version, dueAt };
};

const rescheduleOutcome: ReadMove<RescheduleOutcome> = ([kind, version, dueAt, state], change) => {
  if (kind === 3) return { kind: 'dead' };
  if (kind === 2) return { kind: 'in_flight' };
  return { kind: 'rescheduled', state: state === 0 ? 'delayed' : 'ready', version, dueAt, ...change };
};

const liveStates = ['delayed', 'ready', 'reserved'] as const;

const requeueOutcome: ReadMove<RequeueOutcome> = ([kind, version, dueAt, state], change) =>
  kind === 2
    ? { kind: 'not_dead', state: liveStates[state] ?? 'reserved' }
    : { kind: 'requeued', version, dueAt, ...change };

const editOutcome: ReadMove<EditOutcome> = ([kind, version, dueAt, state], change) => {
  if (kind === 2) return { kind: 'in_flight' };
  if (kind === 3) return { kind: 'dead' };
  if (kind === 6) return { kind: 'not_dead', state: liveStates[state] ?? 'reserved' };
  return { kind: 'edited', state: state === 0 ? 'delayed' : 'ready', version, dueAt, ...change };
};

// Leases

function leaseCalls(shards: Shards): Pick<JobStore, 'ack' | 'retry' | 'bury' | 'release' | 'extend'> {
  const call = <I extends EndingLease & Pick<AckItem, 'outcome'>, O extends { readonly kind: string }>(
    script: ScriptName,
    items: readonly I[],
    finishOf: (item: I, partition: Partition) => Finish,
    read: (reply: unknown, items: readonly I[], place: string | null) => readonly O[],
  ) =>
    callItems<I, O>(shards, items, {
      script,
      args: (batch, _place, partition) => finishArgs(batch, (item) => finishOf(item, partition)),
      read,
      batches: (visits) => endBatches(visits, redisLimits.batchMax),
      isElsewhere: ({ kind }) => kind === 'lease_lost',
      routeOf: (item) => shards.routeOfLease(item),
    });
  const finish = async <I extends EndingLease & Pick<AckItem, 'outcome'>, D extends string>(
    script: ScriptName,
    items: readonly I[],
    finishOf: (item: I) => Finish,
    done: D,
  ): Promise<readonly FinishOutcome<D>[]> => {
    /** as they were last sent */
    const sent = new Map<I, PushJob>();
    const finishAt = (item: I, partition: Partition): Finish => {
      if (item.outcome === undefined) return finishOf(item);
      const outcome = outcomeAt(shards, partition, item.outcome);
      sent.set(item, outcome);
      return { ...finishOf(item), outcome };
    };
    // A release names no change.
    const read = (reply: unknown, its: readonly I[], place: string | null) =>
      readFinishes(
        reply,
        done,
        script === 'release' ? null : place,
        its.map((item) => sent.get(item)),
      );
    const outcomes = await call(script, items, finishAt, read);
    for (const [i, item] of items.entries()) {
      const kind = outcomes[i]?.kind;
      if (kind === done || kind === 'lease_lost') shards.finished(item);
    }
    return outcomes;
  };
  return {
    ack: (items) => finish('ack', items, ({ attempt }) => ({ attempt: lastAttempt(attempt) }), 'acked'),
    retry(items) {
      const finishOf = ({ delayMs, attempt, extension }: RetryItem) => ({
        number: wholeMs(delayMs),
        block: extension ?? noBlock,
        attempt: attempt === null ? '' : JSON.stringify(attempt),
      });
      return finish('retry', items, finishOf, 'retried');
    },
    bury(items) {
      const finishOf = ({ reason, attempt }: BuryItem) => ({
        number: deadReasonCodes.indexOf(reason),
        attempt: attempt === null ? '' : JSON.stringify(attempt),
      });
      return finish('bury', items, finishOf, 'buried');
    },
    release: (leases) => finish('release', leases, () => ({}), 'released'),
    extend: (items) => call('extend', items, ({ leaseMs }) => ({ number: wholeMs(leaseMs) }), readExtensions),
  };
}

const noBlock = Buffer.alloc(0);

/** With an id whose home is that partition, by the current list. */
function outcomeAt(shards: Shards, partition: Partition, { job, short }: Outcome): PushJob {
  const id = shards.idAt(partition, job);
  return { ...job, id, body: shards.isNearlyFull(partition) ? short : job.body };
}

/** In the format of ack.lua. */
function lastAttempt(attempt: AttemptRecord | null): string {
  if (attempt === null) return '';
  return attempt.attempt > 1 ? JSON.stringify(attempt) : packFirstAttempt(attempt);
}

function recoveryCalls(shards: Shards): Pick<JobStore, 'recover' | 'recoverOwners' | 'releaseUnheld'> {
  return {
    async recover(partition, max) {
      const args = [Math.min(max, limits.recoverMax), storeLimits.recoverAwayMs, shards.recoverHoldMs];
      return readRecovered(shards, partition, await shards.run('recover', partition, args));
    },
    async recoverOwners(partition, instance, which, max) {
      const named = 'dead' in which ? ['dead', which.dead] : ['living', ...which.living];
      const args = [Math.min(max, limits.recoverMax), instance, ...named];
      return readRecovered(shards, partition, await shards.run('recoverOwners', partition, args));
    },
    async releaseUnheld(partition, owner, held, upTo) {
      const args = [owner.instance, owner.incarnation, upTo, ...held];
      const answer = (await shards.run('releaseUnheld', partition, args)) as readonly (number | string)[];
      const [released = 0, left = 0, last = 0] = answer.map(Number);
      return { released, left, last };
    },
  };
}

function readRecovered(shards: Shards, partition: Partition, reply: unknown): Recovered {
  const [returned, more, strikes, pulls = []] = reply as [number, number, unknown[], unknown[]?];
  const poisoned = inBatches(strikes, 4).map((row) => leaseIn(row as unknown as LeaseReply));
  const pulled = inBatches(pulls, 8).map((row) => readExpired(row as unknown as ExpiredReply));
  // The caller ends each.
  shards.leased(partition, [...poisoned, ...pulled.map(({ lease }) => lease)]);
  return { returned, poisoned, more: more === 1, ...(pulled.length > 0 ? { pulled } : {}) };
}

type LeaseReply = readonly [topic: Buffer, tid: Buffer, version: number, token: number];
type ExpiredReply = readonly [
  ...LeaseReply,
  failures: number,
  until: number,
  dueAt: number,
  extension: Buffer,
];

function leaseIn([topic, tid, version, token]: LeaseReply): Lease {
  return { topic: String(topic), id: idOf(tid), version, token };
}

function readExpired([
  topic,
  tid,
  version,
  token,
  failures,
  until,
  dueAt,
  extension,
]: ExpiredReply): ExpiredPull {
  const lease = leaseIn([topic, tid, version, token]);
  // Tokens are the clock in µs, or ahead of it: then the length is too short.
  const leaseMs = Math.max(0, until - Math.floor(token / 1_000));
  return { lease, failures, leaseMs, until, dueAt, options: optionsIn(extension) };
}
