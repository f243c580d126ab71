// Tests the outcomes for clients when the owner dies, stops, breaks or hands over, and the content of the
// file then.

import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Hint } from '../../src/ports/job-store.ts';
import { StoreError } from '../../src/ports/store-error.ts';
import { connectStore, type StoreConnection } from '../../src/store/sqlite/client/client.ts';
import type { LinkOptions } from '../../src/store/sqlite/client/link.ts';
import { openEngine } from '../../src/store/sqlite/engine/engine.ts';
import { silentLog } from '../../src/telemetry/log.ts';
import { attemptOf, jobOf, leaseOf, request } from '../conformance/trial.ts';
import { fatalExit, OwnerProcess } from '../support/owner-process.ts';
import { dumpOf, ownerPaths, temporaryDirectory } from '../support/sqlite-store.ts';
import { until } from '../support/until.ts';

let directory: ReturnType<typeof temporaryDirectory>;
let owners: OwnerProcess[] = [];
let clients: StoreConnection[] = [];

beforeEach(() => {
  directory = temporaryDirectory();
});
afterEach(async () => {
  await Promise.all(clients.map((client) => client.close()));
  await Promise.all(owners.map((owner) => owner.kill()));
  [owners, clients] = [[], []];
  directory.remove();
});

async function startOwner(): Promise<OwnerProcess> {
  const owner = await OwnerProcess.start(directory.path);
  owners.push(owner);
  return owner;
}

/** Options of a client that waits for the next owner: its process starts from sources, which takes many
 *  seconds on a busy machine. */
const patient = { awayMs: 60_000, callMs: 60_000 };

async function connected(more: Partial<LinkOptions> = {}): Promise<StoreConnection> {
  const { socketPath } = ownerPaths(directory.path);
  const client = connectStore({ socketPath, title: 'test', log: silentLog, ...more });
  clients.push(client);
  await client.start();
  return client;
}

/** The content of the file after its owner has closed it; it must be undamaged. */
function inFile() {
  const engine = openEngine(ownerPaths(directory.path).path);
  try {
    expect(engine.db.prepare('PRAGMA integrity_check').all()).toEqual([{ integrity_check: 'ok' }]);
    return { ...dumpOf(engine.db), counts: engine.jobCounts.counts() };
  } finally {
    engine.close();
  }
}

const acks = (jobs: Awaited<ReturnType<StoreConnection['store']['jobs']['reserve']>>['jobs']) =>
  jobs.map((job) => ({ ...leaseOf(job), attempt: attemptOf(job, { outcome: 'delivered' }) }));

it('a pause of the client, as of a suspended machine, does not count as silence of the owner', async () => {
  await startOwner();
  const { store } = await connected({ callMs: 2_000 });
  const pushed = store.jobs.push([jobOf('1')]);
  // The reply arrives while this process stands still.
  await new Promise((resolve) => setImmediate(resolve));
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 3_000);
  expect(await pushed).toMatchObject([{ kind: 'stored' }]);
});

describe('an owner killed under load', () => {
  it('has every acknowledged write and no rejected one', async () => {
    const acknowledged = new Set<string>();
    // An applied ack whose answer was lost is repeated and returns lease_lost: only the request is certain.
    const askedToGo = new Set<string>();
    const acked = new Set<string>();
    const rejected = new Set<string>();
    let stop = false;
    const pusher = async (client: StoreConnection, name: string) => {
      for (let n = 0; !stop; n += 1) {
        const id = `${name}.${n}`;
        const [outcome] = await client.store.jobs.push([jobOf(id, { body: Buffer.alloc(200, 1) })]);
        if (outcome?.kind === 'stored') acknowledged.add(id);
        else if (outcome?.kind === 'not_stored') rejected.add(id);
      }
    };
    const taker = async (client: StoreConnection) => {
      while (!stop) {
        const reserved = await client.store.jobs.reserve(0, request(20)).catch(() => ({ jobs: [] }));
        for (const job of reserved.jobs) askedToGo.add(job.id);
        const outcomes = await client.store.jobs.ack(acks(reserved.jobs));
        for (const [i, outcome] of outcomes.entries())
          if (outcome.kind === 'acked') acked.add(reserved.jobs[i]?.id ?? '');
      }
    };
    let owner = await startOwner();
    const [a, b, c] = await Promise.all([connected(), connected(), connected()]);
    const load = [
      ...Array.from({ length: 20 }, (_, n) => pusher(a as StoreConnection, `a${n}`)),
      ...Array.from({ length: 20 }, (_, n) => pusher(b as StoreConnection, `b${n}`)),
      taker(c as StoreConnection),
    ];
    for (let round = 1; round <= 4; round += 1) {
      await until('progress', () => acknowledged.size > round * 300 && acked.size > round * 20);
      await owner.kill();
      if (round < 4) owner = await startOwner();
    }
    stop = true;
    // Calls that still wait for an owner end as not stored.
    const last = await startOwner();
    await Promise.all(load);
    await last.kill();
    const stored = new Set(inFile().jobs.map((job) => job.id));
    expect([...acknowledged].filter((id) => !stored.has(id) && !askedToGo.has(id))).toEqual([]);
    expect([...acked].filter((id) => stored.has(id))).toEqual([]);
    expect([...rejected].filter((id) => stored.has(id))).toEqual([]);
    expect(acknowledged.size).toBeGreaterThan(1_200);
  });
});

describe('a call', () => {
  it('unwritten: waits for the next owner', async () => {
    const first = await startOwner();
    const client = await connected(patient);
    await first.kill();
    await until('the loss to be noticed', () => !client.connected);
    const pushed = client.store.jobs.push([jobOf('1')]);
    await startOwner();
    expect(await pushed).toMatchObject([{ kind: 'stored' }]);
  });

  it('unwritten: is not stored if no owner comes', async () => {
    const first = await startOwner();
    const client = await connected({ awayMs: 200 });
    await first.kill();
    await until('the loss to be noticed', () => !client.connected);
    expect(await client.store.jobs.push([jobOf('1'), jobOf('2')])).toEqual([
      { kind: 'not_stored', code: 'store_away' },
      { kind: 'not_stored', code: 'store_away' },
    ]);
    await expect(client.store.jobs.get({ topic: 't', id: '1' })).rejects.toMatchObject({
      failure: { kind: 'not_stored', code: 'store_away' },
    });
    await startOwner();
    await until('the owner to be found', () => client.connected);
    expect(await client.store.jobs.get({ topic: 't', id: '1' })).toBeNull();
  });

  it('written: is unknown if a repeat may harm, otherwise repeated', async () => {
    const first = await startOwner();
    const client = await connected(patient);
    await client.store.jobs.push([jobOf('1'), jobOf('2')]);
    const [one, two] = (await client.store.jobs.reserve(0, request(2))).jobs;
    if (one === undefined || two === undefined) throw new Error('not reserved');
    // A stopped owner receives the bytes and does nothing.
    first.signal('SIGSTOP');
    const { jobs } = client.store;
    const calls = Promise.all([
      jobs.push([jobOf('3')]),
      jobs.cancel([{ topic: 't', id: '2' }]),
      jobs.reserve(0, request(1)).catch((error: unknown) => (error as StoreError).failure),
      client.store.dead.requeue({}, 1).catch((error: unknown) => (error as StoreError).failure),
      jobs.ack(acks([one])),
      jobs.get({ topic: 't', id: '2' }),
    ]);
    await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
    await first.kill();
    await startOwner();
    const lost = { kind: 'unknown', code: 'store_lost' };
    expect(await calls).toMatchObject([[lost], [lost], lost, lost, [{ kind: 'acked' }], { id: '2' }]);
  });

  it('without an answer: is unknown after its deadline; a late answer is ignored', async () => {
    const owner = await startOwner();
    const client = await connected({ callMs: 2_000 });
    owner.signal('SIGSTOP');
    expect(await client.store.jobs.push([jobOf('1')])).toEqual([{ kind: 'unknown', code: 'no_answer' }]);
    owner.signal('SIGCONT');
    await until('the late push to be there', async () => {
      const job = await client.store.jobs.get({ topic: 't', id: '1' }).catch(() => null);
      return job !== null;
    });
    expect(await client.store.jobs.push([jobOf('1', { mode: 'keep' })])).toMatchObject([{ kind: 'kept' }]);
  });

  it('above the limit of pending calls: is rejected as not stored', async () => {
    const owner = await startOwner();
    const client = await connected(patient);
    owner.signal('SIGSTOP');
    const body = Buffer.alloc(1_000_000);
    const pushes = Array.from({ length: 80 }, (_, n) => client.store.jobs.push([jobOf(String(n), { body })]));
    const rejected = await Promise.race(pushes.slice(-1));
    expect(rejected).toEqual([{ kind: 'not_stored', code: 'too_many_calls' }]);
    owner.signal('SIGCONT');
    const outcomes = (await Promise.all(pushes)).flat();
    const stored = outcomes.filter((outcome) => outcome.kind === 'stored').length;
    expect(stored).toBeGreaterThan(60);
    expect(outcomes.filter((outcome) => outcome.kind === 'not_stored').length).toBe(80 - stored);
  });

  it('after close: is rejected', async () => {
    await startOwner();
    const client = await connected();
    await client.close();
    expect(await client.store.jobs.push([jobOf('1')])).toEqual([{ kind: 'not_stored', code: 'closed' }]);
  });
});

describe('a client', () => {
  it('start: fails without an owner', async () => {
    const { socketPath } = ownerPaths(directory.path);
    const client = connectStore({ socketPath, title: 'test', log: silentLog, callMs: 150 });
    await expect(client.start()).rejects.toThrow(StoreError);
    expect(client.connected).toBe(false);
  });

  it('reconnect: checks once, then receives hints again', async () => {
    const first = await startOwner();
    const client = await connected(patient);
    const hints: Hint['kind'][] = [];
    client.store.jobs.onHint((hint) => hints.push(hint.kind));
    await first.kill();
    await startOwner();
    await until('both hints after the reconnect', () => hints.length === 2);
    expect(hints.sort()).toEqual(['due', 'ready']);
    hints.length = 0;
    await client.store.jobs.push([jobOf('1')]);
    await until('a hint of the new owner', () => hints.length > 0);
    expect(hints).toEqual(['ready']);
  });
});

describe('an I/O error', () => {
  it('in COMMIT: all calls are unknown, the owner ends, the next store is undamaged', async () => {
    const owner = await startOwner();
    const client = await connected();
    const { jobs, admin } = client.store;
    await jobs.push([jobOf('1'), jobOf('2', { body: Buffer.alloc(60_000, 2) })]);
    // Its pages are free: the next push needs no more space than the WAL.
    await jobs.cancel([{ topic: 't', id: '2' }]);
    owner.limitFileSize(5_000);
    const [pushed, counted] = await Promise.all([
      jobs.push([jobOf('2', { body: Buffer.alloc(50_000, 2) })]),
      admin.counts().catch((error: unknown) => (error as StoreError).failure.kind),
    ]);
    expect(pushed).toEqual([{ kind: 'unknown', code: 'io_error' }]);
    // A read of the same turn either came later and was rejected, or reached the next owner.
    expect(counted).toBe('not_stored');
    expect(await owner.ended).toBe(fatalExit);
    const ids = inFile().jobs.map((job) => job.id);
    expect(ids).toContain('1');
  });
});

describe('a handover', () => {
  it('under load: loses no call, repeats none, leaves none unknown', async () => {
    let owner = await startOwner();
    const client = await connected(patient);
    const outcomes: string[] = [];
    let stop = false;
    let pushes = 0;
    const pusher = async (name: number) => {
      for (let n = 0; !stop; n += 1) {
        pushes += 1;
        const [outcome] = await client.store.jobs.push([jobOf(`${name}.${n}`, { mode: 'reject' })]);
        outcomes.push(outcome?.kind ?? '');
      }
    };
    const load = Array.from({ length: 50 }, (_, n) => pusher(n));
    for (let round = 1; round <= 3; round += 1) {
      const before = outcomes.length;
      await until('progress', () => outcomes.length > before + 500);
      expect(await owner.drain()).toBe(0);
      owner = await startOwner();
    }
    stop = true;
    await Promise.all(load);
    expect(new Set(outcomes)).toEqual(new Set(['stored']));
    expect(await owner.drain()).toBe(0);
    await client.close();
    const { counts } = inFile();
    expect(counts.topics).toEqual({ t: { delayed: 0, ready: pushes, reserved: 0, dead: 0 } });
  });
});
