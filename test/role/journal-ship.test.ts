// Shipping the spool of a daemon that will not start again, on a real Redis and MariaDB.

import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { journaled } from '../../src/journal/record/journaled-store.ts';
import { MysqlJournal } from '../../src/journal/ship/journal-db.ts';
import { shipLate, shipSpool } from '../../src/journal/ship/ship-spool.ts';
import { SpoolDirectory } from '../../src/journal/ship/spool-directory.ts';
import { silentLog } from '../../src/telemetry/log.ts';
import { farOffMs, jobOf } from '../conformance/trial.ts';
import { journalDatabase, journalInstance } from '../support/journal-instance.ts';
import { openOn } from '../support/redis-store.ts';
import { lacks, workerMariadb, workerRedis } from '../support/services.ts';
import { spoolDirectory, writerIn } from '../support/spool.ts';
import { until } from '../support/until.ts';

describe.skipIf((await lacks('redis')) || (await lacks('mysql')))('spool of a dead daemon', async () => {
  const mysql = await workerMariadb();
  const server = await workerRedis();
  let made = 0;

  /** A living instance that has healed an emptied Redis, and the spool of a dead one with a lost job. */
  async function afterLoss() {
    await server.ask('FLUSHALL');
    const login = await journalDatabase(mysql, `ship${made++}`);
    const living = await journalInstance(server, login, 1);
    const dead = await openOn(server, { writer: '9.1' });
    const spool = spoolDirectory();
    const writer = await writerIn(spool, { stream: { instance: 9, incarnation: 1 } });
    const store = journaled(dead.store, writer);
    const delayed = { when: { delayMs: farOffMs } } as const;
    await store.jobs.push([jobOf('lost', delayed), jobOf('cancelled', delayed)]);
    await store.jobs.cancel([{ topic: 't', id: 'cancelled' }]);
    await living.store.jobs.push([jobOf('other', delayed)]);
    await dead.close();
    await writer.close();
    await until('the other job is shipped', async () => living.recorder.state.lagMs === 0);
    await living.under.raw.flushall();
    await until('the healing', living.isHealed);
    const journal = new MysqlJournal(login);
    onTestFinished(async () => {
      await spool.close();
      await journal.close();
    });
    const read = (id: string) => living.under.store.jobs.get({ topic: 't', id });
    expect(await read('lost')).toBeNull();
    return { journal, spool, read, living };
  }

  /** Begin and end of the work on the changes of the dead instance; null: it is at work. The other one may
   *  have some too: it had not looked at the store when it shipped its first changes. */
  const done = async (journal: MysqlJournal) => {
    const shipped = await journal.restores(10, 'shipped');
    const work = shipped.find(({ note }) => note > 0);
    return work?.state === 'done' ? work : null;
  };

  it('its jobs come back, although Redis was healed before', async () => {
    const { journal, spool, read } = await afterLoss();
    const ship = () => shipSpool({ journal, spool, host: 'h', log: silentLog, retentionMs: 7 * 86_400_000 });
    expect(await ship()).toEqual({ streams: 1, segments: 1, changes: 3 });
    await until('the job', async () => (await read('lost')) !== null);
    const work = await until('the work is done', () => done(journal));
    expect(await read('cancelled')).toBeNull();
    // The files stay, and a repeat ships nothing, but has all compared again.
    expect(await ship()).toEqual({ streams: 1, segments: 1, changes: 0 });
    const again = await until('and the new work', () => done(journal));
    expect(again.begunAt).toBeGreaterThanOrEqual(work.endedAt ?? Number.POSITIVE_INFINITY);
  });

  it('late segments are shipped and removed, and the position of their stream stays', async () => {
    const { journal, spool, read } = await afterLoss();
    const [stream] = await spool.streams();
    for (const segment of stream?.segments ?? []) await spool.setAside(segment);
    const here = { segment: 5, offset: 32 };
    await journal.ship({
      ...{ instance: 9, incarnation: 1, from: { segment: 0, offset: 0 }, next: here, changes: [] },
      ...{ process: 'dq-server-0', host: 'h', marks: new Map() },
    });
    const late = new SpoolDirectory(spool.path, 'late');
    expect(await shipLate({ journal, spool: late, host: 'h' })).toMatchObject({ segments: 1, changes: 3 });
    await until('the job', async () => (await read('lost')) !== null);
    expect(await journal.positions(9)).toEqual([{ instance: 9, incarnation: 1, ...here }]);
    expect(readdirSync(join(spool.path, 'late'))).toEqual([]);
  });
});
