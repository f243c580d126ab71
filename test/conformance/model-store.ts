// Adds the port to the model: turns its plain methods into promises and lists, and sends its hints. Copies
// every answer, as a socket would.

import type * as port from '../../src/ports/job-store.ts';
import { Model } from './model.ts';
import type { StoreUnderTest } from './store-under-test.ts';

export async function openModelStore(model: Model = new Model()): Promise<StoreUnderTest> {
  const listeners = new Set<(hint: port.Hint) => void>();
  model.onHint = (hint) => {
    for (const listener of listeners) listener(hint);
  };
  const each = async <I, O>(items: readonly I[], one: (item: I) => O): Promise<readonly O[]> =>
    items.map((item) => model.hinting(() => one(item)));
  const step = async <T>(run: () => T): Promise<T> => model.hinting(run);

  const jobs: port.JobStore = {
    partitions: () => [0],
    push: (items) => each(items, (job) => model.push(job)),
    get: (key, how) =>
      step(() => {
        const job = copyOf(model.get(key));
        return job === null || how === undefined ? job : { ...job, body: Buffer.alloc(0) };
      }),
    search: (filter, limit, cursor) => step(() => copyOf(model.search(filter, limit, cursor))),
    cancel: (keys, as) => each(keys, (key) => model.cancel(key, as)),
    run: (keys) => each(keys, (key) => model.run(key)),
    reschedule: (items) => each(items, (item) => model.reschedule(item)),
    requeue: (keys) => each(keys, (key) => model.requeue(key)),
    edit: (items) => each(items, (item) => model.edit(item)),
    promote: (_partition, max) => step(() => model.promote(max)),
    reserve: (_partition, request) => step(() => copyOf(model.reserve(request))),
    ack: (items) => each(items, (item) => model.ack(item)),
    retry: (items) => each(items, (item) => model.retry(item)),
    bury: (items) => each(items, (item) => model.bury(item)),
    release: (leases) => each(leases, (lease) => model.release(lease)),
    extend: (items) => each(items, (item) => model.extend(item)),
    recover: (_partition, max) => step(() => model.recover(max)),
    recoverOwners: (_partition, instance, which, max) =>
      step(() => model.recoverOwners(instance, which, max)),
    releaseUnheld: (_partition, owner, held, upTo) => step(() => model.releaseUnheld(owner, held, upTo)),
    onHint(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
  const store: port.Store = {
    jobs,
    dead: {
      list: (filter, limit, cursor) => step(() => copyOf(model.listDead(filter, limit, cursor))),
      requeue: (filter, max) => step(() => model.requeueDead(filter, max)),
      purge: (filter, max) => step(() => model.purge(model.matching(filter), max)),
      expire: (olderThanMs, max) => step(() => model.expire(olderThanMs, max)),
    },
    history: {
      get: (key) => step(() => copyOf(model.getEnded(key))),
      forget: (olderThanMs, max) => step(() => model.forget(olderThanMs, max)),
    },
    alerts: {
      due: (windowMs) => step(() => model.due(windowMs)),
      claim: (topic, claimMs, max) => step(() => copyOf(model.claim(topic, claimMs, max))),
      settle: (versions, as) => step(() => model.settle(versions, as)),
      stateOf: (job) => step(() => model.alertState(job)),
      list: (limit, cursor) => step(() => copyOf(model.listAlerts(limit, cursor))),
    },
    admin: {
      counts: (...args) => step(() => model.counts(...args)),
      countsOf: (topics) => step(() => model.countsOf(topics)),
      purgeTopic: (topic, max) =>
        step(() =>
          model.purge(
            model.all().filter((job) => job.topic === topic),
            max,
          ),
        ),
      // The model is in memory: nothing to copy, nothing to damage.
      startBackup: async () => 'started',
      backup: async () => ({ kind: 'failed', startedAt: 0, endedAt: 0, reason: 'in memory' }),
      startFsck: async () => 'started',
      fsck: () => step(() => model.fsck()),
      clock: () => step(() => model.clock()),
      moment: () => step(() => model.moment()),
      health: async () => ({ ok: true, durability: 'in memory: survives nothing', warnings: [] }),
    },
    surveys: {
      position: (key) => step(() => model.ahead(key)),
      scan: (filter, limit, cursor) => step(() => copyOf(model.scan(filter, limit, cursor))),
      horizon: (topics) => step(() => model.horizon(topics)),
      deadGroups: (...args) => step(() => copyOf(model.deadGroups(...args))),
    },
    close: async () => listeners.clear(),
  };
  return { store, clock: model.time, dump: async () => model.dump(), close: () => store.close() };
}

/** A deep copy; structuredClone alone would make plain byte arrays of bodies. */
function copyOf<T>(value: T): T {
  if (Buffer.isBuffer(value)) return Buffer.from(value) as T;
  if (Array.isArray(value)) return value.map(copyOf) as T;
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, copyOf(member)])) as T;
}
