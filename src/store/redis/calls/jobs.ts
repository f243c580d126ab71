// Jobs of the port, by scripts: the arguments of each call, and what its reply means. Keeps no state except
// the copies of the rings (reserve-call.ts).

import { optionsIn } from '../../../core/extension.ts';
import type { AttemptRecord, JobKey, JobSnapshot, VersionedKey } from '../../../core/job.ts';
import type { Changed } from '../../../core/job-change.ts';
import { limits } from '../../../core/limits.ts';
import { endCodes, reasonCodes } from '../../../core/stored-codes.ts';
import type {
  AckItem,
  BuryItem,
  CancelOutcome,
  EndingLease,
  ExpiredPull,
  ExtendItem,
  ExtendOutcome,
  FinishOutcome,
  JobStore,
  OnStored,
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
import { pushBatches } from '../../batches.ts';
import { packFirstAttempt } from '../../first-attempt.ts';
import { storeLimits } from '../../limits.ts';
import { redisLimits } from '../limits.ts';
import { idOf, tidOf } from '../scripts/keys.ts';
import { readWhole, type WholeReply } from '../scripts/records.ts';
import type { ScriptName } from '../scripts/scripts.ts';
import { timeOf, wholeMs } from '../scripts/times.ts';
import { type Arg, lookUp, type Shards } from '../shard/shards.ts';
import { callItems, ofEach } from './calls.ts';
import { changeIn, numberIn, readCodes } from './changes.ts';
import { type Finish, finishArgs, readExtensions, readFinishes } from './finish-call.ts';
import { pushArgs, readPushes, restoring } from './push-call.ts';
import { reserveCall } from './reserve-call.ts';
import { search } from './search.ts';

type Hints = Pick<JobStore, 'onHint'>;

export function jobCalls(
  shards: Shards,
  hints: Hints,
  capacitiesMax: number = redisLimits.capacitiesMax,
): JobStore {
  const reserve = reserveCall(shards, capacitiesMax);
  const key = ({ topic, id }: JobKey): readonly Arg[] => [topic, tidOf(id)];
  const versioned = (item: VersionedKey): readonly Arg[] => [...key(item), item.version ?? ''];
  const finish = async <I extends EndingLease, D extends string>(
    script: ScriptName,
    items: readonly I[],
    finishOf: (item: I) => Finish,
    done: D,
  ) => {
    const outcomes = await callItems<I, FinishOutcome<D>>(shards, items, {
      script,
      args: (batch) => finishArgs(batch, finishOf),
      read: (reply, _items, place) => readFinishes(reply, done, script === 'release' ? null : place),
      isElsewhere: ({ kind }) => kind === 'lease_lost',
      routeOf: (item) => shards.routeOfLease(item),
    });
    for (const [i, item] of items.entries()) {
      const kind = outcomes[i]?.kind;
      if (kind === done || kind === 'lease_lost') shards.finished(item);
    }
    return outcomes;
  };
  const isAbsent = ({ kind }: { readonly kind: string }) => kind === 'absent';
  const push = (jobs: readonly PushJob[], onEarly?: OnStored) =>
    callItems<PushJob, PushOutcome>(shards, jobs, {
      script: 'push',
      args: pushArgs,
      onEarly,
      read: readPushes,
      batches: pushBatches,
      // A generated id lives in no earlier place.
      routeOf: (job) => {
        const route = shards.routeOf(job);
        return job.anotherId === undefined ? route : { ...route, earlier: [] };
      },
    });
  return {
    partitions: () => shards.openPartitions,
    whyUnknown: () => shards.whyUnknown,
    ...hints,
    push: (jobs, onStored) => pushAnywhere(shards, jobs, push, onStored),
    get: (job) =>
      lookUp(shards, job, async (partition, list) => {
        const reply = await shards.run('get', partition, key(job), list);
        return (reply as unknown[]).length === 0 ? null : snapshotOf(reply);
      }),
    search: (filter, limit, cursor) => search(shards, filter, limit, cursor),
    cancel: (keys, as) =>
      callItems<VersionedKey, CancelOutcome>(shards, keys, {
        script: 'cancel',
        args: (batch) => [endCodes.indexOf(as ?? 'cancelled'), ...ofEach(versioned)(batch)],
        read: (reply, _items, place) =>
          readCodes(reply, place).map(({ code, ...change }) => {
            if (code === 1 || code === 2) return { kind: 'cancelled', inFlight: code === 2, ...change };
            if (code === 128) return otherVersion;
            if (code === 129) return restoring;
            // The id had no job here, or a lost one, which will not come back.
            return code === 3 ? { kind: 'absent', isRecorded: true, ...change } : { kind: 'absent' };
          }),
        isElsewhere: isAbsent,
        isFallback: (outcome) => outcome.kind === 'absent' && outcome.isRecorded === true,
      }),
    run: (keys) =>
      callItems<VersionedKey, RunOutcome>(shards, keys, {
        script: 'run',
        args: ofEach(versioned),
        read: (reply, _items, place) => verbs(reply, place, runOutcome),
        isElsewhere: isAbsent,
      }),
    reschedule: (items) =>
      callItems<RescheduleItem, RescheduleOutcome>(shards, items, {
        script: 'reschedule',
        args: ofEach((item) => {
          const { from, ms } = timeOf(item.when);
          return [...versioned(item), `${from}${ms}`];
        }),
        read: (reply, _items, place) => verbs(reply, place, rescheduleOutcome),
        isElsewhere: isAbsent,
      }),
    requeue: (keys) =>
      callItems<VersionedKey, RequeueOutcome>(shards, keys, {
        script: 'requeue',
        args: ofEach(versioned),
        read: (reply, _items, place) => verbs(reply, place, requeueOutcome),
        isElsewhere: isAbsent,
      }),

    async promote(partition, max) {
      const bound = Math.min(max, limits.promoteMax);
      const [moved, waitMs] = (await shards.run('promote', partition, [bound])) as [number, number];
      return { moved, waitMs: waitMs < 0 ? null : waitMs };
    },
    async reserve(partition, request) {
      const answer = await reserve(partition, request);
      shards.leased(partition, answer.jobs);
      return answer;
    },

    ack: (items) =>
      finish<AckItem, 'acked'>('ack', items, ({ attempt }) => ({ attempt: lastAttempt(attempt) }), 'acked'),
    retry: (items) =>
      finish<RetryItem, 'retried'>(
        'retry',
        items,
        ({ delayMs, attempt }) => ({ number: wholeMs(delayMs), attempt: JSON.stringify(attempt) }),
        'retried',
      ),
    bury: (items) =>
      finish<BuryItem, 'buried'>(
        'bury',
        items,
        ({ reason, attempt }) => ({
          number: reasonCodes.indexOf(reason),
          attempt: attempt === null ? '' : JSON.stringify(attempt),
        }),
        'buried',
      ),
    release: (leases) => finish('release', leases, () => ({}), 'released'),
    extend: (items) =>
      callItems<ExtendItem, ExtendOutcome>(shards, items, {
        script: 'extend',
        args: (batch) => finishArgs(batch, ({ leaseMs }) => ({ number: wholeMs(leaseMs) })),
        read: readExtensions,
        isElsewhere: ({ kind }) => kind === 'lease_lost',
        routeOf: (item) => shards.routeOfLease(item),
      }),

    async recover(partition, max) {
      const args = [Math.min(max, limits.recoverMax), storeLimits.recoverAwayMs, shards.recoverHoldMs];
      const recovered = readRecovered(shards, partition, await shards.run('recover', partition, args));
      if (recovered.pulled !== undefined)
        shards.leased(
          partition,
          recovered.pulled.map(({ lease }) => lease),
        );
      return recovered;
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

/** In the format of ack.lua. */
function lastAttempt(attempt: AttemptRecord | null): string {
  if (attempt === null) return '';
  return attempt.attempt > 1 ? JSON.stringify(attempt) : packFirstAttempt(attempt);
}

const snapshotOf = (reply: unknown): JobSnapshot => readWhole(reply as WholeReply);

/** Pushes. A job with a generated id whose home does not answer goes to another shard, under another id. */
async function pushAnywhere(
  shards: Shards,
  jobs: readonly PushJob[],
  push: (jobs: readonly PushJob[], onStored?: OnStored) => Promise<readonly PushOutcome[]>,
  onStored: OnStored | undefined,
): Promise<readonly PushOutcome[]> {
  const outcomes = [...(await push(jobs, onStored))];
  const moved = jobs.flatMap((job, at) => {
    const other = outcomes[at]?.kind === 'not_stored' ? shards.elsewhere(job) : null;
    return other === null ? [] : [{ other, at }];
  });
  if (moved.length === 0) return outcomes;
  const second = await push(moved.map(({ other }) => other));
  for (const [i, { other, at }] of moved.entries()) {
    const outcome = second[i] as PushOutcome;
    const mayBeStored = outcome.kind === 'stored' || outcome.kind === 'unknown';
    outcomes[at] = mayBeStored ? { ...outcome, id: other.id } : outcome;
  }
  return outcomes;
}

type VerbReply = readonly [kind: number, version: number, dueAt: number, state: number, change: Buffer];
const otherVersion = { kind: 'other_version' } as const;
type ReadVerb<O> = (reply: VerbReply, change: { readonly change?: Changed }) => O;
const verbs = <O>(reply: unknown, place: string | null, read: ReadVerb<O>): readonly O[] =>
  (reply as VerbReply[]).map((each) => read(each, changeIn(each[4], place)));

const runOutcome: ReadVerb<RunOutcome> = ([kind, version, dueAt, state], change) => {
  if (kind === 0) return { kind: 'absent' };
  if (kind === 4) return restoring;
  if (kind === 5) return otherVersion;
  if (kind === 3) return { kind: 'dead' };
  if (kind === 1) return { kind: 'run', version, dueAt, ...change };
  return { kind: 'unchanged', state: state === 1 ? 'ready' : 'reserved', version, dueAt };
};

const rescheduleOutcome: ReadVerb<RescheduleOutcome> = ([kind, version, dueAt, state], change) => {
  if (kind === 0) return { kind: 'absent' };
  if (kind === 4) return restoring;
  if (kind === 5) return otherVersion;
  if (kind === 3) return { kind: 'dead' };
  if (kind === 2) return { kind: 'in_flight' };
  return { kind: 'rescheduled', state: state === 0 ? 'delayed' : 'ready', version, dueAt, ...change };
};

const liveStates = ['delayed', 'ready', 'reserved'] as const;

const requeueOutcome: ReadVerb<RequeueOutcome> = ([kind, version, dueAt, state], change) => {
  if (kind === 0) return { kind: 'absent' };
  if (kind === 4) return restoring;
  if (kind === 5) return otherVersion;
  if (kind === 2) return { kind: 'not_dead', state: liveStates[state] ?? 'reserved' };
  return { kind: 'requeued', version, dueAt, ...change };
};

function readRecovered(shards: Shards, partition: Partition, reply: unknown): Recovered {
  const place = shards.placeOf(partition);
  const [returned, more, poisoned, pulls = []] = reply as [number, number, Buffer[], unknown[]?];
  const keys = Array.from({ length: poisoned.length / 3 }, (_, i) => ({
    topic: String(poisoned[3 * i]),
    id: idOf(poisoned[3 * i + 1] as Buffer),
    ...changeIn(poisoned[3 * i + 2] as Buffer, place),
  }));
  shards.received(partition, Math.max(0, ...keys.map(numberIn)));
  const pulled = Array.from({ length: pulls.length / 8 }, (_, i) =>
    readExpired(pulls.slice(8 * i, 8 * i + 8) as unknown as Parameters<typeof readExpired>[0]),
  );
  return { returned, poisoned: keys, more: more === 1, ...(pulled.length > 0 ? { pulled } : {}) };
}

function readExpired([topic, tid, version, token, failures, until, dueAt, extension]: readonly [
  ...(readonly [Buffer, Buffer]),
  ...(readonly [number, number, number, number, number]),
  Buffer,
]): ExpiredPull {
  // Tokens are the clock in µs.
  const leaseMs = Math.max(0, until - Math.floor(token / 1_000));
  const lease = { topic: String(topic), id: idOf(tid), version, token };
  return { lease, failures, leaseMs, until, dueAt, options: optionsIn(extension) };
}
