// Implements the ports of store and registry over one connection to dq-store, for all other processes. Owns
// which calls may be repeated after a lost answer; a repeat of the others could store, reserve or count
// twice, so their loss is `unknown`. Invariant: item calls return one outcome per item in every case.

import type { EndedJob, VersionedKey } from '../../../core/job.ts';
import { limits } from '../../../core/limits.ts';
import type { KnownTopic } from '../../../core/topic/topic.ts';
import type {
  AlertOutbox,
  DeadFilter,
  DeadLetters,
  FinishOutcome,
  Hint,
  History,
  JobStore,
  Page,
  Recovered,
  RequeueOutcome,
  RescheduleItem,
  RescheduleOutcome,
  RunOutcome,
  StateCounts,
  Store,
  StoreAdmin,
  StoreHealth,
  Surveys,
} from '../../../ports/job-store.ts';
import {
  forwardedVerbs,
  type Registry,
  registryVerbs,
  type TopicRecord,
  type VerbRule,
} from '../../../ports/registry.ts';
import type { StoreFailure } from '../../../ports/store-error.ts';
import { StoreError } from '../../../ports/store-error.ts';
import { clearTimeout, monotonicNow, setTimeout, sleep, type Timer } from '../../../runtime/time.ts';
import { inBatches, pushBatches, type StepFilter, stepOf, withoutBadItems } from '../../batches.ts';
import type { CountsPage } from '../engine/job-counts.ts';
import { partitionName } from '../file/schema.ts';
import { sqliteLimits } from '../limits.ts';
import type { SurveyCall } from '../owner/survey-service.ts';
import { type CapacityDelta, oneTimeDelta, SentCapacities } from '../wire/capacity-delta.ts';
import {
  readCancelOutcome,
  readExtended,
  readFinish,
  readPushOutcome,
  readReserved,
  readSnapshot,
  writeAck,
  writeBury,
  writeEndingLease,
  writeExtend,
  writeKey,
  writePush,
  writeReschedule,
  writeReserveRequest,
  writeRetry,
  writeVersionedKey,
} from '../wire/messages.ts';
import { kinds, type Reader, Writer } from '../wire/protocol.ts';
import { Link, type LinkOptions } from './link.ts';

export interface ConnectionOptions extends LinkOptions {
  /** Decodes a topic record (Registry.read). Omit it in a process that reads no topic. */
  readonly readTopic?: (record: TopicRecord) => KnownTopic;
}

export interface StoreConnection {
  readonly store: Store;
  readonly registry: Registry;
  readonly connected: boolean;
  /** Resolves when connected. Rejects with StoreError, and closes, after sqliteLimits.storeCallMs without a
   *  connection, or if the owner has another protocol (code `protocol`). */
  start(): Promise<void>;
  /** From now on calls wait at most sqliteLimits.storeCloseMs for an unavailable store. */
  hurry(): void;
  /** Waits up to sqliteLimits.storeCloseMs for outstanding answers. */
  close(): Promise<void>;
}

/** Does nothing before start(). */
export function connectStore(options: ConnectionOptions): StoreConnection {
  const hintListeners = new Set<(hint: Hint) => void>();
  const changeListeners = new Set<() => void>();
  /** receives the first answer to start() */
  let onGreeting: ((refusal: string | null) => void) | null = null;
  const notifyHint = (hint: Hint) => {
    for (const listener of hintListeners) listener(hint);
  };
  const notifyChange = () => {
    for (const listener of changeListeners) listener();
  };
  const subscribe = () => link.send(kinds.subscribe, (w) => w.u8(hintListeners.size > 0 ? 1 : 0));
  const link = new Link(options, {
    onMessage(kind, payload) {
      if (kind === kinds.hintReady) notifyHint({ kind: 'ready', partition: 0 });
      else if (kind === kinds.hintDue) notifyHint({ kind: 'due', partition: 0, waitMs: payload.f64() });
      else if (kind === kinds.registryChanged) notifyChange();
    },
    onRefused: (code) => onGreeting?.(code),
    onConnected() {
      onGreeting?.(null);
      if (hintListeners.size > 0) subscribe();
      // Hints sent before are lost: every listener checks once.
      notifyHint({ kind: 'due', partition: 0, waitMs: 0 });
      notifyHint({ kind: 'ready', partition: 0 });
      notifyChange();
    },
  });
  const onHint = (listener: (hint: Hint) => void) => {
    hintListeners.add(listener);
    if (hintListeners.size === 1) subscribe();
    return () => {
      hintListeners.delete(listener);
      if (hintListeners.size === 0) subscribe();
    };
  };
  const close = () => link.close(sqliteLimits.storeCloseMs);
  return {
    store: {
      jobs: { ...jobCalls(link), onHint },
      dead: deadCalls(link),
      alerts: alertCalls(link),
      history: historyCalls(link),
      admin: adminCalls(link),
      surveys: surveyCalls(link),
      close,
    },
    registry: {
      ...forwardedVerbs(async (method, args) => {
        const { again, isVoid = false }: VerbRule = registryVerbs[method];
        const r = await link.call(kinds.registry, (w) => w.json({ method, args }), again);
        return isVoid ? undefined : r.json();
      }),
      read: options.readTopic ?? unreadable,
      onChange(listener) {
        changeListeners.add(listener);
        return () => changeListeners.delete(listener);
      },
      close: async () => {},
      pollMs: sqliteLimits.registryPollMs,
    },
    get connected() {
      return link.connected;
    },
    async start() {
      if (link.connected) return;
      let timer: Timer | undefined;
      const greeted = new Promise<string | null>((resolve) => {
        onGreeting = resolve;
        timer = setTimeout(() => resolve('store_away'), options.callMs ?? sqliteLimits.storeCallMs);
      });
      link.open();
      const refusal = await greeted;
      clearTimeout(timer);
      onGreeting = null;
      if (refusal === null) return;
      await close();
      throw new StoreError({ kind: 'not_stored', code: refusal });
    },
    hurry: () => link.hurry(),
    close,
  };
}

function unreadable(): never {
  throw new Error('this process cannot read topics');
}

function jobCalls(link: Link): Omit<JobStore, 'onHint'> {
  const finish = async <I, D extends string>(
    kind: number,
    items: readonly I[],
    write: (w: Writer, item: I) => void,
    done: D,
  ): Promise<readonly FinishOutcome<D>[]> =>
    itemCall(link, kind, inBatches(items, limits.finishBatchMax), write, (r) => readFinish(r, done), true);
  // A repeat would see the moves of the first call: `absent` for jobs that it cancelled.
  const verb = <I extends VersionedKey, O>(
    kind: number,
    items: readonly I[],
    write: (w: Writer, item: I) => void,
    read: (r: Reader) => O = (r) => r.json() as O,
  ) => itemCall(link, kind, inBatches(items, limits.pushBatchMax), write, read, false);
  const capacities = new SentCapacities();
  return {
    partitions: () => [0],
    push: (jobs) => itemCall(link, kinds.push, pushBatches(jobs), writePush, readPushOutcome, false),
    cancel: (keys, as) =>
      verb(as === 'done' ? kinds.finishById : kinds.cancel, keys, writeVersionedKey, readCancelOutcome),
    run: (keys) => verb<VersionedKey, RunOutcome>(kinds.run, keys, writeVersionedKey),
    reschedule: (items) => verb<RescheduleItem, RescheduleOutcome>(kinds.reschedule, items, writeReschedule),
    requeue: (keys) => verb<VersionedKey, RequeueOutcome>(kinds.requeue, keys, writeVersionedKey),
    async get(key) {
      const r = await link.call(kinds.get, (w) => writeKey(w, key), true);
      return r.u8() === 0 ? null : readSnapshot(r);
    },
    search: (filter, limit, cursor) => cold(link, kinds.search, [filter, limit, cursor], true),
    async promote(_partition, max) {
      const r = await link.call(kinds.promote, (w) => w.u32(max), true);
      const [moved, waitMs] = [r.u32(), r.f64()];
      return { moved, waitMs: waitMs < 0 ? null : waitMs };
    },
    async reserve(_partition, request) {
      const reserve = async (delta: CapacityDelta) =>
        readReserved(await link.call(kinds.reserve, (w) => writeReserveRequest(w, request, delta), false));
      const { others, topics } = request;
      const isFew = others.room <= 0 && topics.size <= limits.keptTopicsMax;
      const reserved = await reserve(isFew ? oneTimeDelta(topics) : capacities.deltaTo(topics));
      if (reserved !== null) return reserved;
      // A new connection, or a lost call: nothing was reserved. Send the whole table.
      capacities.forget();
      const again = await reserve(capacities.deltaTo(topics));
      if (again === null) throw new StoreError({ kind: 'not_stored', code: 'rooms_unknown' });
      return again;
    },
    ack: (items) => finish(kinds.ack, items, writeAck, 'acked'),
    retry: (items) => finish(kinds.retry, items, writeRetry, 'retried'),
    bury: (items) => finish(kinds.bury, items, writeBury, 'buried'),
    release: (leases) => finish(kinds.release, leases, writeEndingLease, 'released'),
    extend: (items) =>
      itemCall(link, kinds.extend, inBatches(items, limits.finishBatchMax), writeExtend, readExtended, true),
    recover: (_partition, max) => cold<Recovered>(link, kinds.recover, [max], true),
    recoverOwners: (_partition, instance, which, max) =>
      cold(link, kinds.recoverOwners, [instance, which, max], true),
    releaseUnheld: (_partition, owner, held, upTo) =>
      cold(link, kinds.releaseUnheld, [owner, held, upTo], true),
  };
}

interface Stepped {
  readonly done: number;
  readonly more: boolean;
}

/** Runs bulk work in steps. Each step is one call followed by a longer pause, in which the owner serves other
 *  callers. A step that was surely not done ends the work with the count so far; after a lost answer the
 *  count is unknown. */
async function inSteps(max: number, step: (max: number) => Promise<Stepped>): Promise<Stepped> {
  const end = monotonicNow() + sqliteLimits.bulkCallMs;
  let total = 0;
  for (;;) {
    const began = monotonicNow();
    try {
      const { done, more } = await step(Math.min(max - total, sqliteLimits.bulkStepMax));
      total += done;
      if (!more || total >= max || monotonicNow() >= end) return { done: total, more };
    } catch (error) {
      if (total > 0 && error instanceof StoreError && error.failure.kind === 'not_stored')
        return { done: total, more: true };
      throw error;
    }
    const pauseMs = sqliteLimits.bulkPausePerStep * (monotonicNow() - began);
    await sleep(Math.min(pauseMs, sqliteLimits.bulkPauseMsMax));
  }
}

interface FilterStep extends Stepped {
  readonly below: number;
}

/** Runs filtered bulk work in steps. Ids are sent step by step, unless fewer than all of them are wanted:
 *  which are oldest is only known over all ids. A job that dies again between two steps is not moved
 *  again. */
async function inFilteredSteps(
  filter: DeadFilter,
  max: number,
  step: (filter: StepFilter, max: number) => Promise<FilterStep>,
): Promise<Stepped> {
  const bound = Math.min(max, limits.bulkMax);
  const { ids, ...its } = stepOf(filter, partitionName);
  let { below } = its;
  const next = async (some: readonly string[] | undefined, most: number) => {
    const answer = await step({ ...its, ...(some === undefined ? {} : { ids: some }), below }, most);
    below = answer.below;
    return answer;
  };
  if (ids === undefined || ids.length > bound || ids.length <= sqliteLimits.bulkStepMax)
    return inSteps(bound, (most) => next(ids, most));
  const batches = [...inBatches(ids, sqliteLimits.bulkStepMax)];
  return inSteps(bound, async (most) => {
    const { done, more } = await next(batches[0] ?? [], most);
    if (!more) batches.shift();
    return { done, more: batches.length > 0 };
  });
}

function deadCalls(link: Link): DeadLetters {
  return {
    list: (filter, limit, cursor) => cold(link, kinds.deadList, [filter, limit, cursor], true),
    async requeue(filter, max) {
      const { done, more } = await inFilteredSteps(filter, max, async (...args) => {
        type Answer = Omit<FilterStep, 'done'> & { readonly requeued: number };
        const { requeued, ...rest } = await cold<Answer>(link, kinds.deadRequeue, args, false);
        return { done: requeued, ...rest };
      });
      return { requeued: done, more };
    },
    async purge(filter, max) {
      const { done, more } = await inFilteredSteps(filter, max, async (...args) => {
        type Answer = Omit<FilterStep, 'done'> & { readonly purged: number };
        const { purged, ...rest } = await cold<Answer>(link, kinds.deadPurge, args, true);
        return { done: purged, ...rest };
      });
      return { purged: done, more };
    },
    expire: (olderThanMs, max) => cold(link, kinds.deadExpire, [olderThanMs, max], true),
  };
}

function alertCalls(link: Link): AlertOutbox {
  return {
    due: (windowMs) => cold(link, kinds.alertDue, [windowMs], true),
    // Alerts claimed by a lost answer are owed again after claimMs.
    claim: (topic, claimMs, max) => cold(link, kinds.alertClaim, [topic, claimMs, max], true),
    settle: async (versions, as) => {
      await cold(link, kinds.alertSettle, [versions, as], true);
    },
    stateOf: ({ topic, id, version }) => cold(link, kinds.alertState, [{ topic, id, version }], true),
    list: (limit, cursor) => cold<Page<never>>(link, kinds.alertList, [limit, cursor], true),
  };
}

function historyCalls(link: Link): History {
  return {
    get: (key) => cold<EndedJob | null>(link, kinds.endedGet, [key], true),
    forget: (olderThanMs, max) => cold(link, kinds.endedForget, [olderThanMs, max], true),
  };
}

/** The owner's answer to `health`. `now`: the storage clock */
type OwnerHealth = StoreHealth & { readonly now: number };

function adminCalls(link: Link): StoreAdmin {
  return {
    async counts(held = []) {
      const topics: [string, StateCounts][] = [];
      let oldestOverdueMs: number | null = null;
      // Pages are of different moments: the counts of one topic are consistent, the sum is not.
      for (let after: number | null = -1; after !== null; ) {
        const page: CountsPage = await cold(link, kinds.counts, [held, after], true);
        for (const entry of Object.entries(page.topics)) topics.push(entry);
        const { oldestOverdueMs: oldest } = page;
        if (oldest !== null) oldestOverdueMs = Math.max(oldestOverdueMs ?? 0, oldest);
        after = page.next;
      }
      // Object.fromEntries, not assignment: a topic may be called `constructor`.
      return { topics: Object.fromEntries(topics), oldestOverdueMs };
    },
    async purgeTopic(topic, max) {
      const { done, more } = await inSteps(Math.min(max, limits.bulkMax), async (most) => {
        const step = await cold<{ purged: number; more: boolean }>(
          link,
          kinds.purgeTopic,
          [topic, most],
          true,
        );
        return { done: step.purged, more: step.more };
      });
      return { purged: done, more };
    },
    async health() {
      const { now: _, ...health } = await cold<OwnerHealth>(link, kinds.health, [], true);
      return health;
    },
    clock: async () => (await cold<OwnerHealth>(link, kinds.health, [], true)).now,
    moment: () => cold(link, kinds.moment, [], true),
    // A repeat would find the task of the first call and return `busy`.
    startBackup: (directory) => cold(link, kinds.startBackup, [directory], false),
    backup: () => cold(link, kinds.backup, [], true),
    startFsck: () => cold(link, kinds.startFsck, [], false),
    fsck: () => cold(link, kinds.fsck, [], true),
  };
}

function surveyCalls(link: Link): Surveys {
  const survey = async <T>(call: SurveyCall): Promise<T> =>
    (await link.call(kinds.survey, (w) => w.json(call), true)).json() as T;
  return {
    position: (key) => cold(link, kinds.position, [key], true),
    scan: (...args) => survey({ method: 'scan', args }),
    horizon: (...args) => survey({ method: 'horizon', args }),
    deadGroups: (...args) => survey({ method: 'deadGroups', args }),
  };
}

async function cold<T>(link: Link, kind: number, args: readonly unknown[], again: boolean): Promise<T> {
  return (await link.call(kind, (w) => w.json(args), again)).json() as T;
}

/** One frame per batch; a failed frame fails each of its items. */
async function itemCall<I, O>(
  link: Link,
  kind: number,
  batches: readonly (readonly I[])[],
  write: (w: Writer, item: I) => void,
  read: (r: Reader) => O,
  again: boolean,
): Promise<readonly (O | StoreFailure)[]> {
  const answers = await Promise.all(
    batches.map(async (batch): Promise<readonly (O | StoreFailure)[]> => {
      try {
        return await withoutBadItems(
          batch,
          (item) => write(new Writer(), item),
          async (items) => {
            const r = await link.call(kind, (w) => w.list(items, write), again);
            return r.list(read);
          },
        );
      } catch (error) {
        if (!(error instanceof StoreError)) throw error;
        return batch.map(() => error.failure);
      }
    }),
  );
  return answers.flat();
}
