// Implements the ports of store and registry over one connection to dq-store, for all other processes. Owns
// which calls may be repeated after a lost answer; a repeat of the others could store, reserve or count
// twice, so their loss is `unknown`. Invariant: item calls return one outcome per item in every case.

import type { LateJob } from '../../../core/incident.ts';
import type { JobKey, Version } from '../../../core/job.ts';
import { limits } from '../../../core/limits.ts';
import { inBatches } from '../../../core/lists.ts';
import type { KnownTopic } from '../../../core/topic/topic.ts';
import type {
  Counts,
  DeadFilter,
  DeadLetters,
  Hint,
  JobStore,
  ReserveRequest,
  StateCounts,
  Store,
  StoreAdmin,
  StoreHealth,
  Surveys,
} from '../../../ports/job-store.ts';
import type { LeavingJobs } from '../../../ports/leaving.ts';
import {
  forwardedVerbs,
  type Registry,
  type RegistryVerbs,
  registryVerbs,
  type TopicRecord,
  type VerbRule,
} from '../../../ports/registry.ts';
import { StoreError, type StoreFailure } from '../../../ports/store-error.ts';
import {
  isJson,
  type JsonVerb,
  type MethodsOf,
  ruleOf,
  storeVerbNames,
  storeVerbs,
  type VerbsWith,
} from '../../../ports/store-verbs.ts';
import { monotonicNow, sleep } from '../../../runtime/time.ts';
import { orAfter } from '../../../runtime/timeout.ts';
import { type StepFilter, stepOf, withoutBadItems } from '../../batches.ts';
import { oldestByTopic } from '../../pages.ts';
import { type CountsPage, type CountsPlace, firstCounts } from '../engine/job-counts.ts';
import { partitionName } from '../file/schema.ts';
import { sqliteLimits } from '../limits.ts';
import type { SurveyCall } from '../owner/survey-service.ts';
import { type CapacityDelta, oneTimeDelta, SentCapacities } from '../wire/capacity-delta.ts';
import {
  type ItemFrames,
  itemFrames,
  keyCodec,
  reservedCodec,
  reserveRequestCodec,
  snapshotCodec,
} from '../wire/messages.ts';
import {
  kinds,
  leavingChanges,
  leavingReads,
  type Reader,
  readJsonWithBytes,
  Writer,
} from '../wire/protocol.ts';
import { Link, type LinkOptions } from './link.ts';

export interface ConnectionOptions extends LinkOptions {
  /** Decodes a topic record (Registry.read). Omit it in a process that reads no topic. */
  readonly readTopic?: (record: TopicRecord) => KnownTopic;
}

export interface StoreConnection {
  readonly store: Store;
  /** of a jobs.db that is left for Redis */
  readonly leaving: LeavingJobs;
  readonly registry: Registry;
  readonly connected: boolean;
  /** Resolves when connected. Rejects with StoreError, and closes, after sqliteLimits.storeCallMs without a
   *  connection, or if the owner has another protocol (code `protocol`). */
  start(): Promise<void>;
  /** From now on calls wait at most sqliteLimits.storeCloseMs for an unavailable store. */
  shortenWaits(): void;
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
      alerts: jsonCalls(link, 'alerts'),
      history: jsonCalls(link, 'history'),
      admin: adminCalls(link),
      surveys: surveyCalls(link),
      close,
    },
    leaving: leavingCallsOf(link),
    registry: {
      ...registryCalls(link),
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
      const greeted = new Promise<string | null>((resolve) => {
        onGreeting = resolve;
      });
      link.open();
      const refusal = await orAfter(options.callMs ?? sqliteLimits.storeCallMs, greeted, 'store_away');
      onGreeting = null;
      if (refusal === null) return;
      await close();
      throw new StoreError({ kind: 'not_stored', code: refusal });
    },
    shortenWaits: () => link.shortenWaits(),
    close,
  };
}

/** A repeat of each is harmless. */
function leavingCallsOf(link: Link): LeavingJobs {
  const call =
    (kind: number, method: keyof LeavingJobs) =>
    async (...args: readonly unknown[]) => {
      return readJsonWithBytes(await link.call(kind, (w) => w.json({ method, args }), true));
    };
  return Object.fromEntries([
    ...leavingReads.map((method) => [method, call(kinds.leavingRead, method)]),
    ...leavingChanges.map((method) => [method, call(kinds.leaving, method)]),
  ]) as unknown as LeavingJobs;
}

function registryCalls(link: Link): RegistryVerbs {
  return forwardedVerbs(async (method, args) => {
    const { again, isVoid = false }: VerbRule = registryVerbs[method];
    const r = await link.call(kinds.registry, (w) => w.json({ method, args }), again);
    return isVoid ? undefined : r.json();
  });
}

function unreadable(): never {
  throw new Error('this process cannot read topics');
}

type ItemMethod = keyof typeof itemFrames;

function jobCalls(link: Link): Omit<JobStore, 'onHint'> {
  const frames = Object.entries(itemFrames) as unknown as [ItemMethod, ItemFrames<unknown, unknown>][];
  const ofItems = Object.fromEntries(
    frames.map(([method, its]) => [method, itemCalls(link, `jobs.${method}`, its)]),
  ) as unknown as Pick<JobStore, ItemMethod>;
  const finishById = itemCalls(link, 'jobs.cancel', itemFrames.cancel, kinds.finishById);
  const capacities = new SentCapacities();
  const reserve = async (request: ReserveRequest, delta: CapacityDelta) =>
    reservedCodec.read(
      await callOf(link, 'jobs.reserve', (w) => reserveRequestCodec.write(w, request, delta)),
    );
  return {
    ...jsonCalls(link, 'jobs'),
    ...ofItems,
    cancel: (keys, as) => (as === 'done' ? finishById(keys) : ofItems.cancel(keys)),
    partitions: () => [0],
    async get(key, how) {
      const r = await callOf(link, 'jobs.get', (w) => {
        keyCodec.write(w, key);
        w.u8(how === 'bodiless' ? 1 : 0);
      });
      return r.u8() === 0 ? null : snapshotCodec.read(r);
    },
    async promote(_partition, max) {
      const r = await callOf(link, 'jobs.promote', (w) => w.u32(max));
      const [moved, waitMs] = [r.u32(), r.f64()];
      return { moved, waitMs: waitMs < 0 ? null : waitMs };
    },
    async reserve(_partition, request) {
      const { others, topics } = request;
      const isFew = others.room <= 0 && topics.size <= limits.keptTopicsMax;
      const reserved = await reserve(request, isFew ? oneTimeDelta(topics) : capacities.deltaTo(topics));
      if (reserved !== null) return reserved;
      // A new connection, or a lost call: nothing was reserved. Send the whole table.
      capacities.forget();
      const again = await reserve(request, capacities.deltaTo(topics));
      if (again === null) throw new StoreError({ kind: 'not_stored', code: 'rooms_unknown' });
      return again;
    },
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
  const calls = jsonCalls(link, 'dead');
  /** `name`: the port's name of the number of moved jobs, which the answer of a step has, too. */
  const inBulk =
    <N extends string>(name: N, call: (filter: StepFilter, max: number) => Promise<object>) =>
    async (filter: DeadFilter, max: number) => {
      const { done, more } = await inFilteredSteps(filter, max, async (...args) => {
        const step = (await call(...args)) as FilterStep & Readonly<Record<N, number>>;
        return { ...step, done: step[name] };
      });
      return { [name]: done, more } as Record<N, number> & Pick<Stepped, 'more'>;
    };
  return {
    ...calls,
    requeue: inBulk('requeued', calls.requeue),
    purge: inBulk('purged', calls.purge),
  };
}

/** Pages are of different moments: the counts of one topic are consistent, the sum is not. */
async function countsIn(parts: readonly ((place: CountsPlace) => Promise<CountsPage>)[]): Promise<Counts> {
  const topics: [string, StateCounts][] = [];
  const oldest: LateJob[] = [];
  let oldestOverdueMs: number | null = null;
  for (const pageFrom of parts)
    for (let from: CountsPlace | null = firstCounts; from !== null; ) {
      const page: CountsPage = await pageFrom(from);
      for (const entry of Object.entries(page.topics)) topics.push(entry);
      oldest.push(...page.oldest);
      if ((page.oldestOverdueMs ?? -1) > (oldestOverdueMs ?? -1)) oldestOverdueMs = page.oldestOverdueMs;
      from = page.next;
    }
  // Object.fromEntries, not assignment: a topic may be called `constructor`.
  return { topics: Object.fromEntries(topics), oldestOverdueMs, oldest: oldestByTopic(oldest) };
}

/** The owner's answer to `health`. `now`: the storage clock */
type OwnerHealth = StoreHealth & { readonly now: number };

function adminCalls(link: Link): StoreAdmin {
  const calls = jsonCalls(link, 'admin');
  const pageOf = jsonCall<CountsPage>(link, 'admin.counts');
  const pageOfTopics = jsonCall<CountsPage>(link, 'admin.countsOf');
  const health = jsonCall<OwnerHealth>(link, 'admin.health');
  return {
    ...calls,
    counts: (held = [], pulled = []) => countsIn([(place) => pageOf(held, pulled, place)]),
    countsOf: (topics) =>
      countsIn(
        inBatches(topics, sqliteLimits.countsPageTopics).map(
          (batch) => (place: CountsPlace) => pageOfTopics(batch, place),
        ),
      ),
    async purgeTopic(topic, max) {
      const { done, more } = await inSteps(Math.min(max, limits.bulkMax), async (most) => {
        const step = await calls.purgeTopic(topic, most);
        return { done: step.purged, more: step.more };
      });
      return { purged: done, more };
    },
    async health() {
      const { now: _, ...rest } = await health();
      return rest;
    },
    clock: async () => (await health()).now,
  };
}

function surveyCalls(link: Link): Surveys {
  const survey = async <T>(call: SurveyCall): Promise<T> => {
    const { again } = storeVerbs[`surveys.${call.method}`];
    return (await link.call(kinds.survey, (w) => w.json(call), again)).json() as T;
  };
  return {
    ...jsonCalls(link, 'surveys'),
    scan: (...args) => survey({ method: 'scan', args }),
    horizon: (...args) => survey({ method: 'horizon', args }),
    deadGroups: (...args) => survey({ method: 'deadGroups', args }),
  };
}

/** Sends one frame of a verb. */
const callOf = (
  link: Link,
  verb: JsonVerb | VerbsWith<{ kind: 'hot' }>,
  write: (w: Writer) => void,
): Promise<Reader> => link.call(storeVerbs[verb].frame, write, storeVerbs[verb].again);

/** A verb whose arguments and result travel as JSON. The embedded store has one partition, which is not
 *  sent. */
function jsonCall<T>(link: Link, verb: JsonVerb): (...args: readonly unknown[]) => Promise<T> {
  const { ofPartition, ofJob, isVoid } = ruleOf(verb);
  return async (...args) => {
    const sent = ofPartition === true ? args.slice(1) : ofJob === true ? args.map(nameOf) : args;
    const r = await callOf(link, verb, (w) => w.json(sent));
    return (isVoid === true ? undefined : r.json()) as T;
  };
}

function nameOf(job: unknown): object {
  const { topic, id, version } = job as JobKey & { readonly version?: Version };
  return { topic, id, version };
}

/** All such verbs of a duty. */
function jsonCalls<D extends keyof Store>(link: Link, duty: D): Pick<Store[D], MethodsOf<D, JsonVerb>> {
  const verbs = storeVerbNames.filter(isJson).filter((verb) => verb.startsWith(`${duty}.`));
  const calls = verbs.map((verb) => [verb.slice(duty.length + 1), jsonCall(link, verb)]);
  return Object.fromEntries(calls);
}

/** A verb with items: one frame per batch; a failed frame fails each of its items. */
function itemCalls<I, O>(
  link: Link,
  verb: `jobs.${ItemMethod}`,
  { item, outcome, batches }: ItemFrames<I, O, unknown>,
  kind: number = storeVerbs[verb].frame,
): (items: readonly I[]) => Promise<readonly (O | StoreFailure)[]> {
  const { again } = storeVerbs[verb];
  const encodeAlone = (one: I) => item.write(new Writer(), one);
  const send = async (batch: readonly I[]) =>
    (await link.call(kind, (w) => w.list(batch, item.write), again)).list(outcome.read);
  const answer = async (batch: readonly I[]): Promise<readonly (O | StoreFailure)[]> => {
    try {
      return await withoutBadItems(batch, encodeAlone, send);
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
      return batch.map(() => error.failure);
    }
  };
  return async (items) => (await Promise.all(batches(items).map(answer))).flat();
}
