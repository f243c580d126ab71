// fsck of the journal on a real Redis and MariaDB: each invariant is found broken, and nothing else.

import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { type Change, isEnded } from '../../src/core/job-change.ts';
import { examineJournal } from '../../src/journal/heal/journal-fsck.ts';
import { MysqlJournal } from '../../src/journal/ship/journal-db.ts';
import { farOffMs, jobOf } from '../conformance/trial.ts';
import { askMysql, journalDatabase, journalInstance } from '../support/journal-instance.ts';
import { lacks, workerMariadb, workerRedis } from '../support/services.ts';
import { changeOf, spoolDirectory, writerIn } from '../support/spool.ts';
import { until } from '../support/until.ts';

describe.skipIf((await lacks('redis')) || (await lacks('mysql')))('fsck of the journal', async () => {
  const mysql = await workerMariadb();
  const server = await workerRedis();
  let made = 0;

  const delayed = { when: { delayMs: farOffMs } } as const;

  async function world() {
    await server.ask('FLUSHALL');
    const database = `fsck${made++}`;
    const login = await journalDatabase(mysql, database);
    const one = await journalInstance(server, login, 1);
    const [first] = await one.store.jobs.push([
      jobOf('a', delayed),
      jobOf('b', delayed),
      jobOf('c', delayed),
    ]);
    await one.store.jobs.cancel([{ topic: 't', id: 'c' }]);
    const journal = new MysqlJournal(login);
    onTestFinished(() => journal.close());
    const { healing } = one;
    const { place } = await healing.marks(0);
    /** of an instance that is not here */
    const ship = (changes: readonly Change[], marks = new Map<string, number>()) =>
      journal.ship({
        ...{ instance: 5, incarnation: 1, process: 'dq-server-0', host: 'far', changes, marks },
        ...{ from: { segment: 0, offset: 0 }, next: { segment: 1, offset: 40 } },
      });
    const change = (id: string, kind: 'accepted' | 'ended', number: number): Change => ({
      ...(changeOf(2, kind) as Change),
      ...{ topic: 't', id, place, number, version: number, origin: number, dueAt: Date.now() + farOffMs },
    });
    const examine = (spool = one.spool) => examineJournal({ store: one.store, healing, journal, spool });
    return { one, first, place, journal, database, ship, change, examine };
  }

  const now = () => Date.now() * 1_000;

  it('finds nothing where all agrees, also before the journal is in MySQL', async () => {
    const { one, examine } = await world();
    await one.store.jobs.push(Array.from({ length: 600 }, (_, n) => jobOf(`job-${n}`, delayed)));
    expect(await examine()).toEqual([]);
  });

  it('J1: a live job without an open row of its version', async () => {
    const { one, examine } = await world();
    await one.under.store.jobs.push([jobOf('unwritten', delayed), jobOf('b', delayed)]);
    expect(await examine()).toMatchObject([{ invariant: 'J1', count: 2 }]);
  });

  it('J2: an old open row without a job', async () => {
    const { ship, change, examine } = await world();
    const old = now() - 120e6;
    await ship([change('lost', 'accepted', old), change('new', 'accepted', now())]);
    expect(await examine()).toMatchObject([{ invariant: 'J2', count: 1, examples: ['t/lost'] }]);
  });

  it('J1 and J2 name an instance without a sign that has not shipped all, until it is given up', async () => {
    const { one, journal, database, ship, change, examine } = await world();
    await ship([change('lost', 'accepted', now() - 120e6)]);
    // It died with changes in its spool: this job is one of them.
    await one.under.store.jobs.push([jobOf('spooled', delayed)]);
    await journal.seen({ instance: 9, host: 'far', barrier: 0, highest: 1, spoolBytes: 400 });
    await askMysql(
      mysql.url(database),
      'UPDATE dq_journal_instance SET seen_at = seen_at - 3600000 WHERE instance = 9',
    );
    expect(await examine()).toMatchObject([
      { invariant: 'J1', count: 1, examples: ['t/spooled'], awaits: ['instance 9 on far'] },
      { invariant: 'J2', count: 1, examples: ['t/lost'], awaits: ['instance 9 on far'] },
    ]);
    await journal.giveUp(0, 9);
    for (const problem of await examine()) expect(problem).not.toHaveProperty('awaits');
  });

  it('J3: a live job that has ended by the journal', async () => {
    const { journal, ship, change, examine } = await world();
    // What it ships before it has looked at the store is compared with the store, which would remove the job.
    const ended = async () => (await journal.rows([{ topic: 't', id: 'c' }], false)).some(isEnded);
    await until('the last change is shipped', ended);
    await until('all are compared', async () =>
      (await journal.restores(10, 'shipped')).every(({ state }) => state === 'done'),
    );
    await ship([change('a', 'ended', now() + 5e6)]);
    expect(await examine()).toMatchObject([{ invariant: 'J3', count: 1, examples: ['t/a'] }]);
  });

  it('J4: a segment that cannot be read to its end, but not a torn end', async () => {
    const { examine } = await world();
    const spool = spoolDirectory();
    const writer = await writerIn(spool);
    for (let n = 1; n < 10; n += 1) await writer.write([changeOf(n)], 'synced');
    const [name = ''] = readdirSync(spool.path).sort();
    const path = join(spool.path, name);
    const whole = readFileSync(path);
    expect(await examine(spool)).toEqual([]);
    const end = whole.length - [...whole].reverse().findIndex((byte) => byte !== 0);
    const spoil = (at: number) => {
      const bytes = Buffer.from(whole);
      bytes.writeUInt8(bytes.readUInt8(at) ^ 0xff, at);
      writeFileSync(path, bytes);
    };
    spoil(end - 1);
    expect(await examine(spool)).toEqual([]);
    spoil(200);
    expect(await examine(spool)).toMatchObject([{ invariant: 'J4', count: 1, examples: [name] }]);
    expect(readdirSync(spool.path)).not.toContain('damaged');
    writeFileSync(path, whole);
    await writer.close();
  });

  it('J5: a number in Redis below that of MySQL', async () => {
    const { place, ship, examine } = await world();
    await ship([], new Map([[place, now()]]));
    expect(await examine()).toMatchObject([
      { invariant: 'J5', count: 1, examples: [`${place} of instance 5`] },
    ]);
  });
});
