// The recorder: from the files of a spool to a real MariaDB.

import { readdirSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { type Change, type JobRow, rowsOf } from '../../src/core/job-change.ts';
import type { MysqlServer } from '../../src/core/url/server-url.ts';
import { MysqlJournal } from '../../src/journal/ship/journal-db.ts';
import { Recorder, type RecorderOptions } from '../../src/journal/ship/recorder.ts';
import type { SpoolDirectory } from '../../src/journal/ship/spool-directory.ts';
import { allBarriers } from '../../src/ports/journal.ts';
import { silentLog } from '../../src/telemetry/log.ts';
import { startAnswerLoser } from '../support/answer-loser.ts';
import { askMysql, journalDatabase, journalWith } from '../support/journal-instance.ts';
import { lacks, workerMariadb } from '../support/services.ts';
import { changeKinds, changeOf, spoolDirectory, stream, writerIn } from '../support/spool.ts';
import { until } from '../support/until.ts';

const dayMs = 86_400_000;
type WriterOptions = Parameters<typeof writerIn>[1];
/** changeOf() makes numbers of 1970. */
const everMs = 100 * 365 * dayMs;

describe.skipIf(await lacks('mysql'))('recorder', async () => {
  const server = await workerMariadb();
  let database = '';
  let made = 0;
  const ask = (sql: string) => askMysql(server.url(database), sql);
  let login: MysqlServer;
  const journalOn = (port = login.port): MysqlJournal => {
    const journal = new MysqlJournal({ ...login, port });
    onTestFinished(() => journal.close());
    return journal;
  };
  beforeEach(async () => {
    database = `recorder${made++}`;
    login = await journalDatabase(server, database);
  });

  /** A writer that has written these changes, and ends with the test. */
  async function writing(spool: SpoolDirectory, written: readonly Change[], more: WriterOptions = {}) {
    const writer = await writerIn(spool, more);
    onTestFinished(() => writer.close());
    await writer.write(written, 'synced');
    return writer;
  }

  async function spooled(written: readonly Change[], more?: WriterOptions) {
    const spool = spoolDirectory();
    return { spool, writer: await writing(spool, written, more) };
  }

  async function recording(
    spool: SpoolDirectory,
    more: Partial<RecorderOptions> = {},
  ): Promise<{ recorder: Recorder; errors: string[]; wentBack: () => number }> {
    const errors: string[] = [];
    let wentBack = 0;
    const recorder = new Recorder({
      ...{ journal: journalOn(), spool, instance: stream.instance, host: 'h' },
      log: { ...silentLog, error: (message) => void errors.push(message) },
      ...{ spoolBytes: 2 ** 30, retentionMs: everMs, titleOf: () => 'dq-server-0' },
      looker: { report: async () => new Map(), lateOf: () => [], shipped: () => {} },
      onWentBack: () => {
        wentBack += 1;
      },
      ...more,
    });
    onTestFinished(async () => {
      await recorder.drain(1_000);
      await spool.close();
    });
    await recorder.start();
    return { recorder, errors, wentBack: () => wentBack };
  }

  /** as a job that was changed so long ago */
  const changesFrom = (agoMs: number, from = 0) =>
    changes.slice(from, from + 10).map((change) => ({
      ...change,
      isOwn: true,
      number: (Date.now() - agoMs) * 1_000 + change.number,
    }));
  const changes = Array.from({ length: 2_600 }, (_, n) =>
    changeOf(n + 1, changeKinds[n % changeKinds.length]),
  );
  const expected: readonly JobRow[] = [...rowsOf(changes).values()];
  const count = async () => Number((await ask('SELECT COUNT(*) AS n FROM dq_job'))[0]?.n);
  const isAll = async () => (await count()) === expected.length;

  it('ships all changes of a living process, and those that follow', async () => {
    const { spool, writer } = await spooled(changes.slice(0, 2_500));
    const { recorder } = await recording(spool);
    await until('the first changes', async () => (await count()) === 2_500);
    await writer.write(changes.slice(2_500), 'synced');
    await until('the others', isAll);
    const rows = await journalOn().rows(expected);
    const byId = (some: readonly JobRow[]) => [...some].sort((a, b) => (a.id < b.id ? -1 : 1));
    expect(byId(rows)).toEqual(byId(expected));
    await until('no lag', () => recorder.state.lagMs === 0);
  });

  it('an instance that ends: says so only when all of its streams are shipped', async () => {
    // Of a process that was killed: it has no end. Two batches, and a later process without a change.
    const { spool } = await spooled(changes.slice(0, 2_500), { segmentBytes: 2 ** 20 });
    const own = { ...stream, incarnation: stream.incarnation + 1 };
    await writing(spool, changes.slice(2_500), { stream: own });
    const journal = journalOn();
    const seen: number[] = [];
    const recorder = new Recorder({
      journal: journalWith(journal, {
        seen: async (self) => {
          if (self.barrier === allBarriers) seen.push(await count());
          return journal.seen(self);
        },
      }),
      ...{ spool, instance: stream.instance, host: 'h', log: silentLog },
      ...{ spoolBytes: 2 ** 30, retentionMs: everMs, titleOf: () => '' },
      looker: { report: async () => new Map(), lateOf: () => [], shipped: () => {} },
      onWentBack: () => {},
    });
    await recorder.sayEnded(own.incarnation, 60_000);
    expect(seen).toEqual([expected.length]);
    expect(await journal.instances()).toMatchObject([{ barrier: allBarriers }]);
    await spool.close();
  });

  it('ships what a dead process left, then removes files and position', async () => {
    const spool = spoolDirectory();
    const writer = await writerIn(spool, { segmentBytes: 64 * 1024 });
    for (let n = 0; n < changes.length; n += 100) await writer.write(changes.slice(n, n + 100), 'synced');
    await writer.close();
    // So much shipped is kept only while it is less than a quarter of the limit.
    await recording(spool, { spoolBytes: 1_000, titleOf: () => null });
    await until('all rows', isAll);
    await until('no file', async () => (await spool.streams()).length === 0);
    await until('no position', async () => (await ask('SELECT * FROM dq_journal_stream')).length === 0);
  });

  it('MySQL is gone: the lag grows, nothing is lost, and it goes on', async () => {
    const { spool, writer } = await spooled(changes.slice(0, 100));
    const { recorder, errors } = await recording(spool);
    await until('the first changes', async () => (await count()) === 100);
    await server.process.kill();
    await writer.write(changes.slice(100), 'synced');
    await until('the lag', () => recorder.state.lagMs > 0);
    // A line for each reason: the connection is lost, then refused.
    expect([...new Set(errors)]).toEqual(['recorder: cannot ship the journal; the spool keeps it']);
    expect(errors.length).toBeLessThanOrEqual(2);
    await server.process.start();
    await until('all rows', isAll);
    await until('no lag', () => recorder.state.lagMs === 0);
  });

  it.each(['answer', 'request'] as const)('COMMIT, %s lost: goes on where MySQL is', async (lost) => {
    const { spool, writer } = await spooled(changes.slice(0, 10));
    const proxy = await startAnswerLoser(login.port, '\x03COMMIT', lost);
    const lossy = journalOn(proxy.port);
    const whole = journalOn();
    let losses = 0;
    // Each third batch goes through the proxy.
    const journal = journalWith(whole, {
      ship: (batch) => {
        losses += 1;
        if (losses % 3 !== 0) return whole.ship(batch);
        proxy.arm();
        return lossy.ship(batch);
      },
    });
    const { wentBack } = await recording(spool, { journal });
    for (let n = 10; n < changes.length; n += 500) {
      await writer.write(changes.slice(n, n + 500), 'synced');
      await until('a batch', async () => (await count()) > n);
    }
    await until('all rows', isAll);
    expect(losses).toBeGreaterThan(3);
    expect(wentBack()).toBe(0);
  });

  it('ends that a process could not record: raises since once, also when the recorder died meanwhile', async () => {
    const spool = spoolDirectory();
    const journal = journalOn();
    const before = Date.now();
    await spool.noteDropped();
    const first = await recording(spool);
    await until('since is raised', async () => (await journal.since()) >= before);
    await until('the mark is gone', async () => !(await spool.takeDropped()));
    expect(first.errors).toEqual([expect.stringContaining('ends of jobs were not recorded')]);
    await first.recorder.drain(1_000);
    const since = await journal.since();
    // Taken, and not yet written to MySQL.
    await spool.noteDropped();
    expect(await spool.takeDropped()).toBe(true);
    await recording(spool);
    await until('since is raised again', async () => (await journal.since()) > since);
  });

  it('MySQL went back: ships again from there, and reports it', async () => {
    const { spool, writer } = await spooled(changes.slice(0, 2_000));
    const { wentBack } = await recording(spool);
    await until('the first changes', async () => (await count()) === 2_000);
    for (const table of ['dq_job', 'dq_job_log', 'dq_journal_stream']) await ask(`DELETE FROM ${table}`);
    await writer.write(changes.slice(2_000), 'synced');
    await until('all rows', isAll);
    expect(wentBack()).toBe(1);
  });

  it('MySQL went back and nothing follows: a barrier is reached only when all is shipped again', async () => {
    const { spool } = await spooled(changes.slice(0, 2_000));
    const { wentBack } = await recording(spool);
    const journal = journalOn();
    const reached = async () => (await journal.instances())[0]?.barrier ?? 0;
    const first = await journal.raiseBarrier();
    await until('the barrier', async () => (await reached()) >= first);
    expect(await count()).toBe(2_000);
    for (const table of ['dq_job', 'dq_job_log', 'dq_journal_stream', 'dq_journal_instance'])
      await ask(`DELETE FROM ${table}`);
    await ask('UPDATE dq_journal SET barrier = 0');
    const second = await journal.raiseBarrier();
    await until('the next barrier', async () => (await reached()) >= second);
    expect(await count()).toBe(2_000);
    expect(wentBack()).toBe(1);
  });

  it('a new process: notices that MySQL went back before, once', async () => {
    const { spool, writer } = await spooled(changes.slice(0, 10));
    await writer.close();
    const run = async () => {
      const { recorder, wentBack } = await recording(spool, { spoolBytes: 1_000, titleOf: () => null });
      await until('the spool is shipped', () => recorder.lowestOpen === Number.POSITIVE_INFINITY);
      await until('the number is noted', async () => (await spool.shippedNumber()) === 10);
      await recorder.drain(1_000);
      return wentBack();
    };
    expect(await run()).toBe(0);
    await until('no file is left', async () => (await spool.streams()).length === 0);
    expect(await run()).toBe(0);
    for (const table of ['dq_job', 'dq_job_log', 'dq_journal_stream', 'dq_journal_instance'])
      await ask(`DELETE FROM ${table}`);
    expect(await run()).toBe(1);
    expect(await run()).toBe(0);
  });

  it('a change that MySQL rejects: all others are shipped, and its segment is kept', async () => {
    const spool = spoolDirectory();
    const dead = await writerIn(spool);
    const bad = { ...changeOf(30, 'ended'), topic: 'x'.repeat(200) };
    await dead.write([...changes.slice(0, 20), bad, ...changes.slice(20, 28)], 'synced');
    await dead.close();
    const living = { ...stream, incarnation: stream.incarnation + 1 };
    await writing(spool, changes.slice(30, 40), { stream: living });
    const titleOf = (incarnation: number) => (incarnation === living.incarnation ? 'dq-server-0' : null);
    const before = Date.now();
    const { recorder, errors } = await recording(spool, { titleOf });
    await until('the others', async () => (await count()) === 38);
    await until('no lag', () => recorder.state.lagMs === 0);
    expect(errors).toEqual(['recorder: MySQL rejects changes; they are left out, and damaged/ keeps them']);
    expect((await spool.setAsideCounts()).damaged).toBe(1);
    // A job whose end is left out may look open.
    expect(await journalOn().since()).toBeGreaterThanOrEqual(before);
  });

  it('a body above the packet of MySQL: all others are shipped', async () => {
    const { spool, writer } = await spooled([]);
    const large = ['large', 'larger'].map((id, n) => ({
      ...changeOf(4 * n + 101, 'accepted', 'x'.repeat(1_100_000)),
      id,
    }));
    const [packet] = await ask('SELECT @@GLOBAL.max_allowed_packet AS bytes');
    await ask('SET GLOBAL max_allowed_packet = 1048576');
    onTestFinished(async () => void (await ask(`SET GLOBAL max_allowed_packet = ${packet?.bytes}`)));
    await writer.write([...changes.slice(0, 10), ...large, ...changes.slice(10, 20)], 'synced');
    const { recorder, errors } = await recording(spool);
    await until('the others', async () => (await count()) === 20);
    await until('no lag', () => recorder.state.lagMs === 0);
    expect([...new Set(errors)]).toEqual([
      'recorder: MySQL rejects changes; they are left out, and damaged/ keeps them',
    ]);
  });

  it('a file that cannot be read: other streams are shipped', async () => {
    const { spool, writer: dead } = await spooled(changes.slice(0, 10));
    await dead.close();
    const living = { ...stream, incarnation: stream.incarnation + 1 };
    await writing(spool, changes.slice(10, 2_600), { stream: living });
    const read = spool.read.bind(spool);
    let isBroken = true;
    const reading: typeof spool.read = async (from, ...more) => {
      if (isBroken && from.incarnation === stream.incarnation) throw new Error('EIO');
      return read(from, ...more);
    };
    Object.assign(spool, { read: reading });
    const { recorder, errors } = await recording(spool);
    await until('the others', async () => (await count()) === 2_590);
    expect(recorder.state.lagMs).toBeGreaterThan(0);
    expect(errors).toEqual(['recorder: cannot ship the journal; the spool keeps it']);
    isBroken = false;
    await until('all', async () => (await count()) === 2_600);
  });

  it('a segment from before the retention is set aside, not merged; later ones are', async () => {
    const { spool, writer } = await spooled(changesFrom(6.5 * dayMs), { segmentBytes: 4_096 });
    const old = (await spool.streams())[0]?.segments.length ?? 0;
    await writer.write(
      changesFrom(0, 10).map((change) => ({ ...change, topic: 'x'.repeat(120) })),
      'synced',
    );
    await writer.close();
    const files = (await spool.streams())[0]?.segments.length ?? 0;
    expect([old, files > old]).toEqual([old, true]);
    const { errors } = await recording(spool, { titleOf: () => null, retentionMs: 7 * dayMs });
    await until('the later changes', async () => (await count()) === 10);
    expect(errors).toEqual(['recorder: a segment of the spool is too old to be merged; it is kept in late/']);
    expect(readdirSync(join(spool.path, 'late'))).toHaveLength(1);
  });

  it('a clock that was wrong at boot: segments with an old date are merged', async () => {
    const { spool, writer } = await spooled(changesFrom(0));
    await writer.close();
    const [name = ''] = readdirSync(spool.path);
    utimesSync(join(spool.path, name), 60, 60);
    await recording(spool, { titleOf: () => null, retentionMs: 7 * dayMs });
    await until('the changes', async () => (await count()) === 10);
    expect((await spool.setAsideCounts()).late).toBe(0);
  });

  it('an idle process: its old segment stays, also with the shortest retention', async () => {
    const { spool, writer } = await spooled(changesFrom(6.5 * dayMs));
    await recording(spool, { retentionMs: dayMs });
    await until('the first changes', async () => (await count()) === 10);
    await writer.write(changesFrom(0, 10), 'synced');
    await until('the others', async () => (await count()) === 20);
    expect((await spool.setAsideCounts()).late).toBe(0);
  });

  it('the shortest retention: merges what a dead process wrote just now', async () => {
    const { spool, writer } = await spooled(changesFrom(0));
    await writer.close();
    await recording(spool, { retentionMs: dayMs, titleOf: () => null });
    await until('the changes', async () => (await count()) === 10);
  });

  it('MySQL went back before the last batch of a stream: ships all of it again', async () => {
    const { spool, writer } = await spooled(changes.slice(0, 10));
    let isOpen = true;
    const streams = spool.streams.bind(spool);
    Object.assign(spool, { streams: async () => (isOpen ? streams() : []) });
    await recording(spool);
    await until('the first changes', async () => (await count()) === 10);
    isOpen = false;
    for (const table of ['dq_job', 'dq_job_log', 'dq_journal_stream']) await ask(`DELETE FROM ${table}`);
    await writer.write(changes.slice(10, 20), 'synced');
    await writer.close();
    isOpen = true;
    await until('all changes', async () => (await count()) === 20);
  });

  it('MySQL went back: ships ended streams again as soon as another stream shows it', async () => {
    const spool = spoolDirectory();
    const dead = await writing(spool, changes.slice(0, 10));
    await dead.close();
    const living = { ...stream, incarnation: stream.incarnation + 1 };
    const writer = await writing(spool, changes.slice(10, 20), { stream: living });
    const titleOf = (incarnation: number) => (incarnation === living.incarnation ? 'dq-server-0' : null);
    const { wentBack } = await recording(spool, { titleOf });
    await until('the first changes', async () => (await count()) === 20);
    for (const table of ['dq_job', 'dq_job_log', 'dq_journal_stream']) await ask(`DELETE FROM ${table}`);
    await writer.write(changes.slice(20, 30), 'synced');
    await until('all changes', async () => (await count()) === 30);
    expect(wentBack()).toBe(1);
  });

  it('MySQL went back while it was unavailable: ships again from there, and reports it once', async () => {
    const { spool, writer } = await spooled(changes.slice(0, 10));
    const whole = journalOn();
    let isUnavailable = false;
    const journal = journalWith(whole, {
      seen: (self) => whole.seen(self),
      ship: async (batch) => {
        if (!isUnavailable) return whole.ship(batch);
        isUnavailable = false;
        for (const table of ['dq_job', 'dq_job_log', 'dq_journal_stream']) await ask(`DELETE FROM ${table}`);
        throw new Error('unavailable');
      },
    });
    const { wentBack } = await recording(spool, { journal });
    await until('the first changes', async () => (await count()) === 10);
    isUnavailable = true;
    await writer.write(changes.slice(10, 20), 'synced');
    await until('all changes', async () => (await count()) === 20);
    expect(wentBack()).toBe(1);
  });
});
