// The audit and the survey of the journal, on a real Redis and MariaDB; the agents of dq-upkeep run in this
// process.

import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import type { RedisServer } from '../../scripts/services/redis.ts';
import { openWithoutJournal } from '../../src/compose/journal.ts';
import type { Config } from '../../src/config/options.ts';
import { extensionOf } from '../../src/core/extension.ts';
import type { JobRow } from '../../src/core/job-change.ts';
import { MysqlJournal } from '../../src/journal/ship/journal-db.ts';
import { Resources } from '../../src/runtime/service.ts';
import { silentLog } from '../../src/telemetry/log.ts';
import type { DumpedJob } from '../conformance/store-under-test.ts';
import { farOffMs, jobOf, Trial } from '../conformance/trial.ts';
import {
  askMysql,
  type JournalInstance,
  journalDatabase,
  journalInstance,
} from '../support/journal-instance.ts';
import { openEmpty } from '../support/redis-store.ts';
import { lacks, workerMariadb, workerRedis } from '../support/services.ts';
import { until } from '../support/until.ts';

const records = '{dq:0}:j';
const job = (id: string, topic = 't') => ({ topic, id });

describe.skipIf((await lacks('redis')) || (await lacks('mysql')))('journal, audit and survey', async () => {
  const mysql = await workerMariadb();
  let server: RedisServer;
  let made = 0;
  let database = '';
  beforeAll(async () => {
    server = await workerRedis();
  });

  async function opened() {
    database = `audit${made++}`;
    const url = await journalDatabase(mysql, database);
    const journal = new MysqlJournal(url);
    onTestFinished(() => journal.close());
    const instance = (no: number) => journalInstance(server, url, no, { isWhole: true });
    return { journal, instance };
  }

  const inMysql = (...statements: readonly string[]) => askMysql(mysql.url(database), ...statements);

  /** Pushes, and waits for the rows. */
  async function pushed({ store }: JournalInstance, journal: MysqlJournal, ...ids: readonly string[]) {
    const outcomes = await store.jobs.push(ids.map((id) => jobOf(id)));
    expect(outcomes.map(({ kind }) => kind)).toEqual(ids.map(() => 'stored'));
    await until('the rows', async () => (await journal.rows(ids.map((id) => job(id)))).length === ids.length);
  }

  const reserved = async ({ store }: Pick<JournalInstance, 'store'>, max: number) => {
    const others = { room: max, leaseMs: 60_000 };
    const owner = { instance: 3, incarnation: 3 };
    return (await store.jobs.reserve(0, { owner, max, others, topics: new Map() })).jobs;
  };

  /** What the journal keeps of a job. */
  const keptOf = ({ lease, strikes, attempts, state, ...kept }: DumpedJob) => ({
    ...kept,
    isDead: state === 'dead',
  });

  /** Jobs of all states, made without a journal. */
  async function seeds(): Promise<readonly DumpedJob[]> {
    const under = await openEmpty(server);
    const trial = new Trial(under);
    await trial.push('delayed', { topic: 'a', when: { delayMs: farOffMs }, priority: 'high' });
    await trial.push('ready', {
      topic: 'b',
      extension: extensionOf({ leaseMs: 12_345 }),
      contentType: 'text/x; a=1',
    });
    await trial.reserved('reserved', { topic: 'c', body: Buffer.alloc(9_000, 7) });
    await trial.retry(await trial.reserved('retried', { topic: 'd' }), farOffMs);
    await trial.buried('dead', { topic: 'e', body: Buffer.alloc(9_000, 8) }, 'gone');
    const { version } = await trial.buried('told', { topic: 'f' });
    await trial.alerts.claim('f', 60_000, 1);
    await trial.alerts.settle([version], 'sent');
    const many = Array.from({ length: 400 }, (_, n) => ({ ...jobOf(`many-${n}`), topic: 'g' }));
    for (let at = 0; at < many.length; at += 100) await trial.jobs.push(many.slice(at, at + 100));
    const { jobs } = await under.dump();
    await under.close();
    expect(jobs).toHaveLength(406);
    return jobs;
  }

  const equals = (row: JobRow | undefined, its: DumpedJob) => {
    const { id, topic, version, origin, dueAt, failures, acceptedAt, priority, contentType, body } = its;
    const isDead = its.state === 'dead';
    expect(row).toMatchObject({
      ...{ topic, id, version, origin, failures, dueAt, state: isDead ? 'dead' : 'waiting' },
      ...{ orderAt: isDead ? its.deadAt : dueAt, reason: its.deadReason },
      pushed: { acceptedAt, priority, contentType, body },
    });
    expect(row?.alertTold).toBe(id === 'told' ? version : 0);
    expect(row?.pushed?.extension?.length).toBe(id === 'ready' ? 6 : undefined);
  };

  it('survey: jobs from before the journal get rows, again after MySQL went back, and survive FLUSHALL', async () => {
    const jobs = await seeds();
    const { journal, instance } = await opened();
    const one = await instance(1);
    const allRows = () =>
      until('the rows', async () => {
        const rows = new Map((await journal.rows(jobs)).map((row) => [`${row.topic} ${row.id}`, row]));
        for (const its of jobs) equals(rows.get(`${its.topic} ${its.id}`), its);
        return true;
      });
    await allRows();
    const surveyed = 'surveyor: all jobs of the shard are in the journal';
    const surveys = () => one.notices.filter((notice) => notice === surveyed).length;
    await until('a survey', () => surveys() > 0);
    // A batch shows that MySQL went back.
    await inMysql('DELETE FROM dq_job', 'DELETE FROM dq_journal_stream');
    await one.store.jobs.push([{ ...jobOf('later'), topic: 'h' }]);
    await allRows();
    await until('two surveys', () => surveys() >= 2);
    await server.ask('FLUSHALL');
    await until('the jobs', async () => {
      const back = (await one.under.dump()).jobs.filter(({ topic }) => topic !== 'h');
      expect(back.map(keptOf)).toEqual(jobs.map(keptOf));
      return true;
    });
    const alerts = await Promise.all(
      ['dead', 'told'].map((id) => {
        const { topic, version } = jobs.find((its) => its.id === id) as DumpedJob;
        return one.store.alerts.stateOf({ topic, id, version });
      }),
    );
    expect(alerts).toEqual(['owed', 'sent']);
  });

  it('audit: puts back a lost job, unless ends may be missing for it', async () => {
    await server.ask('FLUSHALL');
    const { journal, instance } = await opened();
    const one = await instance(1);
    await pushed(one, journal, 'old', 'bystander');
    const [old] = await journal.rows([job('old')]);
    await journal.raiseSince((old?.pushed?.acceptedAt ?? 0) + 1);
    await until('a later ms', () => Date.now() > (old?.pushed?.acceptedAt ?? 0) + 1);
    await pushed(one, journal, 'lost');
    const before = await one.store.jobs.get(job('lost'));
    for (const field of await one.under.raw.hkeysBuffer(records))
      if (!field.toString('latin1').endsWith('bystander')) await one.under.raw.hdel(records, field);
    expect(await one.store.jobs.get(job('lost'))).toBeNull();
    await until('the job', async () => (await one.store.jobs.get(job('lost'))) !== null);
    expect(await one.store.jobs.get(job('lost'))).toEqual(before);
    const put = 'auditor: the store had lost jobs; they are put back';
    await until('the message', () => one.errors.includes(put));
    expect(await one.store.jobs.get(job('old'))).toBeNull();
    expect((await reserved(one, 5)).map(({ id }) => id).sort()).toEqual(['bystander', 'lost']);
    expect(one.notices).not.toContain('restorer: the store lost changes; heals it from the journal');
  });

  it.each([
    ['just now', 0],
    ['a day ago', 25 * 3_600_000],
  ])('audit: a job stays ended whose end is in a spool of an instance seen %s', async (_, agoMs) => {
    await server.ask('FLUSHALL');
    const { journal, instance } = await opened();
    const [one, two] = [await instance(1), await instance(2)];
    await pushed(two, journal, 'ended');
    await until('both', async () => (await journal.instances()).length === 2);
    await two.stop();
    const [lease] = await reserved(two, 1);
    if (lease === undefined) throw new Error('no lease');
    expect(await two.store.jobs.ack([{ ...lease, attempt: null }])).toEqual([{ kind: 'acked' }]);
    // As on a nearly full Redis, which keeps no history.
    await one.under.raw.del('{dq:0}:h', '{dq:0}:e');
    await inMysql(`UPDATE dq_journal_instance SET seen_at = seen_at - ${agoMs} WHERE instance = 2`);
    const heard = one.notices.length;
    const waits = 'auditor: waits for instances that do not ship their changes';
    await until('an audit', async () => {
      return one.notices.slice(heard).includes(waits) || (await one.store.jobs.get(job('ended'))) !== null;
    });
    expect(await one.store.jobs.get(job('ended'))).toBeNull();
    await two.restart();
    await until('the end', async () => (await journal.rows([job('ended')]))[0]?.state === 'done');
    expect(await one.store.jobs.get(job('ended'))).toBeNull();
  });

  it('an instance without a journal: jobs accepted before may have ended', async () => {
    const { journal } = await opened();
    expect(await journal.since()).toBe(0);
    const config = { 'mysql.url': mysql.url(database) } as Config;
    const own = new Resources();
    await (await openWithoutJournal(config, silentLog, own)).start();
    await until('since', async () => (await journal.since()) > Date.now());
    await own.close();
  });

  it('audit: an end that only the history of the store has is journaled', async () => {
    await server.ask('FLUSHALL');
    const { journal, instance } = await opened();
    const one = await instance(1);
    await pushed(one, journal, 'unwritten');
    // As of a process that died before it wrote the end to its spool.
    const [lease] = await reserved(one.under, 1);
    if (lease === undefined) throw new Error('no lease');
    await one.under.store.jobs.ack([{ ...lease, attempt: null }]);
    const row = await until('the end', async () => {
      const [its] = await journal.rows([job('unwritten')]);
      return its?.state === 'done' ? its : null;
    });
    expect(row).toMatchObject({ version: lease.version, pushed: null });
    expect(row.number).toBeGreaterThan(lease.version);
    expect(await one.store.jobs.get(job('unwritten'))).toBeNull();
    expect(one.errors).toEqual([]);
  });
});
