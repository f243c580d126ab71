// Tests changes that reach the journal while their partition may be healed: an instance that was cut off, a
// process that dies in between, and lost replies. Real Redis and MariaDB.
import { createConnection } from 'mysql2/promise';
import { describe, expect, it, onTestFinished } from 'vitest';
import { MysqlJournal } from '../../src/journal/ship/journal-db.ts';
import { Recorder, type RecorderOptions } from '../../src/journal/ship/recorder.ts';
import type { SpoolDirectory } from '../../src/journal/ship/spool-directory.ts';
import type { JournalDb } from '../../src/ports/journal.ts';
import { StoreError } from '../../src/ports/store-error.ts';
import { silentLog } from '../../src/telemetry/log.ts';
import { farOffMs, jobOf } from '../conformance/trial.ts';
import { startAnswerLoser } from '../support/answer-loser.ts';
import { journalDatabase, journalInstance, journalWith } from '../support/journal-instance.ts';
import { lacks, workerMariadb, workerRedis } from '../support/services.ts';
import { changeOf, spoolDirectory, stream, writerIn } from '../support/spool.ts';
import { until } from '../support/until.ts';

const isMissing = (await lacks('redis')) || (await lacks('mysql'));
const away = new StoreError({ kind: 'not_stored', code: 'away' });

describe.skipIf(isMissing)('late changes', async () => {
  const mysql = await workerMariadb();
  const server = await workerRedis();
  let made = 0;
  const database = () => journalDatabase(mysql, `late${made++}`);
  const opened = (parsed: ConstructorParameters<typeof MysqlJournal>[0]) => {
    const journal = new MysqlJournal(parsed);
    onTestFinished(() => journal.close());
    return journal;
  };
  /** Of the whole database. */
  const backupOf = async ({ database: name }: ConstructorParameters<typeof MysqlJournal>[0]) => {
    const tables = ['dq_job', 'dq_job_log', 'dq_journal_stream', 'dq_journal_mark', 'dq_journal'].concat([
      'dq_journal_instance',
      'dq_restore',
    ]);
    const connection = await createConnection({ uri: mysql.url(name) });
    onTestFinished(() => connection.end());
    for (const table of tables) await connection.query(`CREATE TABLE backup_${table} SELECT * FROM ${table}`);
    return {
      async putBack() {
        await connection.beginTransaction();
        for (const table of tables) {
          await connection.query(`DELETE FROM ${table}`);
          await connection.query(`INSERT INTO ${table} SELECT * FROM backup_${table}`);
        }
        await connection.commit();
      },
    };
  };
  const recorderOn = (
    journal: RecorderOptions['journal'],
    spool: SpoolDirectory,
    more: Partial<RecorderOptions> = {},
  ) =>
    new Recorder({
      ...{ journal, spool, instance: stream.instance, host: 'h', log: silentLog, titleOf: () => null },
      ...{ spoolBytes: 2 ** 30, retentionMs: 100 * 365 * 86_400_000, onWentBack: () => {} },
      looker: { report: async () => new Map(), lateOf: () => [], shipped: () => {} },
      ...more,
    });
  const spooled = async () => {
    const spool = spoolDirectory();
    const writer = await writerIn(spool);
    await writer.write([changeOf(101)], 'synced');
    await writer.close();
    return spool;
  };

  it('rows that were read before a loss and a healing are not put after it', async () => {
    await server.ask('FLUSHALL');
    const parsed = await database();
    const one = await journalInstance(server, parsed, 1, { barrierMs: 500, isWhole: true });
    const two = await journalInstance(server, parsed, 2, { barrierMs: 500 });
    const { healing } = one;
    const key = { topic: 't', id: 'overdue' };
    const db: JournalDb = one.journal.db;
    const real = { rows: db.rows.bind(db), put: healing.put.bind(healing) };
    let isRead = false;
    let outcome: string | undefined;
    let goOn = () => {};
    const going = new Promise<void>((resolve) => {
      goOn = resolve;
    });
    Object.assign(healing, { lacks: async (jobs: readonly unknown[]) => jobs.map(() => true) });
    Object.assign(db, {
      rows: async (keys: Parameters<typeof db.rows>[0]) => {
        const rows = await real.rows(keys);
        if (!rows.some(({ id, state }) => id === key.id && state === 'waiting')) return rows;
        isRead = true;
        await going;
        return rows;
      },
    });
    Object.assign(healing, {
      put: async (...args: Parameters<typeof real.put>) => {
        const outcomes = await real.put(...args);
        const at = args[0].findIndex(({ id, state }) => id === key.id && state === 'waiting');
        if (at >= 0) outcome = outcomes[at]?.kind;
        return outcomes;
      },
    });
    await until('both have looked', () => one.looker.hasSeenAll && two.looker.hasSeenAll);
    await two.store.jobs.push([jobOf(key.id, { when: { delayMs: 0 } })]);
    await until('the auditor has read its row', () => isRead);
    await two.store.jobs.cancel([key]);
    await until('its end is in the journal', async () => (await real.rows([key]))[0]?.state === 'cancelled');
    await server.ask('FLUSHALL');
    await until('it is healed', two.isHealed);
    goOn();
    expect(await until('the answer', () => outcome)).toBe('other_note');
    expect(await two.under.store.jobs.get(key)).toBeNull();
  });

  it('MySQL goes back with open work: a job that has ended since is not put back', async () => {
    await server.ask('FLUSHALL');
    const parsed = await database();
    const one = await journalInstance(server, parsed, 1, { barrierMs: 30_000 });
    const { healing } = one;
    const db: JournalDb = one.journal.db;
    const key = { topic: 't', id: 'cancelled' };
    const real = {
      ...{ seen: db.seen.bind(db), ship: db.ship.bind(db), positions: db.positions.bind(db) },
      ...{ claimRestore: db.claimRestore.bind(db), put: healing.put.bind(healing) },
    };
    let isPut = false;
    Object.assign(healing, {
      put: (...args: Parameters<typeof real.put>) => {
        if (args[0].some(({ id, state }) => id === key.id && state === 'waiting')) isPut = true;
        return real.put(...args);
      },
    });
    await until('it has looked', () => one.looker.hasSeenAll);
    await one.store.jobs.push([jobOf(key.id, { when: { delayMs: farOffMs } })]);
    await until('its row', async () => (await db.rows([key]))[0]?.state === 'waiting');
    const backup = await backupOf(parsed);
    await one.store.jobs.cancel([key]);
    await until('its end', async () => (await db.rows([key]))[0]?.state === 'cancelled');
    await server.ask('FLUSHALL');
    await until('it is healed', one.isHealed);
    expect(isPut).toBe(false);
    // MySQL is back, and the restorer is the first to reach it.
    let claims = 0;
    let isLate = true;
    const late =
      <A extends readonly unknown[], R>(call: (...args: A) => Promise<R>) =>
      (...args: A) =>
        isLate ? Promise.reject(away) : call(...args);
    Object.assign(db, {
      ...{ seen: late(real.seen), ship: late(real.ship), positions: late(real.positions) },
      claimRestore: async (...args: Parameters<typeof real.claimRestore>) => {
        claims += 1;
        return real.claimRestore(...args);
      },
    });
    await backup.putBack();
    expect((await db.rows([key]))[0]?.state).toBe('waiting');
    const [place = ''] = one.looker.partitions.keys();
    await db.beginShipped([{ place, lowest: 1, highest: 0 }]);
    const workOf = async () => (await db.restores(1, 'shipped'))[0]?.state;
    let looks = 0;
    const { instances } = db;
    Object.assign(db, {
      instances: async () => {
        looks += 1;
        return instances.call(db);
      },
    });
    await until('the restorer waits, or it has put the job', () => isPut || (claims > 0 && looks > 5));
    isLate = false;
    await until('its work is done', async () => (await workOf()) === 'done');
    expect(isPut).toBe(false);
    expect(await one.under.store.jobs.get(key)).toBeNull();
    expect((await db.rows([key]))[0]?.state).toBe('cancelled');
  });

  it('after a slow start, a healing waits for the spool of its own instance', async () => {
    await server.ask('FLUSHALL');
    const one = await journalInstance(server, await database(), 1, { barrierMs: 30_000 });
    const { healing } = one;
    const db: JournalDb = one.journal.db;
    const real = { seen: db.seen.bind(db), instances: db.instances.bind(db), put: healing.put.bind(healing) };
    const key = { topic: 't', id: 'cancelled' };
    await until('it has looked', () => one.looker.hasSeenAll);
    await one.store.jobs.push([jobOf(key.id, { when: { delayMs: farOffMs } })]);
    await until('its row', async () => (await db.rows([key])).length > 0);
    await one.stop();
    // In the spool only.
    await one.store.jobs.cancel([key]);
    await server.ask('FLUSHALL');
    let looks = 0;
    let isStarting = true;
    let isPut = false;
    Object.assign(db, {
      seen: (self: Parameters<typeof real.seen>[0]) => (isStarting ? Promise.reject(away) : real.seen(self)),
      // It was seen before the crash.
      instances: async () => {
        looks += 1;
        return (await real.instances()).map((each) => ({ ...each, ageMs: isStarting ? 60_000 : each.ageMs }));
      },
    });
    Object.assign(healing, {
      put: (...args: Parameters<typeof real.put>) => {
        if (args[0].some(({ id, state }) => id === key.id && state === 'waiting')) isPut = true;
        return real.put(...args);
      },
    });
    await one.restart();
    await until('the restorer waits, or it has put the job', () => isPut || looks > 5);
    isStarting = false;
    await until('it is healed', one.isHealed);
    expect(isPut).toBe(false);
  });

  it('a lost reply to the removal of a position is not taken for a MySQL that went back', async () => {
    const parsed = await database();
    const spool = await spooled();
    const proxy = await startAnswerLoser(parsed.port, 'DELETE FROM dq_journal_stream', 'answer');
    const [whole, lossy] = [opened(parsed), opened({ ...parsed, port: proxy.port })];
    let calls = 0;
    let wentBack = 0;
    let rounds = 0;
    const journal = journalWith(whole, {
      seen: (self) => whole.seen(self),
      positions: (instance) => {
        rounds += 1;
        return whole.positions(instance);
      },
      forgetStreams: (streams) => {
        calls += 1;
        if (calls === 1) proxy.arm();
        return calls === 1 ? lossy.forgetStreams(streams) : whole.forgetStreams(streams);
      },
    });
    const recorder = recorderOn(journal, spool, {
      spoolBytes: 1_000,
      onWentBack: () => {
        wentBack += 1;
      },
    });
    await recorder.start();
    await until('the positions are asked for again', () => calls > 0 && rounds > 1);
    await until('a whole round', () => recorder.lowestOpen === Number.POSITIVE_INFINITY);
    expect(wentBack).toBe(0);
    await recorder.drain(1_000);
  });

  it('segments with rejected changes leave the spool its space', async () => {
    const journal = opened(await database());
    const spool = spoolDirectory();
    const segmentBytes = 64 * 1024;
    const spoolBytes = 8 * segmentBytes;
    const writer = await writerIn(spool, { bytesMax: spoolBytes, segmentBytes });
    const errors: string[] = [];
    const log = { ...silentLog, error: (message: string) => void errors.push(message) };
    const recorder = recorderOn(journal, spool, { spoolBytes, titleOf: () => 'dq-server-0', log });
    await recorder.start();
    for (let n = 0; n < 12; n += 1) {
      // The writer knows the size of the spool only from its last reading.
      await until(`batch ${n} is admitted`, () => writer.admits(50_000));
      const rejected = { ...changeOf(4 * n + 101, 'accepted', 'x'.repeat(40_000)), topic: 'x'.repeat(200) };
      await writer.write([rejected], 'synced');
      await until('it is left out', () => errors.filter((one) => one.includes('MySQL rejects')).length > n);
      await until(
        'the space of the others',
        async () => (await spool.bytes()) <= spoolBytes / 2 + 2 * segmentBytes,
      );
    }
    await recorder.drain(1_000);
    await writer.close();
    expect((await spool.setAsideCounts()).damaged).toBeGreaterThan(0);
    expect(errors.some((one) => one.includes('removed the oldest segments of damaged/'))).toBe(true);
  });
});
