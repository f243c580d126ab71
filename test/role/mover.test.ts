// The move of a jobs.db to a real Redis: what arrives, and calls on its ids meanwhile.

import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { type JobKey, type JobSnapshot, pullOwner, type ReservedJob } from '../../src/core/job.ts';
import type { Change, JobRow } from '../../src/core/job-change.ts';
import type { EditItem, Store } from '../../src/ports/job-store.ts';
import type { Arrivals, LeavingPlace } from '../../src/ports/leaving.ts';
import { StoreError, type StoreFailure } from '../../src/ports/store-error.ts';
import type { RoleContext } from '../../src/process/role.ts';
import { storeLimits } from '../../src/store/limits.ts';
import { MovingStore } from '../../src/store/moving-store.ts';
import { silentLog } from '../../src/telemetry/log.ts';
import { upkeepLimits } from '../../src/upkeep/limits.ts';
import { Mover } from '../../src/upkeep/mover.ts';
import {
  attemptOf,
  editOf,
  examined,
  farOffMs,
  jobOf,
  newContent,
  request,
  Trial,
} from '../conformance/trial.ts';
import { type JumpingTime, useJumpingTime } from '../support/jumping-time.ts';
import { type OneShardOptions, openedEmpty } from '../support/redis-store.ts';
import { lacks, owned, workerRedis } from '../support/services.ts';
import { openSqliteStore, type SqliteStore, temporaryDirectory } from '../support/sqlite-store.ts';
import { until } from '../support/until.ts';

const leased = 'leased';
const isOf = (row: JobKey) => (key: JobKey) => key.topic === row.topic && key.id === row.id;

describe.skipIf(await lacks('redis'))('mover', async () => {
  const server = await workerRedis();

  async function aDirectory() {
    const directory = temporaryDirectory();
    await owned('test', Promise.resolve({ stop: async () => directory.remove() }));
    return directory;
  }

  async function leavingStore(directory: ReturnType<typeof temporaryDirectory>): Promise<SqliteStore> {
    const source = await openSqliteStore({ isLeaving: true }, directory);
    await owned('test', Promise.resolve({ stop: () => source.close() }));
    return source;
  }

  /** A jobs.db with a job of each state, opened again with Redis in force. */
  async function opened(more: OneShardOptions = {}) {
    const time = useJumpingTime();
    const directory = await aDirectory();
    const before = await openSqliteStore({}, directory);
    const lease = await fill(before);
    await before.close();
    const source = await leavingStore(directory);
    const { under } = await openedEmpty(server, more);
    const { arrivals } = under.store;
    if (arrivals === undefined) throw new Error('no arrivals');
    const { store, leaving } = source.client;
    const moving = new MovingStore(under.store, arrivals, { store, leaving });
    const recorded: Change[] = [];
    const rows: JobRow[] = [];
    /** ids that the journal was asked for, per call */
    const asked: string[][] = [];
    const journal = {
      record: async (changes: readonly Change[]) => void recorded.push(...changes),
      db: {
        rows: async (keys: readonly JobKey[]) => {
          asked.push(keys.map(({ id }) => id));
          return rows.filter((row) => keys.some(isOf(row)));
        },
      },
    };
    const nextMover = async (from = moving) => {
      const made = new Mover(
        {
          ...{ log: silentLog, journal, store: under.store, config: { noDeliveries: false } },
        } as unknown as RoleContext,
        from,
        () => false,
      );
      await owned('test', Promise.resolve({ stop: () => made.drain(1_000) }));
      return made;
    };
    const mover = await nextMover();
    return {
      time,
      under,
      source,
      moving,
      mover,
      nextMover,
      lease,
      arrivals,
      recorded,
      rows,
      asked,
      trial: new Trial({ ...under, store: moving.store }),
    };
  }

  async function fill({ client: { store } }: SqliteStore): Promise<ReservedJob> {
    const push = async (id: string, pushed: Parameters<typeof jobOf>[1] = {}) => {
      const [outcome] = await store.jobs.push([jobOf(id, pushed)]);
      expect(outcome?.kind).toBe('stored');
    };
    const reserve = async (holder?: typeof pullOwner) => {
      const { jobs } = await store.jobs.reserve(0, request(1, null, holder));
      return jobs[0] as ReservedJob;
    };
    await push('dead', { extension: Buffer.from([1, 4, 0, 0, 1, 0]) });
    const dead = await reserve();
    const attempt = attemptOf(dead);
    await store.jobs.bury([{ ...dead, reason: 'attempts_exhausted', attempt }]);
    await store.alerts.claim('t', 60_000, 10);
    await store.alerts.settle([dead.version], 'sent');
    await push('retried');
    const retried = await reserve();
    await store.jobs.retry([{ ...retried, delayMs: farOffMs, attempt: attemptOf(retried) }]);
    await push(leased);
    const lease = await reserve(pullOwner);
    await push('moved', { when: { delayMs: farOffMs }, body: Buffer.alloc(5_000, 7), priority: 'high' });
    await store.jobs.reschedule([{ topic: 't', id: 'moved', when: { delayMs: 2 * farOffMs } }]);
    await push('ready', { priority: 'low', contentType: null });
    await push('ended', { when: { delayMs: farOffMs } });
    await store.jobs.cancel([keyOf('ended')]);
    return lease;
  }

  const keyOf = (id: string): JobKey => ({ topic: 't', id });
  /** As the mover does at the first begin. */
  async function open(arrivals: Arrivals, move: number | null): Promise<void> {
    await arrivals.prepare(move as number);
    expect(await arrivals.open(move as number)).toBe(true);
  }
  /** The edit of a caller that reads the job there. */
  async function editAt({ jobs }: Pick<Store, 'jobs'>, id: string): Promise<EditItem> {
    const job = await jobs.get(keyOf(id));
    if (job === null) throw new Error(`${id} is not stored`);
    return editOf(job);
  }
  const all = ['dead', 'retried', 'moved', 'ready'];

  const read = async (get: (key: JobKey) => Promise<JobSnapshot | null>) =>
    Promise.all(all.map((id) => get(keyOf(id))));

  /** The move ends; `lease`: the last job, which is acknowledged first. */
  async function ends(time: JumpingTime, { calls, store }: MovingStore, lease?: ReservedJob): Promise<void> {
    if (lease !== undefined) await store.jobs.ack([{ ...lease, isPulled: true, attempt: null }]);
    await time.passUntil('the end of the move', async () => {
      const { move, ended, jobs } = await calls.state();
      return move === null && ended === null && jobs === 0;
    });
  }

  const sound = async (trial: Trial) => expect((await examined(trial)).problems).toEqual([]);

  it('moves each job with all its members, and ends when the last lease is over', async () => {
    const { time, under, source, moving, mover, lease, trial } = await opened();
    const { jobs } = source.client.store;
    const before = await read((key) => jobs.get(key));
    expect(before.map((job) => job?.state)).toEqual(['dead', 'delayed', 'delayed', 'ready']);
    await moving.calls.begin();
    expect((await moving.store.admin.counts()).topics).toMatchObject({
      t: { delayed: 2, ready: 1, reserved: 1, dead: 1 },
    });
    await mover.start();
    const state = await time.passUntil('all but the lease', async () => {
      const now = await moving.calls.state();
      return now.jobs === 1 && (mover.problem !== null || now.move === null) ? now : null;
    });
    expect(state.move).not.toBeNull();
    expect(await read((key) => under.store.jobs.get(key))).toEqual(before);
    expect(await moving.store.jobs.get(keyOf(leased))).toMatchObject({
      state: 'reserved',
      version: lease.version,
    });
    expect(await moving.store.jobs.extend([{ ...lease, leaseMs: 90_000 }])).toMatchObject([
      { kind: 'extended' },
    ]);
    expect(await moving.store.jobs.ack([{ ...lease, isPulled: true, attempt: null }])).toEqual([
      { kind: 'acked' },
    ]);
    // Its entry is that of jobs.db, which stays behind.
    expect(await moving.store.history.get(keyOf(leased))).toMatchObject({ state: 'done' });
    await ends(time, moving);
    expect(await under.raw.hget('{dq:0}:n', 'moving')).toBeNull();
    await sound(trial);
  });

  it('names what it waits for as long as it waits', async () => {
    const { time, moving, mover } = await opened();
    await moving.calls.begin();
    await mover.start();
    // A server whose connection takes longer than the clock's first step does not answer before.
    const reserved = /^the jobs that are left are reserved/;
    const why = await time.passUntil('it waits', async () =>
      reserved.test(mover.problem ?? '') ? mover.problem : null,
    );
    const { page } = moving.calls;
    const named: (string | null)[] = [];
    vi.spyOn(moving.calls, 'page').mockImplementation((after) => {
      named.push(mover.problem);
      return page.call(moving.calls, after);
    });
    await time.passUntil('it looks again', async () => named.length > 3);
    expect(new Set(named)).toEqual(new Set([why]));
  });

  it('jobs.db delivers nothing, takes no new id, and changes only reserved jobs', async () => {
    const { source } = await opened();
    const { jobs, dead, admin } = source.client.store;
    const leaving: StoreFailure = { kind: 'not_stored', code: 'leaving' };
    await expect(jobs.reserve(0, request(10))).rejects.toMatchObject({ failure: leaving });
    await expect(jobs.promote(0, 10)).rejects.toMatchObject({ failure: leaving });
    await expect(dead.requeue({}, 10)).rejects.toMatchObject({ failure: leaving });
    await expect(admin.purgeTopic('t', 10)).rejects.toMatchObject({ failure: leaving });
    expect(await jobs.push([jobOf('new'), jobOf('ready')])).toEqual([leaving, leaving]);
    expect(await jobs.cancel([keyOf('ready')])).toEqual([leaving]);
    expect(await jobs.requeue([keyOf('dead')])).toEqual([leaving]);
    for (const id of ['ready', 'dead'])
      expect(await jobs.edit([await editAt(source.client.store, id)])).toEqual([leaving]);
    expect(await jobs.edit([await editAt(source.client.store, leased)])).toEqual([{ kind: 'in_flight' }]);
    expect(await jobs.push([jobOf(leased)])).toMatchObject([{ kind: 'stored', inFlight: true }]);
    expect(await jobs.push([jobOf(leased)])).toEqual([leaving]);
  });

  it('before the move: rejects a change of an id that jobs.db holds, and no other', async () => {
    const { moving, under } = await opened();
    const { jobs } = moving.store;
    expect(await moving.look()).toBe('held');
    expect(await jobs.push([jobOf('new'), jobOf('ready')])).toMatchObject([
      { kind: 'stored' },
      { kind: 'not_stored', code: 'held' },
    ]);
    expect(await jobs.cancel([keyOf('moved')])).toMatchObject([{ kind: 'not_stored', code: 'held' }]);
    expect(await jobs.edit([await editAt(moving.store, 'moved')])).toMatchObject([
      { kind: 'not_stored', code: 'held' },
    ]);
    expect(await jobs.get(keyOf('moved'))).toMatchObject({ state: 'delayed' });
    expect(await under.store.jobs.get(keyOf('ready'))).toBeNull();
  });

  it('before the move: a lease finds its job beside one of the same id in jobs.db', async () => {
    const { moving, under, lease } = await opened();
    // Pushed by an instance that does not know this jobs.db.
    await under.store.jobs.push([jobOf('ready')]);
    const [other] = (await under.store.jobs.reserve(0, request(1, null, pullOwner))).jobs;
    const { jobs } = moving.store;
    expect(await jobs.get(keyOf('ready'), undefined, other?.version)).toMatchObject({
      version: other?.version,
      state: 'reserved',
    });
    expect(await jobs.get(keyOf(leased), 'bodiless', lease.version)).toMatchObject({ state: 'reserved' });
  });

  it('an edit of a job that has not arrived finds it, and the mover brings no older body', async () => {
    const { time, under, moving, mover, arrivals, lease } = await opened();
    const { move } = await moving.calls.begin();
    const { jobs } = moving.store;
    const { jobs: listed } = await moving.calls.page(null);
    await open(arrivals, move);
    const ready = await editAt(moving.store, 'ready');
    const dead = { ...(await editAt(moving.store, 'dead')), requeue: true };
    expect(await jobs.edit([ready, dead, await editAt(moving.store, leased)])).toMatchObject([
      { kind: 'edited', state: 'ready' },
      { kind: 'edited', state: 'ready' },
      { kind: 'in_flight' },
    ]);
    // A mover that stood still since it read its page.
    await arrivals.put(move as number, listed);
    await mover.start();
    expect(await jobs.ack([{ ...lease, isPulled: true, attempt: null }])).toEqual([{ kind: 'acked' }]);
    await ends(time, moving);
    for (const item of [ready, dead])
      expect(await under.store.jobs.get(item)).toMatchObject({
        ...{ state: 'ready', failures: 0, body: newContent.body, contentType: newContent.contentType },
      });
  });

  it('a late put revives nothing: during the move by the entry of the end, after it by its name', async () => {
    const { time, under, moving, mover, arrivals, lease } = await opened({ keepHistory: false });
    const { move } = await moving.calls.begin();
    const name = move as number;
    await open(arrivals, name);
    const { jobs: page } = await moving.calls.page(null);
    const put = () => arrivals.put(name, page);
    expect(await put()).toEqual([{ kind: 'here' }]);
    expect(await moving.store.jobs.cancel([keyOf('ready')])).toMatchObject([{ kind: 'cancelled' }]);
    expect(await under.store.history.forget(0, 100)).toEqual({ forgotten: 0, more: false });
    expect(await put()).toEqual([{ kind: 'here' }]);
    expect(await under.store.jobs.get(keyOf('ready'))).toBeNull();
    await mover.start();
    await ends(time, moving, lease);
    await time.passUntil('the entry is removed', async () => {
      await under.store.history.forget(0, 100);
      return (await under.store.history.get(keyOf('ready'))) === null;
    });
    expect(await put()).toEqual([{ kind: 'closed' }]);
    expect(await under.store.jobs.get(keyOf('ready'))).toBeNull();
    await moving.store.jobs.push([jobOf('later')]);
    await moving.store.jobs.cancel([keyOf('later')]);
    expect(await under.store.history.get(keyOf('later'))).toBeNull();
  });

  it('a close that a server has lost is repeated before jobs.db forgets the move', async () => {
    const { time, under, moving, mover, lease } = await opened();
    const { move } = await moving.calls.begin();
    await mover.start();
    await time.passUntil('all but the lease', async () => (await moving.calls.state()).jobs === 1);
    await moving.store.jobs.ack([{ ...lease, isPulled: true, attempt: null }]);
    const named = () => under.raw.hget('{dq:0}:n', 'moving');
    await time.passUntil('the close', async () => (await named()) === null);
    expect((await moving.calls.state()).ended).toBe(move);
    await under.raw.hset('{dq:0}:n', 'moving', `${move}`);
    await under.raw.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    await ends(time, moving);
    expect(await named()).toBeNull();
  });

  it.each(['closed', 'healing'] as const)(
    'a mover that stood still since it read the move leaves it closed, where its target is %s',
    async (known) => {
      const { time, under, moving, mover, arrivals, lease, nextMover } = await opened();
      await moving.calls.begin();
      const { prepare } = arrivals;
      let goesOn = () => {};
      let isPrepared = false;
      vi.spyOn(arrivals, 'prepare').mockImplementationOnce(async (move) => {
        await new Promise<void>((resolve) => {
          goesOn = resolve;
        });
        expect(await prepare(move)).toBe('closed');
        isPrepared = true;
        return known;
      });
      await mover.start();
      await time.passUntil('it stands still', () => vi.mocked(arrivals.prepare).mock.calls.length === 1);
      const next = await nextMover();
      await next.start();
      await ends(time, moving, lease);
      goesOn();
      const named = () => under.raw.hget('{dq:0}:n', 'moving');
      await time.passUntil('it closes the move', async () => isPrepared && (await named()) === null);
      await time.jump(3 * upkeepLimits.moveWaitMs);
      await mover.drain(1_000);
      expect(await named()).toBeNull();
    },
  );

  it('a jobs.db that cannot be read does not close the move that is open in it', async () => {
    const { time, moving, mover, arrivals } = await opened();
    const { move } = await moving.calls.begin();
    await mover.start();
    await time.passUntil('all but the lease', async () => (await moving.calls.state()).jobs === 1);
    const close = vi.spyOn(arrivals, 'close');
    const unread = new StoreError({ kind: 'not_stored', code: 'store_damaged' });
    const state = vi.spyOn(moving.calls, 'state').mockRejectedValue(unread);
    await time.passUntil('it has looked again', () => state.mock.calls.length > 3);
    expect(await moving.look()).toBe('none');
    expect(close).not.toHaveBeenCalled();
    state.mockRestore();
    expect((await moving.calls.state()).move).toBe(move);
  });

  it('a move that ended is closed before jobs.db forgets it, whatever move the mover closed before', async () => {
    const { time, moving, mover, arrivals } = await opened();
    const state = await moving.calls.state();
    let ended = 1;
    const steps: string[] = [];
    vi.spyOn(moving.calls, 'state').mockImplementation(async () => ({ ...state, ended }));
    vi.spyOn(arrivals, 'close').mockImplementation(async (move) => {
      steps.push(`close ${move}`);
      // Another mover has jobs.db forget it, and a second move ends, before this one goes on.
      ended = 2;
    });
    vi.spyOn(moving.calls, 'closed').mockImplementation(async (move) => void steps.push(`forget ${move}`));
    await mover.start();
    await time.passUntil('jobs.db forgets the second', async () => steps.includes('forget 2'));
    expect(steps.slice(0, 3)).toEqual(['close 1', 'close 2', 'forget 2']);
  });

  it('jobs.db forgets no put that is younger than the last look for losses', async () => {
    const { time, moving, mover, arrivals, lease } = await opened();
    await moving.calls.begin();
    const full = vi.spyOn(arrivals, 'isNearlyFull');
    const puts: string[] = [];
    const { put } = arrivals;
    vi.spyOn(arrivals, 'put').mockImplementation(async (move, jobs) => {
      const outcomes = await put(move, jobs);
      if (puts.length === 0) full.mockReturnValue(true);
      puts.push(...jobs.map(({ id }) => id));
      return outcomes;
    });
    const { forget } = moving.calls;
    const putsBefore = new Map<string, number>();
    vi.spyOn(moving.calls, 'forget').mockImplementation(async (jobs) => {
      for (const { id } of jobs) putsBefore.set(id, puts.filter((each) => each === id).length);
      if (putsBefore.size > jobs.length) return forget(jobs);
      // dq-store is slow, and a failover loses the puts of the last seconds.
      await time.jump(upkeepLimits.moveForgetMs);
      vi.spyOn(arrivals, 'losses').mockResolvedValue(1);
      return forget(jobs);
    });
    await mover.start();
    await time.passUntil('the first put', () => puts.length > 0);
    await time.jump(upkeepLimits.moveForgetMs - upkeepLimits.moveWaitMs - 500);
    full.mockReturnValue(false);
    await ends(time, moving, lease);
    expect(Object.fromEntries(putsBefore)).toEqual({ ready: 1, retried: 2, moved: 2, dead: 2 });
  });

  async function copied(admin: SqliteStore['client']['store']['admin'], to: string) {
    await admin.startBackup(to);
    return until('the copy', async () => {
      const now = await admin.backup();
      return now.kind === 'running' ? null : now;
    });
  }

  it('a backup has the jobs that jobs.db holds, before and during the move', async () => {
    const { time, under, moving, mover, source, lease, arrivals, nextMover } = await opened();
    const { admin } = source.client.store;
    const directory = await aDirectory();
    const backup = (name: string) => copied(admin, join(directory.path, name));
    const notCopied = expect.stringMatching(/^this copy has what is left in jobs\.db \(5 jobs\).*BGSAVE/);
    expect(await backup('held')).toMatchObject({ kind: 'done', result: { notCopied } });
    await moving.calls.begin();
    expect(await backup('moving')).toMatchObject({ kind: 'done', result: { notCopied } });
    await mover.start();
    await ends(time, moving, lease);
    // Also that of a move which ended later goes on.
    for (const name of ['held', 'moving']) {
      const copy = await leavingStore({ path: join(directory.path, name), remove() {} });
      const { store, leaving } = copy.client;
      expect(await leaving.state()).toMatchObject({ jobs: 5 });
      await leaving.begin();
      const next = await nextMover(new MovingStore(under.store, arrivals, { store, leaving }));
      await next.start();
      await time.passUntil('all but the lease', async () => (await leaving.state()).jobs === 1);
      await next.drain(1_000);
    }
    expect((await under.store.admin.counts()).topics).toMatchObject({ t: { delayed: 2, ready: 1, dead: 1 } });
    const reason = expect.stringContaining('nothing was copied');
    expect(await backup('empty')).toMatchObject({ kind: 'failed', reason });
  });

  it('waits while a backup reads jobs.db', async () => {
    const { time, moving, mover, lease } = await opened();
    await moving.calls.begin();
    const { state } = moving.calls;
    const frozen = vi.spyOn(moving.calls, 'state').mockImplementation(async () => ({
      ...(await state.call(moving.calls)),
      isFrozen: true,
    }));
    const page = vi.spyOn(moving.calls, 'page');
    await mover.start();
    await time.passUntil('it waits', () => mover.problem === 'dq backup or dq fsck reads jobs.db');
    await time.jump(3 * upkeepLimits.moveWaitMs);
    expect(page).not.toHaveBeenCalled();
    frozen.mockRestore();
    await ends(time, moving, lease);
  });

  it('a page and a reading by ids fit into a frame, whatever attempts and bodies they have', async () => {
    const directory = await aDirectory();
    const before = await openSqliteStore({}, directory);
    const { jobs } = before.client.store;
    const ids = Array.from({ length: 500 }, (_, n) => `large-${n}`);
    for (let at = 0; at < ids.length; at += 50) {
      await jobs.push(ids.slice(at, at + 50).map((id) => jobOf(id)));
      const reserved = await jobs.reserve(0, request(50));
      const attempt = (job: ReservedJob) => attemptOf(job, { detail: '失'.repeat(14_000) });
      await jobs.retry(reserved.jobs.map((job) => ({ ...job, delayMs: farOffMs, attempt: attempt(job) })));
    }
    await jobs.push([jobOf('largest', { body: Buffer.alloc(16 * 1024 * 1024, 7) })]);
    await before.close();
    const { leaving } = (await leavingStore(directory)).client;
    const found = await leaving.find(ids.map(keyOf));
    expect(found.jobs[0]).toMatchObject({ id: ids[0] });
    let seen = 0;
    for (let place: LeavingPlace | null = null, isFirst = true; isFirst || place !== null; isFirst = false) {
      const page = await leaving.page(place);
      seen += page.jobs.length;
      place = page.next;
    }
    expect(seen).toBe(ids.length + 1);
  });

  const unavailable = async (): Promise<never> => {
    throw new StoreError({ kind: 'not_stored', code: 'store_unavailable' });
  };

  it('while jobs.db does not answer, lists name it, and alerts of Redis go on', async () => {
    const { under, source, arrivals } = await opened();
    const { store, leaving } = source.client;
    await leaving.begin();
    const settled: string[] = [];
    const target = {
      ...under.store,
      alerts: {
        ...under.store.alerts,
        due: async () => ['t'],
        settle: async () => void settled.push('redis'),
      },
    };
    let isAway = false;
    const answering = <A extends object>(calls: A): A =>
      Object.fromEntries(
        Object.entries(calls).map(([name, call]) => [
          name,
          (...args: unknown[]) => (isAway ? unavailable() : call(...args)),
        ]),
      ) as A;
    const left = { ...store, alerts: answering(store.alerts), admin: answering(store.admin) };
    const tested = new MovingStore(target, arrivals, { store: left, leaving: answering(leaving) });
    expect(await tested.look()).toBe('moving');
    isAway = true;
    const { jobs, admin, alerts } = tested.store;
    expect(await jobs.search({}, 10, null)).toMatchObject({ missing: ['jobs.db'] });
    expect(await admin.counts()).toMatchObject({ missing: ['jobs.db'] });
    expect(await alerts.due(0)).toEqual(['t']);
    await expect(alerts.settle([1], 'sent')).rejects.toBeInstanceOf(StoreError);
    expect(settled).toEqual(['redis']);
  });

  it('a jobs.db that answers only about ids fails no process', async () => {
    const { under, source, arrivals } = await opened();
    const { store, leaving } = source.client;
    const find = async (keys: readonly JobKey[]) => ({ move: null, left: 0, jobs: keys.map(() => null) });
    const less = { ...leaving, find, state: unavailable };
    const tested = new MovingStore(under.store, arrivals, { store, leaving: less });
    expect(await tested.store.jobs.cancel([keyOf('new')])).toEqual([{ kind: 'absent' }]);
  });

  it('a push with a window finds an end in jobs.db, before, during and after the move', async () => {
    const { time, under, source, moving, mover, lease, arrivals } = await opened();
    const windowMs = 30 * 86_400_000;
    const pushTo = async (store: MovingStore, ...ids: string[]) =>
      store.store.jobs.push(ids.map((id) => ({ ...jobOf(id), windowMs })));
    const cancelled = { kind: 'ended', state: 'cancelled' };
    const done = { kind: 'ended', state: 'done', version: lease.version };
    expect(await pushTo(moving, 'ended', 'new')).toMatchObject([cancelled, { kind: 'stored' }]);
    await moving.calls.begin();
    await mover.start();
    await moving.store.jobs.ack([{ ...lease, isPulled: true, attempt: null }]);
    expect(await time.outlast(pushTo(moving, leased))).toMatchObject([done]);
    await ends(time, moving);
    await time.passUntil('the last reading', async () => (await moving.look()) === 'none');
    expect(await pushTo(moving, leased, 'ended')).toMatchObject([done, cancelled]);
    // dq-store is unavailable, and the last reading tells that a job may have ended within the window.
    const history = { ...source.client.store.history, get: unavailable };
    const parts = { store: { ...source.client.store, history }, leaving: source.client.leaving };
    const cut = new MovingStore(under.store, arrivals, parts);
    await cut.look();
    expect(await pushTo(cut, leased)).toMatchObject([{ kind: 'not_stored' }]);
    expect(await cut.store.jobs.push([{ ...jobOf('new'), windowMs: 1 }])).toMatchObject([{ replaced: true }]);
    // What Redis knows of an id is later.
    expect(await moving.store.jobs.push([jobOf(leased)])).toMatchObject([{ kind: 'stored' }]);
    expect(await pushTo(moving, leased)).toMatchObject([{ kind: 'stored', replaced: true }]);
    await moving.store.jobs.cancel([keyOf(leased)]);
    expect(await pushTo(moving, leased)).toMatchObject([cancelled]);
  });

  it('a damaged jobs.db holds nothing until it is repaired', async () => {
    const { time, under, source, arrivals } = await opened();
    const { store, leaving } = source.client;
    let isDamaged = true;
    const state = async () => {
      if (isDamaged) throw new StoreError({ kind: 'not_stored', code: 'store_damaged' });
      return leaving.state();
    };
    const parts = { store, leaving: { ...leaving, state } };
    const tested = new MovingStore(under.store, arrivals, parts);
    expect(await tested.look()).toBe('none');
    isDamaged = false;
    await time.jump(storeLimits.movingLookMs);
    expect(await tested.store.jobs.cancel([keyOf('ready')])).toMatchObject([{ code: 'held' }]);
  });

  it('a jobs.db that only owes alerts holds no id, has them mailed, and begins no move', async () => {
    const directory = await aDirectory();
    const before = await openSqliteStore({}, directory);
    const { jobs, dead } = before.client.store;
    await jobs.push([jobOf('mailed')]);
    const lease = (await jobs.reserve(0, request(1))).jobs[0] as ReservedJob;
    await jobs.bury([{ ...lease, reason: 'attempts_exhausted', attempt: attemptOf(lease) }]);
    await dead.purge({ topic: 't' }, 10);
    await before.close();
    const { under, arrivals } = await opened();
    const owing = await leavingStore(directory);
    const { store, leaving } = owing.client;
    const parts = { store, leaving: { ...leaving, find: unavailable } };
    const tested = new MovingStore(under.store, arrivals, parts);
    expect(await tested.look()).toBe('owing');
    expect(await leaving.begin()).toMatchObject({ jobs: 0, move: null });
    const notCopied = expect.stringContaining('left in jobs.db (alerts that are owed), and no job of Redis');
    const copy = await copied(store.admin, join((await aDirectory()).path, 'copy'));
    expect(copy).toMatchObject({ kind: 'done', result: { notCopied } });
    expect(await tested.store.jobs.push([jobOf('mailed')])).toMatchObject([{ kind: 'stored' }]);
    expect(await tested.store.alerts.due(0)).toEqual(['t']);
    expect(await tested.store.alerts.claim('t', 60_000, 10)).toMatchObject([{ id: 'mailed' }]);
    await tested.store.alerts.settle([lease.version], 'sent');
    expect((await leaving.state()).owesAlerts).toBe(false);
  });

  it('a second move ends only after the target has closed the first', async () => {
    const directory = await aDirectory();
    const forgetAll = async ({ client: { leaving } }: SqliteStore) =>
      leaving.forget((await leaving.page(null)).jobs);
    const moves: number[] = [];
    for (const ended of [null, expect.any(Number)]) {
      const before = await openSqliteStore({}, directory);
      await before.client.store.jobs.push([jobOf('one')]);
      await before.close();
      const source = await openSqliteStore({ isLeaving: true }, directory);
      const { leaving } = source.client;
      const { move, ...state } = await leaving.begin();
      moves.push(move as number);
      expect(state).toMatchObject({ ended });
      await forgetAll(source);
      expect(await leaving.end()).toBe(ended === null);
      const [first, second] = moves;
      if (ended !== null) {
        await leaving.closed(first as number);
        expect(await leaving.end()).toBe(true);
        // Of a mover that stood still.
        await leaving.closed(first as number);
        expect((await leaving.state()).ended).toBe(second);
      }
      await source.close();
    }
  });

  it('a move that begins between two readings of a call counts for the later ids only', async () => {
    const { under, source, arrivals } = await opened();
    const { store, leaving } = source.client;
    const { move } = await leaving.begin();
    await open(arrivals, move);
    let isFirst = true;
    const find = async (keys: readonly JobKey[]) => {
      const found = await leaving.find(isFirst ? keys.slice(0, 1) : keys);
      const seen = isFirst ? { ...found, move: null } : found;
      isFirst = false;
      return seen;
    };
    const parts = { store, leaving: { ...leaving, find } };
    const tested = new MovingStore(under.store, arrivals, parts);
    expect(await tested.store.jobs.cancel([keyOf('moved'), keyOf('ready')])).toMatchObject([
      { code: 'held' },
      { kind: 'cancelled' },
    ]);
  });

  it('a push reports stored jobs while another waits for the mover', async () => {
    const { time, moving } = await opened();
    await moving.calls.begin();
    const told: number[] = [];
    const pushed = moving.store.jobs.push([jobOf('ready'), jobOf('new')], (at) => told.push(at));
    await until('Redis has answered, before time passes', () => told.length > 0);
    const outcomes = await time.outlast(pushed);
    expect(outcomes).toMatchObject([{ code: 'moving' }, { kind: 'stored' }]);
    expect(told).toEqual([1]);
  });

  it('the journal gets no open row of a job that has ended', async () => {
    const { moving, mover, time, arrivals, recorded, lease } = await opened({ keepHistory: false });
    const { move } = await moving.calls.begin();
    await open(arrivals, move);
    await moving.store.jobs.cancel([keyOf('ready')]);
    await mover.start();
    await ends(time, moving, lease);
    expect(recorded.filter(({ id }) => id === 'ready')).toEqual([]);
  });

  const bucket = '{dq:0}:n';
  const nearlyFull = 'Redis is nearly full';

  /** The move is open, and nothing is put: the mover waits for memory. `empty`: Redis loses all, and gets a
   *  note. `healed`: what the journal has is put back. `ended`: the journal learns the end of a job. */
  async function openedOnce() {
    const all = await opened({ writer: '7.1' });
    const { time, moving, mover, arrivals, rows, under } = all;
    const full = vi.spyOn(arrivals, 'isNearlyFull').mockReturnValue(true);
    await moving.calls.begin();
    await mover.start();
    await time.passUntil('the move is open', async () => mover.problem === nearlyFull);
    const { jobs } = await moving.calls.page(null);
    const ready = jobs.find(({ id }) => id === 'ready');
    if (ready === undefined) throw new Error('no ready job');
    const note = ready.version + 1_000;
    return {
      ...all,
      empty: async () => {
        await under.raw.hdel(bucket, 'moving');
        await under.raw.hset(bucket, 'seq', note, 'heal', `0 ${note} jobs`);
        full.mockReturnValue(false);
      },
      healed: () => under.raw.hset(bucket, 'heal', note),
      ended: () => {
        const { topic, id, version, origin, dueAt, failures } = ready;
        rows.push({
          ...{ topic, id, version, origin, dueAt, failures, number: version + 1, place: '', pushed: null },
          ...{
            state: 'done',
            orderAt: 0,
            reason: null,
            alertTold: 0,
            endedOrigin: origin,
            bodyOrigin: origin,
          },
        });
      },
    };
  }

  it('a move is not opened on an emptied server before its healing, which brings the ends', async () => {
    const { moving, mover, time, under, lease, ended, empty, healed } = await openedOnce();
    await empty();
    await time.passUntil('it waits for the healing', async () => mover.problem !== nearlyFull);
    await time.jump(3 * upkeepLimits.moveWaitMs);
    expect(mover.problem).toMatch(/^Redis has lost data/);
    ended();
    await healed();
    await ends(time, moving, lease);
    expect(await under.store.jobs.get(keyOf('ready'))).toBeNull();
    expect(await under.store.jobs.get(keyOf('moved'))).not.toBeNull();
  });

  it('an emptied server opens no move that was prepared before, and keeps what ends meanwhile', async () => {
    const { moving, under, arrivals } = await opened({ keepHistory: false });
    const name = (await moving.calls.begin()).move as number;
    expect(await arrivals.prepare(name)).toBe('closed');
    const { jobs: page } = await moving.calls.page(null);
    expect(await arrivals.put(name, page)).toEqual([{ kind: 'closed' }]);
    await under.store.jobs.push([jobOf('ended')]);
    await under.store.jobs.cancel([keyOf('ended')]);
    expect(await under.store.history.forget(0, 100)).toEqual({ forgotten: 0, more: false });
    await under.raw.hdel(bucket, 'moving');
    expect(await arrivals.open(name)).toBe(false);
    expect(await arrivals.put(name, page)).toEqual([{ kind: 'closed' }]);
    await open(arrivals, name);
    expect(await arrivals.prepare(name)).toBe('open');
    await arrivals.close(name);
    expect(await under.raw.hget(bucket, 'moving')).toBeNull();
  });

  it('a first open asks the journal for no ends, and a later walk goes on after a failure', async () => {
    const { moving, mover, time, lease, asked, empty, healed, arrivals } = await openedOnce();
    expect(asked).toEqual([]);
    const { page } = moving.calls;
    const walked: [LeavingPlace | null, string][] = [];
    vi.spyOn(moving.calls, 'page').mockImplementation(async (after) => {
      const [, told] = / have ended, (.*) so far$/.exec(mover.problem ?? '') ?? [];
      if (told === undefined) return page.call(moving.calls, after);
      walked.push([after, told]);
      if (walked.length === 2) throw new StoreError({ kind: 'not_stored', code: 'store_unavailable' });
      return page.call(moving.calls, after);
    });
    const opens = vi.spyOn(arrivals, 'open');
    await empty();
    await healed();
    await time.passUntil('the move is open again', async () => opens.mock.calls.length > 0);
    // One page per state of jobs.
    expect(walked).toEqual([
      [null, '0 of 5'],
      [[1], '1 of 5'],
      [[1], '1 of 5'],
      [[2], '3 of 5'],
    ]);
    expect(asked).toEqual([['ready'], ['retried', 'moved'], ['dead']]);
    await ends(time, moving, lease);
  });

  it('before the move: bulk work does not pass by held jobs, and lists name them', async () => {
    const { moving } = await opened();
    const { dead, admin, jobs } = moving.store;
    const failure = { kind: 'not_stored', code: 'held' };
    await expect(dead.purge({}, 10)).rejects.toMatchObject({ failure });
    await expect(dead.requeue({ topic: 't' }, 10)).rejects.toMatchObject({ failure });
    await expect(admin.purgeTopic('t', 10)).rejects.toMatchObject({ failure });
    expect(await admin.purgeTopic('another', 10)).toMatchObject({ purged: 0 });
    expect(await jobs.search({}, 10, null)).toMatchObject({ missing: ['jobs.db'] });
    const { topics, oldest } = await admin.counts();
    expect(topics).toMatchObject({ t: { delayed: 2, ready: 1, reserved: 1, dead: 1 } });
    expect(oldest).toEqual([]);
  });

  it('bulk work and lists wait for the end, or name what they lack', async () => {
    const { moving } = await opened();
    await moving.calls.begin();
    const { dead, admin, jobs } = moving.store;
    const failure = { kind: 'not_stored', code: 'moving' };
    await expect(dead.purge({}, 10)).rejects.toMatchObject({ failure });
    await expect(admin.purgeTopic('t', 10)).rejects.toMatchObject({ failure });
    expect(await jobs.search({}, 10, null)).toEqual({ items: [], nextCursor: null, missing: ['jobs.db'] });
  });

  it('an alert that is owed is mailed from jobs.db, before its dead letter goes', async () => {
    const { time, moving, mover, lease } = await opened();
    await moving.calls.begin();
    await mover.start();
    const bury = { ...lease, isPulled: true, reason: 'nacked', attempt: attemptOf(lease) } as const;
    expect(await moving.store.jobs.bury([bury])).toEqual([{ kind: 'buried' }]);
    await time.passUntil('all others', async () => (await moving.calls.state()).jobs === 1);
    expect(await moving.store.alerts.due(0)).toEqual(['t']);
    expect(await moving.store.alerts.claim('t', 60_000, 10)).toMatchObject([
      { id: leased, reason: 'nacked' },
    ]);
    await moving.store.alerts.settle([lease.version], 'sent');
    await ends(time, moving);
    expect(await moving.store.alerts.stateOf(lease)).toBe('sent');
  });
});
