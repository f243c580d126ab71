// Tests the outcomes for clients when the owner dies, stops, breaks or hands over, on real sockets and files,
// and the content of the file then. The order of deaths and replies is a matter of the simulated worlds.

import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Hint } from '../../src/ports/job-store.ts';
import { StoreError } from '../../src/ports/store-error.ts';
import { connectStore, type StoreConnection } from '../../src/store/sqlite/client/client.ts';
import type { LinkOptions } from '../../src/store/sqlite/client/link.ts';
import { openEngine } from '../../src/store/sqlite/engine/engine.ts';
import { silentLog } from '../../src/telemetry/log.ts';
import { attemptOf, jobOf, leaseOf, request } from '../conformance/trial.ts';
import { useJumpingTime } from '../support/jumping-time.ts';
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

const failureOf = (error: unknown) => (error as StoreError).failure;

describe('an owner that is killed', () => {
  it('unwritten calls wait for the next owner; written ones are unknown, or repeated if that does no harm', async () => {
    const first = await startOwner();
    const client = await connected(patient);
    const { jobs, dead } = client.store;
    const hints: Hint['kind'][] = [];
    await jobs.push([jobOf('1'), jobOf('2')]);
    const [one] = (await jobs.reserve(0, request(2))).jobs;
    if (one === undefined) throw new Error('not reserved');
    jobs.onHint((hint) => hints.push(hint.kind));
    // A stopped owner receives the bytes and does nothing.
    first.signal('SIGSTOP');
    const written = Promise.all([
      jobs.push([jobOf('3')]),
      jobs.cancel([{ topic: 't', id: '2' }]),
      jobs.reserve(0, request(1)).catch(failureOf),
      dead.requeue({}, 1).catch(failureOf),
      jobs.ack([{ ...leaseOf(one), attempt: attemptOf(one, { outcome: 'delivered' }) }]),
      jobs.get({ topic: 't', id: '2' }),
    ]);
    await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
    await first.kill();
    await until('the loss to be noticed', () => !client.connected);
    const unwritten = jobs.push([jobOf('4')]);
    await expect(connected({ callMs: 150 })).rejects.toThrow(StoreError);
    await startOwner();
    const lost = { kind: 'unknown', code: 'store_lost' };
    expect(await written).toMatchObject([[lost], [lost], lost, lost, [{ kind: 'acked' }], { id: '2' }]);
    expect(await unwritten).toMatchObject([{ kind: 'stored' }]);
    // One of each kind after the reconnect, and those of the new owner.
    await until('hints of both kinds', () => hints.includes('due') && hints.includes('ready'));
  });

  it('a client that waits no longer: its calls are not stored', async () => {
    const first = await startOwner();
    const client = await connected({ awayMs: 200 });
    await first.kill();
    await until('the loss to be noticed', () => !client.connected);
    const notStored = { kind: 'not_stored', code: 'store_away' };
    expect(await client.store.jobs.push([jobOf('1'), jobOf('2')])).toEqual([notStored, notStored]);
    await client.close();
    expect(await client.store.jobs.push([jobOf('1')])).toEqual([{ kind: 'not_stored', code: 'closed' }]);
  });
});

describe('an owner that stands still', () => {
  it('a call is unknown after its deadline, a late answer is ignored, and pending calls are bounded', async () => {
    const time = useJumpingTime();
    const owner = await startOwner();
    const [hasty, calm] = [await connected({ callMs: 2_000 }), await connected(patient)];
    owner.signal('SIGSTOP');
    const body = Buffer.alloc(1_000_000);
    const pushes = Array.from({ length: 80 }, (_, n) => calm.store.jobs.push([jobOf(`${n}`, { body })]));
    expect(await pushes.at(-1)).toEqual([{ kind: 'not_stored', code: 'too_many_calls' }]);
    const late = await time.outlast(hasty.store.jobs.push([jobOf('late')]));
    expect(late).toEqual([{ kind: 'unknown', code: 'no_answer' }]);
    owner.signal('SIGCONT');
    const outcomes = (await Promise.all(pushes)).flat();
    const stored = outcomes.filter((outcome) => outcome.kind === 'stored').length;
    expect(stored).toBeGreaterThan(60);
    expect(outcomes.filter((outcome) => outcome.kind === 'not_stored').length).toBe(80 - stored);
    await until('the late push to be there', async () => {
      const job = await hasty.store.jobs.get({ topic: 't', id: 'late' }).catch(() => null);
      return job !== null;
    });
    expect(await hasty.store.jobs.push([jobOf('late', { mode: 'keep' })])).toMatchObject([{ kind: 'kept' }]);
  });

  it('a pause of the client, as of a suspended machine, does not count as silence of the owner', async () => {
    await startOwner();
    const { store } = await connected({ callMs: 2_000 });
    const pushed = store.jobs.push([jobOf('1')]);
    // The reply arrives while this process stands still.
    await new Promise((resolve) => setImmediate(resolve));
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 3_000);
    expect(await pushed).toMatchObject([{ kind: 'stored' }]);
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
      admin.counts().catch((error: unknown) => failureOf(error).kind),
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
    const owner = await startOwner();
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
    await until('progress', () => outcomes.length > 500);
    expect(await owner.drain()).toBe(0);
    const before = outcomes.length;
    const next = await startOwner();
    await until('progress', () => outcomes.length > before + 500);
    stop = true;
    await Promise.all(load);
    expect(new Set(outcomes)).toEqual(new Set(['stored']));
    expect(await next.drain()).toBe(0);
    await client.close();
    const { counts } = inFile();
    expect(counts.topics).toEqual({ t: { delayed: 0, ready: pushes, reserved: 0, dead: 0 } });
  });
});
