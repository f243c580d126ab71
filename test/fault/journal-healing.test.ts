// Healings of a Redis that lost everything, beside an instance that gives no sign, and with late changes.
// Real Redis and MariaDB; the agents of dq-upkeep run in this process. Simulated worlds judge that no
// accepted job is lost and that no ended one is called (test/sim/journal/laws.ts), and total-queue.test.ts
// does so on real servers.

import { describe, expect, it } from 'vitest';
import { StoreError } from '../../src/ports/store-error.ts';
import { farOffMs, jobOf } from '../conformance/trial.ts';
import {
  askMysql,
  type JournalInstance,
  journalDatabase,
  journalInstance,
} from '../support/journal-instance.ts';
import { lacks, workerMariadb, workerRedis } from '../support/services.ts';
import { until } from '../support/until.ts';

const meta = '{dq:0}:n';

describe.skipIf((await lacks('redis')) || (await lacks('mysql')))('journal, healing', async () => {
  const mysql = await workerMariadb();
  const server = await workerRedis();
  let made = 0;

  async function twoInstances(peerWaitMs = 500): Promise<readonly [JournalInstance, JournalInstance]> {
    await server.ask('FLUSHALL');
    const url = await journalDatabase(mysql, `healing${made++}`);
    const options = { barrierMs: 500, peerWaitMs };
    return [await journalInstance(server, url, 1, options), await journalInstance(server, url, 2, options)];
  }

  const isHealed = async ({ under }: JournalInstance) =>
    /^\d+$/.test((await under.raw.hget(meta, 'heal')) ?? '');

  /** The jobs `cancelled` and `replaced` are due, and only the spool of the second instance, which gives no
   *  sign any more, knows their ends. */
  async function silentEnds(peerWaitMs: number) {
    const [one, two] = await twoInstances(peerWaitMs);
    const keys = ['cancelled', 'replaced', 'bystander'].map((id) => ({ topic: 't', id }));
    // Changes that are shipped before the first look get no mark.
    await until('a look', () => two.looker.hasSeenAll);
    await two.store.jobs.push(keys.slice(0, 2).map(({ id }) => jobOf(id)));
    await until('the rows', async () => (await one.journal.db.rows(keys)).length === 2);
    await until('a mark', async () => (await one.under.raw.hget(meta, 'r2')) !== null);
    await two.stop();
    // The first instance has lost a change too: it notices the loss.
    await one.store.jobs.push([jobOf('bystander')]);
    await until('its row', async () => (await one.journal.db.rows(keys)).length === 3);
    const [end] = await two.store.jobs.cancel(keys.slice(0, 1));
    const later = { when: { delayMs: farOffMs }, mode: 'replace' } as const;
    const [stored] = await two.store.jobs.push([jobOf('replaced', later)]);
    expect([end?.kind, stored?.kind]).toEqual(['cancelled', 'stored']);
    await silence();
    return { one, two, version: (stored as { version: number }).version };
  }

  const change = (sql: string) => askMysql(mysql.url(`healing${made - 1}`), sql);
  /** As if the second instance had given its last sign a minute earlier. */
  const silence = () => change('UPDATE dq_journal_instance SET seen_at = seen_at - 60000 WHERE instance = 2');

  const reservedBy = async ({ under }: JournalInstance) =>
    (await under.store.jobs.reserve(0, request)).jobs.map(({ id }) => id);

  it('a healer that restarts in its wait for a silent instance waits again, from the first begin', async () => {
    const { one, two, version } = await silentEnds(3_600_000);
    await server.ask('FLUSHALL');
    await until('the wait', () => one.waits.includes('host-2'));
    const [work] = await one.journal.db.restores(1);
    await one.restart();
    const looks = one.waits.length;
    // As after the time of the claims.
    await change('UPDATE dq_restore SET claimed_until = 0');
    await until('the next wait', () => one.waits.length > looks);
    expect(await one.journal.db.restores(1)).toMatchObject([{ no: work?.no, begunAt: work?.begunAt }]);
    expect(await isHealed(one)).toBe(false);
    await two.restart();
    await until('the end of the healing', () => isHealed(one));
    expect(await reservedBy(one)).toEqual(['bystander']);
    expect(await one.under.store.jobs.get({ topic: 't', id: 'replaced' })).toMatchObject({ version });
  });

  it('a silent instance that is given up: the healing goes on at once', async () => {
    const { one } = await silentEnds(3_600_000);
    await server.ask('FLUSHALL');
    await until('the wait', () => one.waits.includes('host-2'));
    expect(await isHealed(one)).toBe(false);
    expect(await one.journal.db.giveUp(10_000)).toMatchObject([{ instance: 2 }]);
    await until('the end of the healing', () => isHealed(one));
    expect((await reservedBy(one)).sort()).toEqual(['bystander', 'cancelled', 'replaced']);
  });

  it('a wait for a silent instance that was in vain is not repeated before its next sign', async () => {
    const { one, two } = await silentEnds(500);
    const goesOn = 'restorer: goes on without the latest changes of instances that do not ship theirs';
    await server.ask('FLUSHALL');
    await until('the end of the healing', () => isHealed(one));
    expect(one.errors.filter((error) => error === goesOn)).toHaveLength(1);
    const [looks, healed] = [one.waits.length, await one.under.raw.hget(meta, 'heal')];
    expect(looks).toBeGreaterThan(0);
    await server.ask('FLUSHALL');
    const isHealedAgain = async () =>
      (await isHealed(one)) && (await one.under.raw.hget(meta, 'heal')) !== healed;
    await until('the end of the next healing', isHealedAgain);
    expect(one.waits).toHaveLength(looks);
    await two.restart();
    const ageMs = async () =>
      (await one.journal.db.instances()).find(({ instance }) => instance === 2)?.ageMs ?? 0;
    await until('its sign', async () => (await ageMs()) < 10_000);
    await two.stop();
    await until('its silence', async () => (await ageMs()) > 10_000);
    await server.ask('FLUSHALL');
    await until('another wait', () => one.waits.length > looks);
  });

  it('an instance that has ended with all shipped: no healing waits for it', async () => {
    const [one, two] = await twoInstances(3_600_000);
    await one.store.jobs.push([jobOf('first')]);
    await two.store.jobs.push([jobOf('last')]);
    await two.stop();
    await two.recorder.sayEnded(1, 5_000);
    await silence();
    await server.ask('FLUSHALL');
    await until('the end of the healing', () => isHealed(one));
    expect((await reservedBy(one)).sort()).toEqual(['first', 'last']);
    expect(one.waits).toEqual([]);
  });

  it('a bucket that does not answer: its changes are shipped without a mark', async () => {
    const [one, two] = await twoInstances();
    await two.stop();
    const { healing } = one.under.store;
    if (healing === undefined) throw new Error('the store has no healing');
    const pushed = async (id: string) => {
      const [outcome] = await one.store.jobs.push([jobOf(id)]);
      await until('the row', async () => (await one.journal.db.rows([{ topic: 't', id }])).length > 0);
      return (outcome as { version: number }).version;
    };
    const markOf = async () => (await one.journal.db.marks()).find(({ instance }) => instance === 1)?.number;
    await until('a look', () => one.looker.hasSeenAll);
    const first = await pushed('first');
    await until('its mark', async () => (await markOf()) === first);
    const { look } = healing;
    const failure = { kind: 'not_stored', code: 'redis_away' } as const;
    Object.assign(healing, { look: () => Promise.reject(new StoreError(failure)) });
    await pushed('second');
    expect(await markOf()).toBe(first);
    Object.assign(healing, { look });
    const third = await pushed('third');
    await until('the mark', async () => (await markOf()) === third);
    expect(await one.under.raw.hget(meta, 'heal')).toBeNull();
  });

  it('a process that stops between store and spool until the healing is over: its changes count', async () => {
    const [one, two] = await twoInstances();
    await two.stop();
    const { jobs } = one.under.store;
    const [late, cancelled] = [
      { topic: 't', id: 'late' },
      { topic: 't', id: 'cancelled' },
    ];
    const job = jobOf('late', { when: { delayMs: farOffMs } });
    await one.store.jobs.push([{ ...job, id: 'cancelled' }]);
    await until('the row', async () => (await one.journal.db.rows([cancelled])).length > 0);
    const [stored] = await jobs.push([job]);
    const [end] = await jobs.cancel([cancelled]);
    if (stored?.kind !== 'stored' || end?.kind !== 'cancelled' || end.change === undefined)
      throw new Error('no changes');
    await server.ask('FLUSHALL');
    await until('the healing', () => isHealed(one));
    expect(await jobs.get(late)).toBeNull();
    expect(await jobs.get(cancelled)).not.toBeNull();
    const { version, dueAt, place = '' } = stored;
    const numbers = { number: version, version, origin: version, dueAt, failures: 0, acceptedAt: 1 };
    const { priority, contentType, body } = job;
    const pushed = { priority, contentType, body, extension: null };
    await one.journal.record([
      { kind: 'accepted', isOwn: true, ...late, place, ...numbers, ...pushed },
      {
        ...{ kind: 'ended', end: 'cancelled', attempt: null, isOwn: true, ...cancelled, ...end.change },
        version: end.change.number,
      },
    ]);
    await until('the late push', async () => (await jobs.get(late)) !== null);
    await until('the late end', async () => (await jobs.get(cancelled)) === null);
  });
});

const request = {
  owner: { instance: 3, incarnation: 3 },
  max: 5,
  others: { room: 5, leaseMs: 60_000 },
  topics: new Map(),
};
