// The store alone on a file system without a free block: its remaining operations, and the pages they use.

import { createHash } from 'node:crypto';
import { rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { pullOwner, type ReservedJob } from '../../src/core/job.ts';
import type { Store } from '../../src/ports/job-store.ts';
import { pragma } from '../../src/runtime/database.ts';
import { diskReserveBytesFor } from '../../src/store/sqlite/file/disk-reserve.ts';
import { attemptOf, jobOf, leaseOf, request } from '../conformance/trial.ts';
import { fillUp, freeBytesIn, mountTmpfs, unmountable } from '../support/mounted.ts';
import { numbers } from '../support/producing.ts';
import { openSqliteStore, type SqliteStore } from '../support/sqlite-store.ts';
import { until } from '../support/until.ts';

const mebibyte = 1024 * 1024;
/** More than the WAL has space for in one transaction on a full disk. */
const deadLetters = 1_200;
let store: SqliteStore;
let nowMs = 0;

async function openOn(bytes: number): Promise<void> {
  nowMs = Date.now();
  const path = mountTmpfs(bytes);
  const diskReserveBytes = diskReserveBytesFor(path);
  store = await openSqliteStore({ clock: () => nowMs, diskReserveBytes }, { path, remove: () => {} });
}
beforeEach(() => {
  nowMs = 0;
});
afterEach(() => store?.close());

const jobs = () => store.client.store.jobs;
const health = () => store.client.store.admin.health();
const hasReserve = async () => (await health()).ok;
const push = async (id: string, bytes = 300) => {
  const [outcome] = await jobs().push([jobOf(id, { body: Buffer.alloc(bytes, 1) })]);
  return outcome?.kind === 'not_stored' ? outcome.code : outcome?.kind;
};
const reserve = async (count: number): Promise<ReservedJob[]> => {
  const held: ReservedJob[] = [];
  while (held.length < count) {
    const reserved = await jobs().reserve(0, request(Math.min(count - held.length, 250)));
    held.push(...reserved.jobs);
  }
  return held;
};

/** Resolves when no block is free and the store has noticed. */
async function fill(): Promise<void> {
  for (let n = 0; await hasReserve(); n += 1) {
    fillUp(store.directory);
    await push(`filling${n}`, 20_000);
  }
  fillUp(store.directory);
  expect(freeBytesIn(store.directory)).toBe(0);
}

describe.skipIf(unmountable !== null)(`a full disk${unmountable === null ? '' : `: ${unmountable}`}`, () => {
  it('any number of settles fits into the disk reserve', async () => {
    await openOn(8 * mebibyte);
    for (const n of numbers(20))
      await jobs().push(numbers(100).map((m) => jobOf(`${n}.${m}`, { body: Buffer.alloc(1_000, 1) })));
    await fill();
    expect(await push('refused')).toBe('disk_full');
    expect(await health()).toMatchObject({ ok: false });
    for (let round = 0; round < 10; round += 1) {
      const held = await reserve(200);
      const outcomes = await jobs().ack(held.map((job) => ({ ...leaseOf(job), attempt: attemptOf(job) })));
      expect(new Set(outcomes.map((outcome) => outcome.kind))).toEqual(new Set(['acked']));
      expect(freeBytesIn(store.directory)).toBe(0);
    }
    expect(store.dump().jobs.filter((job) => !job.id.startsWith('filling'))).toEqual([]);
  });

  it('settles job by job when the WAL space is too small for a call', async () => {
    await openOn(2 * mebibyte);
    // Long random ids: each job has its own pages.
    const ids = numbers(1_400).map((n) =>
      createHash('sha512').update(String(n)).digest('hex').repeat(2).slice(0, 240),
    );
    for (let n = 0; n < ids.length; n += 100)
      await jobs().push(ids.slice(n, n + 100).map((id) => jobOf(id, { body: Buffer.alloc(10, 1) })));
    const held = (await reserve(ids.length)).sort((a, b) => (a.id < b.id ? -1 : 1)).slice(0, 500);
    await fill();
    const outcomes = await jobs().ack(held.map((job) => ({ ...leaseOf(job), attempt: attemptOf(job) })));
    expect(new Set(outcomes.map((outcome) => outcome.kind))).toEqual(new Set(['acked']));
    expect(store.dump().jobs.filter((job) => !job.id.startsWith('filling')).length).toBe(900);
  });

  it('keeps the outcome of an attempt and drops its record', async () => {
    await openOn(2 * mebibyte);
    await jobs().push(['retried', 'buried'].map((id) => jobOf(id)));
    const held = await reserve(2);
    await fill();
    const [retried, buried] = held.map((job) => ({ ...leaseOf(job), attempt: attemptOf(job) }));
    if (retried === undefined || buried === undefined) throw new Error('not reserved');
    expect(await jobs().retry([{ ...retried, delayMs: 1_000 }])).toEqual([{ kind: 'retried' }]);
    expect(await jobs().bury([{ ...buried, reason: 'gone' }])).toEqual([{ kind: 'buried' }]);
    expect(await jobs().get({ topic: 't', id: 'retried' })).toMatchObject({ failures: 1, attempts: [] });
    expect(await jobs().get({ topic: 't', id: 'buried' })).toMatchObject({ state: 'dead', attempts: [] });
    expect(store.dump().alerts).toMatchObject([{ id: 'buried', attempt: null }]);
  });

  it('releases expired leases without a strike, and those of pulled jobs without an attempt', async () => {
    await openOn(2 * mebibyte);
    await jobs().push(['1', '2'].map((id) => jobOf(id)));
    const [held] = await reserve(1);
    expect((await jobs().reserve(0, request(1, null, pullOwner))).jobs).toHaveLength(1);
    await fill();
    nowMs += (held?.leaseMs ?? 0) + 1;
    expect(await jobs().recover(0, 10)).toEqual({ returned: 2, poisoned: [], more: false });
    for (const id of ['1', '2'])
      expect(await jobs().get({ topic: 't', id })).toMatchObject({
        ...{ state: 'ready', strikes: 0, failures: 0 },
      });
  });

  it.each([
    [
      'expired',
      ({ dead }: Store) => {
        nowMs += 1;
        return dead.expire(0, 500);
      },
    ],
    ['requeued', ({ dead }: Store) => dead.requeue({}, deadLetters)],
    ['purged', ({ dead }: Store) => dead.purge({}, deadLetters)],
    ['cleared with their topic', ({ admin }: Store) => admin.purgeTopic('t', deadLetters)],
  ])('lets dead letters be %s in steps that the WAL has space for', async (_, call) => {
    await openOn(3 * mebibyte);
    const count = deadLetters;
    // Long random ids: each job has its own pages.
    const ids = numbers(count).map((n) =>
      createHash('sha512').update(String(n)).digest('hex').repeat(2).slice(0, 240),
    );
    for (let n = 0; n < count; n += 100)
      await jobs().push(ids.slice(n, n + 100).map((id) => jobOf(id, { body: Buffer.alloc(10, 1) })));
    const { alerts, admin } = store.client.store;
    for (let left = count; left > 0; left -= 100) {
      const held = await reserve(100);
      await jobs().bury(
        held.map((job) => ({ ...leaseOf(job), reason: 'gone' as const, attempt: attemptOf(job) })),
      );
      const owed = await alerts.claim('t', 60_000, 100);
      await alerts.settle(
        owed.map(({ version }) => version),
        'sent',
      );
    }
    await fill();
    // The WAL has no space for all of them in one transaction.
    for (let calls = 1, more = true; more; calls += 1) {
      ({ more } = await call(store.client.store));
      expect(calls).toBeLessThan(100);
    }
    expect((await admin.counts()).topics['t']?.dead ?? 0).toBe(0);
  });

  it('filled by jobs: accepts pushes again into pages that jobs have left', async () => {
    await openOn(4 * mebibyte);
    const stored: string[] = [];
    for (let n = 0; ; n += 1) {
      const outcome = await push(`j${n}`, 10_000);
      if (outcome !== 'stored') {
        expect(outcome).toBe('disk_full');
        break;
      }
      stored.push(`j${n}`);
    }
    fillUp(store.directory);
    for (let n = 0; n < stored.length; n += 50)
      await jobs().cancel(stored.slice(n, n + 50).map((id) => ({ topic: 't', id })));
    // Out of pages: the disk has no more free blocks than before.
    await until('the disk reserve to be restored', hasReserve);
    let again = 0;
    while ((await push(`again${again}`, 10_000)) === 'stored') again += 1;
    expect(again).toBeGreaterThan(stored.length - 20);
    expect(freeBytesIn(store.directory)).toBeLessThan(100_000);
  });

  it('accepts pushes again when the disk reserve is restored', async () => {
    await openOn(2 * mebibyte);
    await fill();
    expect(await push('refused')).toBe('disk_full');
    rmSync(join(store.directory, 'filler'));
    await until('the disk reserve to be restored', hasReserve);
    expect(await push('taken')).toBe('stored');
    expect(await health()).toMatchObject({ ok: true, warnings: [] });
  });

  it('a nearly full disk: the file grows only by its pages', async () => {
    await openOn(8 * mebibyte);
    const path = join(store.directory, 'jobs.db');
    const pages = () => store.owner.inspect((db) => Number(pragma(db, 'page_count')));
    await push('first', 20_000);
    expect(statSync(path).size).toBeGreaterThan(pages() * 4_096);
    writeFileSync(join(store.directory, 'filler'), Buffer.alloc(freeBytesIn(store.directory) - mebibyte / 2));
    const before = statSync(path).size;
    for (let n = 0; pages() * 4_096 <= before; n += 1) expect(await push(`${n}`, 20_000)).toBe('stored');
    expect(statSync(path).size).toBe(pages() * 4_096);
  });

  it('rejects a push that would fill the disk, and accepts the next', async () => {
    await openOn(4 * mebibyte);
    expect(await push('large', 3 * mebibyte)).toBe('disk_full');
    await until('the disk reserve to be restored', hasReserve);
    expect(await push('small')).toBe('stored');
  });
});
