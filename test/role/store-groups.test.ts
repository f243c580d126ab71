// Tests the owner's transactions: a failure undoes one item, a rejected write is not stored, a full disk
// drains.

import { statSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { limits } from '../../src/core/limits.ts';
import type { PushOutcome } from '../../src/ports/job-store.ts';
import { storeVerbs } from '../../src/ports/store-verbs.ts';
import type { Database } from '../../src/runtime/database.ts';
import { DiskReserve, diskReserveBytesFor } from '../../src/store/sqlite/file/disk-reserve.ts';
import { kinds, protocolMagic, protocolNumber, Writer } from '../../src/store/sqlite/wire/protocol.ts';
import { attemptOf, jobOf, leaseOf, request } from '../conformance/trial.ts';
import { openSqliteStore, ownerPaths, type SqliteStore } from '../support/sqlite-store.ts';
import { until } from '../support/until.ts';

let store: SqliteStore;
const sockets: Socket[] = [];

beforeEach(async () => {
  store = await openSqliteStore({ diskReserveBytes: diskReserveBytesFor(join(tmpdir(), 'jobs.db')) });
});
afterEach(async () => {
  vi.restoreAllMocks();
  for (const socket of sockets.splice(0)) socket.destroy();
  await store.close();
});

const kindsOf = (outcomes: readonly { readonly kind: string }[]) => outcomes.map((outcome) => outcome.kind);
const inStore = (sql: string) =>
  store.owner.inspect((db: Database) => db.prepare(sql).all() as Record<string, unknown>[]);
const jobs = () => store.client.store.jobs;

/** All in one turn, hence in one transaction. */
async function pushTogether(...ids: readonly string[]): Promise<readonly PushOutcome[]> {
  return (await Promise.all(ids.map((id) => jobs().push([jobOf(id)])))).flat();
}

/** Caps the size of the file at its current size, and hides the space of the disk: the owner would use it to
 *  restore its reserve within a second. */
function fillUp(): void {
  vi.spyOn(DiskReserve.prototype, 'fits').mockReturnValue(false);
  store.owner.inspect((db) => {
    const [{ page_count: pages }] = db.prepare('PRAGMA page_count').all() as [{ page_count: number }];
    db.exec(`PRAGMA max_page_count = ${pages}`);
  });
}
function giveRoom(): void {
  vi.restoreAllMocks();
  store.owner.inspect((db) => db.exec('PRAGMA max_page_count = 1000000'));
}

/** Rejects the body of this id, after the row of the job was written. */
function breakBodyOf(id: string): void {
  store.owner.inspect((db) =>
    db.exec(`CREATE TEMP TRIGGER no_body BEFORE INSERT ON main.body WHEN NEW.bytes = x'${Buffer.from(`body of ${id}`).toString('hex')}'
      BEGIN SELECT RAISE(ABORT, 'broken for a test'); END`),
  );
}

describe('a failure inside one request', () => {
  it('undoes only that push, although half written', async () => {
    breakBodyOf('2');
    const outcomes = await pushTogether('1', '2', '3');
    expect(outcomes).toMatchObject([
      { kind: 'stored' },
      { kind: 'not_stored', code: 'store_failed' },
      { kind: 'stored' },
    ]);
    expect(store.dump().jobs.map((job) => job.id)).toEqual(['1', '3']);
    expect((await store.client.store.admin.counts()).topics).toMatchObject({ t: { ready: 2 } });
    expect((await jobs().reserve(0, request(10))).jobs.map((job) => job.id)).toEqual(['1', '3']);
  });

  it('undoes only that item among those of its call', async () => {
    breakBodyOf('2');
    expect(kindsOf(await jobs().push([jobOf('1'), jobOf('2'), jobOf('3')]))).toEqual([
      'stored',
      'not_stored',
      'stored',
    ]);
    expect(store.dump().jobs.map((job) => job.id)).toEqual(['1', '3']);
  });

  it('removes a topic that only the failed push had added', async () => {
    breakBodyOf('2');
    const broken = { ...jobOf('2'), topic: 'new' };
    expect(kindsOf(await jobs().push([broken, jobOf('3')]))).toEqual(['not_stored', 'stored']);
    expect(kindsOf(await jobs().push([{ ...jobOf('4'), topic: 'new' }]))).toEqual(['stored']);
    expect(inStore('SELECT no, name FROM topic ORDER BY no')).toEqual([
      { no: 1, name: 't' },
      { no: 2, name: 'new' },
    ]);
    expect(await jobs().get({ topic: 'new', id: '4' })).toMatchObject({ id: '4', topic: 'new' });
  });

  it('leaves other finishing writes of its group applied', async () => {
    await pushTogether('1', '2');
    const [first, second] = (await jobs().reserve(0, request(2))).jobs;
    if (first === undefined || second === undefined) throw new Error('not reserved');
    const attempt = attemptOf(first);
    const [acked, retried, again] = await Promise.all([
      jobs().ack([{ ...leaseOf(first), attempt }]),
      // An invalid delay: a caller's mistake, detected when it runs.
      jobs().retry([{ ...leaseOf(second), delayMs: 1e300, attempt }]),
      jobs().push([jobOf('3')]),
    ]);
    expect([acked, retried, again].flatMap(kindsOf)).toEqual(['acked', 'not_stored', 'stored']);
    expect(store.dump().jobs.map((job) => [job.id, job.state])).toEqual([
      ['2', 'reserved'],
      ['3', 'ready'],
    ]);
  });
});

describe('a full disk', () => {
  const reserveBytes = () =>
    inStore('SELECT coalesce(sum(length(bytes)), 0) AS n FROM body WHERE n < 0')[0]?.['n'];
  const large = (id: string) => jobOf(id, { body: Buffer.alloc(300_000, 1) });

  it('rejects pushes, finishes jobs, and accepts pushes when space is free', async () => {
    expect(reserveBytes()).toBe(16 * 1024 * 1024);
    await pushTogether('1', '2', '3');
    const held = (await jobs().reserve(0, request(3))).jobs;
    fillUp();
    const [pushed, acked] = await Promise.all([
      jobs().push([large('big')]),
      jobs().ack(held.slice(0, 1).map((job) => ({ ...leaseOf(job), attempt: attemptOf(job) }))),
    ]);
    expect(pushed).toEqual([{ kind: 'not_stored', code: 'disk_full' }]);
    expect(acked).toEqual([{ kind: 'acked' }]);
    expect(reserveBytes()).toBe(0);
    // Without a whole disk reserve a push that would fit is rejected too: the space is for finishing writes.
    expect(await jobs().push([jobOf('small')])).toEqual([{ kind: 'not_stored', code: 'disk_full' }]);
    expect(await store.client.store.admin.health()).toMatchObject({
      ok: false,
      warnings: [expect.stringContaining('disk is full')],
    });
    const rest = held.slice(1).map((job) => ({ ...leaseOf(job), attempt: attemptOf(job) }));
    expect(kindsOf(await jobs().ack(rest))).toEqual(['acked', 'acked']);
    expect(store.dump().jobs).toEqual([]);
    giveRoom();
    await until('the disk reserve to be restored', () => reserveBytes() === 16 * 1024 * 1024);
    await until('pushes to be stored', async () => (await jobs().push([large('big')]))[0]?.kind === 'stored');
    expect(await store.client.store.admin.health()).toMatchObject({ ok: true, warnings: [] });
    expect(inStore('PRAGMA integrity_check')).toEqual([{ integrity_check: 'ok' }]);
  });
});

describe('the socket', () => {
  /** Sends foreign bytes; returns whether the owner ends the connection. */
  function stranger(): { socket: Socket; ended: Promise<void>; received: () => number } {
    const socket = connect(ownerPaths(store.directory).socketPath);
    sockets.push(socket);
    let received = 0;
    socket.on('data', (chunk) => {
      received += chunk.length;
    });
    socket.on('error', () => {});
    return {
      socket,
      ended: new Promise((resolve) => socket.on('close', () => resolve())),
      received: () => received,
    };
  }
  const hello = (protocol: number = protocolNumber) => {
    const w = new Writer();
    w.begin(1, kinds.hello).u32(protocolMagic).u32(protocol).text('stranger').end();
    return w;
  };

  it('is private to its user', () => {
    expect(statSync(ownerPaths(store.directory).socketPath).mode & 0o777).toBe(0o600);
  });

  it.each<[string, () => Buffer]>([
    ['another protocol', () => hello(protocolNumber + 1).done()],
    [
      'a request before hello',
      () => {
        const w = new Writer();
        w.begin(1, storeVerbs['admin.counts'].frame).json([]).end();
        return w.done();
      },
    ],
    ['noise', () => Buffer.from('GET / HTTP/1.1\r\nhost: x\r\n\r\n')],
    [
      'an unknown kind after hello',
      () => {
        const w = hello();
        w.begin(2, 99).end();
        return w.done();
      },
    ],
    [
      'a frame longer than any',
      () => {
        const w = hello();
        w.u32(limits.frameBytesMax + 1);
        return w.done();
      },
    ],
  ])('ends the connection of %s and serves the others', async (_, bytesOf) => {
    const { socket, ended } = stranger();
    socket.write(bytesOf());
    await ended;
    expect(kindsOf(await jobs().push([jobOf('1')]))).toEqual(['stored']);
  });

  it('closes the connection of a client that does not read', async () => {
    await jobs().push([jobOf('1', { body: Buffer.alloc(4_000_000, 1) })]);
    const { socket, ended } = stranger();
    socket.pause();
    const w = hello();
    for (let n = 0; n < 40; n += 1)
      w.begin(n + 2, storeVerbs['jobs.get'].frame)
        .text('t')
        .text('1')
        .end();
    socket.write(w.done());
    // The test reads nothing, so only the other side can close the connection.
    await until('the owner to give it up', async () => {
      await jobs().get({ topic: 't', id: 'nothing' });
      return store.owner.clients === 1;
    });
    socket.resume();
    await ended;
    expect(kindsOf(await jobs().push([jobOf('2')]))).toEqual(['stored']);
  });
});
