// With a journal, every acknowledged job that was not cancelled comes back after Redis lost it, and no
// cancelled one does. Real Redis and MariaDB; the agents of dq-upkeep run in this process.

import { createConnection } from 'mysql2/promise';
import { beforeAll, describe, expect, it } from 'vitest';
import { type RedisServer, startRedis } from '../../scripts/services/redis.ts';
import type { CancelOutcome } from '../../src/ports/job-store.ts';
import { StoreError } from '../../src/ports/store-error.ts';
import { farOffMs, jobOf } from '../conformance/trial.ts';
import { type JournalInstance, journalDatabase, journalInstance } from '../support/journal-instance.ts';
import { lacks, mariadb, owned } from '../support/services.ts';
import { until } from '../support/until.ts';

const meta = '{dq:0}:n';

describe.skipIf((await lacks('redis')) || (await lacks('mysql')))('journal, healing', async () => {
  const mysql = await owned('file', mariadb());
  let server: RedisServer;
  let made = 0;
  beforeAll(async () => {
    server = await owned('file', startRedis());
  });

  async function twoInstances(
    barrierMs?: number,
    peerWaitMs?: number,
  ): Promise<readonly [JournalInstance, JournalInstance]> {
    await server.ask('FLUSHALL');
    const database = `healing${made++}`;
    const url = await journalDatabase(mysql, database);
    const options = {
      ...(barrierMs === undefined ? {} : { barrierMs }),
      ...(peerWaitMs === undefined ? {} : { peerWaitMs }),
    };
    return [await journalInstance(server, url, 1, options), await journalInstance(server, url, 2, options)];
  }

  const isHealed = async ({ under }: JournalInstance) =>
    /^\d+$/.test((await under.raw.hget(meta, 'heal')) ?? '');

  /** The promises of the answers: ids that must live, and ids that must not. */
  class Promises {
    readonly alive = new Set<string>();
    readonly ended = new Set<string>();
    #next = 0;

    /** Some pushes, cancels, acks and reschedules; failures of Redis are ignored: they promise nothing. */
    async work({ store }: JournalInstance): Promise<void> {
      const ids = Array.from({ length: 20 }, () => `job-${this.#next++}`);
      const delayed = { when: { delayMs: farOffMs } } as const;
      const outcomes = await store.jobs.push(ids.map((id, n) => jobOf(id, n % 4 === 0 ? {} : delayed)));
      for (const [n, id] of ids.entries()) if (outcomes[n]?.kind === 'stored') this.alive.add(id);
      const cancelled = [...this.alive].filter((_, n) => n % 11 === 5).slice(0, 2);
      const ends = await store.jobs.cancel(cancelled.map((id) => ({ topic: 't', id })));
      for (const [n, id] of cancelled.entries())
        if (isEnd(ends[n])) this.#end(id);
        else if (ends[n]?.kind !== 'absent') this.#unknown(id);
      const reserved = await store.jobs.reserve(0, request).catch(() => ({ jobs: [] }));
      const acks = await store.jobs.ack(reserved.jobs.map((job) => ({ ...job, attempt: null })));
      for (const [n, { id }] of reserved.jobs.entries())
        if (acks[n]?.kind === 'acked') this.#end(id);
        else this.#unknown(id);
      const moved = [...this.alive]
        .slice(-3)
        .map((id) => ({ topic: 't', id, when: { delayMs: 2 * farOffMs } }));
      await store.jobs.reschedule(moved);
    }

    #end(id: string): void {
      this.alive.delete(id);
      this.ended.add(id);
    }

    /** Its end has an unknown result. */
    #unknown(id: string): void {
      this.alive.delete(id);
    }

    /** Every promise holds, nothing is left to heal, and no healing failed. */
    async holds(instances: readonly JournalInstance[]): Promise<void> {
      await this.holdIn(instances[0] as JournalInstance);
      for (const { errors } of instances)
        expect(errors.filter((message) => message.startsWith('restorer'))).toEqual([]);
    }

    async holdIn(one: JournalInstance): Promise<void> {
      await until('the healing', () => isHealed(one));
      await until('all jobs', async () => (await this.#missing(one)).length === 0);
      expect(await this.#present(one)).toEqual([]);
    }

    async #missing({ under }: JournalInstance): Promise<readonly string[]> {
      return (await this.#found(under, [...this.alive])).filter(([, isThere]) => !isThere).map(([id]) => id);
    }

    async #present({ under }: JournalInstance): Promise<readonly string[]> {
      return (await this.#found(under, [...this.ended])).filter(([, isThere]) => isThere).map(([id]) => id);
    }

    #found({ store }: JournalInstance['under'], ids: readonly string[]) {
      return Promise.all(
        ids.map(async (id) => [id, (await store.jobs.get({ topic: 't', id })) !== null] as const),
      );
    }
  }

  const snapshot = async ({ under: { raw } }: JournalInstance) => {
    const kept = await Promise.all(
      (await raw.keys('*')).map(async (key) => [key, await raw.dumpBuffer(key)] as const),
    );
    return async () => {
      const pipeline = raw.multi().flushall();
      for (const [key, dump] of kept) pipeline.restore(key, 0, dump as Buffer, 'REPLACE');
      await pipeline.exec();
    };
  };

  it('FLUSHALL on a live connection, under load', async () => {
    const both = await twoInstances();
    const promises = new Promises();
    for (let round = 0; round < 10; round += 1) for (const one of both) await promises.work(one);
    await both[0].under.raw.flushall();
    for (let round = 0; round < 10; round += 1) for (const one of both) await promises.work(one);
    await promises.holds(both);
    expect(promises.alive.size).toBeGreaterThan(200);
    expect(promises.ended.size).toBeGreaterThan(40);
  });

  it('an older snapshot put back, under load, with changes that were not shipped yet', async () => {
    const both = await twoInstances();
    const promises = new Promises();
    for (let round = 0; round < 5; round += 1) for (const one of both) await promises.work(one);
    const back = await snapshot(both[0]);
    for (let round = 0; round < 10; round += 1) for (const one of both) await promises.work(one);
    await back();
    for (let round = 0; round < 5; round += 1) for (const one of both) await promises.work(one);
    await promises.holds(both);
    expect(promises.alive.size).toBeGreaterThan(200);
  });

  it('ends come before the first reserve, also when the healing fails between two steps', async () => {
    const [one, two] = await twoInstances(500);
    await two.stop();
    const { jobs, healing } = one.under.store;
    if (healing === undefined) throw new Error('the store has no healing');
    const key = (id: string) => ({ topic: 't', id });
    const isEnded = async (id: string) => (await one.journal.db.rows([key(id)]))[0]?.state === 'cancelled';
    await one.store.jobs.push([jobOf('ended')]);
    const back = await snapshot(one);
    await one.store.jobs.push([jobOf('lost', { when: { delayMs: farOffMs } })]);
    await one.store.jobs.cancel([key('ended')]);
    await until('the shipping', () => isEnded('ended'));
    const { put, advance } = healing;
    const reserved: string[] = [];
    const failed: string[] = [];
    const failsOnce = async (step: string) => {
      if (failed.includes(step)) return;
      failed.push(step);
      await endClaims();
      throw new Error(step);
    };
    Object.assign(healing, {
      put: async (...given: Parameters<typeof put>) => {
        reserved.push(...(await jobs.reserve(0, request)).jobs.map(({ id }) => id));
        const outcomes = await put(...given);
        for (const { kind } of outcomes)
          if (kind === 'removed' || kind === 'put') await failsOnce(`after ${kind}`);
        return outcomes;
      },
      advance: async (...given: Parameters<typeof advance>) => {
        await failsOnce(`before ${given[1]}`);
        const isDone = await advance(...given);
        await failsOnce(`after ${given[1]}`);
        return isDone;
      },
    });
    await back();
    await until('the healing', () => isHealed(one));
    await until('the end of the work', async () =>
      (await one.journal.db.restores(10)).every(({ state }) => state === 'done'),
    );
    expect(reserved).toEqual([]);
    expect(await Promise.all(['ended', 'lost'].map((id) => jobs.get(key(id))))).toMatchObject([
      null,
      { id: 'lost' },
    ]);
    const steps = [
      'after removed',
      'before jobs',
      'after jobs',
      'after put',
      'before healed',
      'after healed',
    ];
    expect(failed).toEqual(steps);
  });

  /** The jobs `cancelled` and `replaced` are due, and only the spool of the second instance, which gives no
   *  sign any more, knows their ends. `back`: puts the state without these ends back. */
  async function silentEnds(peerWaitMs: number) {
    const [one, two] = await twoInstances(500, peerWaitMs);
    const keys = ['cancelled', 'replaced', 'bystander'].map((id) => ({ topic: 't', id }));
    // Changes that are shipped before the first look get no mark.
    await until('a look', () => two.looker.hasSeenAll);
    await two.store.jobs.push(keys.slice(0, 2).map(({ id }) => jobOf(id)));
    await until('the rows', async () => (await one.journal.db.rows(keys)).length === 2);
    await until('a mark', async () => (await one.under.raw.hget(meta, 'r2')) !== null);
    const back = await snapshot(one);
    await two.stop();
    // The first instance has lost a change too: it notices the loss.
    await one.store.jobs.push([jobOf('bystander')]);
    await until('its row', async () => (await one.journal.db.rows(keys)).length === 3);
    const [end] = await two.store.jobs.cancel(keys.slice(0, 1));
    const later = { when: { delayMs: farOffMs }, mode: 'replace' } as const;
    const [stored] = await two.store.jobs.push([jobOf('replaced', later)]);
    expect([end?.kind, stored?.kind]).toEqual(['cancelled', 'stored']);
    await silence();
    const version = (stored as { version: number }).version;
    return { one, two, back, version };
  }

  async function change(sql: string): Promise<void> {
    const connection = await createConnection({ uri: mysql.url(`healing${made - 1}`) });
    await connection.query(sql);
    await connection.end();
  }
  /** As if the second instance had given its last sign a minute earlier. */
  const silence = () => change('UPDATE dq_journal_instance SET seen_at = seen_at - 60000 WHERE instance = 2');
  /** As after the time of the claims. */
  const endClaims = () => change('UPDATE dq_restore SET claimed_until = 0');

  const reservedBy = async ({ under }: JournalInstance) =>
    (await under.store.jobs.reserve(0, request)).jobs.map(({ id }) => id);

  it.each(['emptied', 'an older snapshot put back'])(
    '%s: a healing waits for a silent instance, and calls no job that it ended',
    async (how) => {
      const { one, two, back, version } = await silentEnds(60_000);
      await (how === 'emptied' ? server.ask('FLUSHALL') : back());
      await until('the healing', async () => one.waits.includes('host-2') || (await isHealed(one)));
      const reserved = await reservedBy(one);
      await two.restart();
      await until('the end of the healing', () => isHealed(one));
      await until('no work is left', async () =>
        (await one.journal.db.restores(10)).every(({ state }) => state === 'done'),
      );
      expect([...reserved, ...(await reservedBy(one))]).toEqual(['bystander']);
      const { jobs } = one.under.store;
      expect(await jobs.get({ topic: 't', id: 'cancelled' })).toBeNull();
      expect(await jobs.get({ topic: 't', id: 'replaced' })).toMatchObject({ version });
    },
  );

  it('a healer that restarts in its wait for a silent instance waits again, from the first begin', async () => {
    const { one, two, version } = await silentEnds(3_600_000);
    await server.ask('FLUSHALL');
    await until('the wait', () => one.waits.includes('host-2'));
    const [work] = await one.journal.db.restores(1);
    await one.restart();
    const looks = one.waits.length;
    await endClaims();
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
    const [one, two] = await twoInstances(500, 3_600_000);
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
    const [one, two] = await twoInstances(500);
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

  it('twice, the second time in the middle of the first healing', async () => {
    const both = await twoInstances();
    const promises = new Promises();
    for (let round = 0; round < 10; round += 1) for (const one of both) await promises.work(one);
    // The first healing stays in the middle until the second loss.
    let lose = () => {};
    const second = new Promise<void>((resolve) => {
      lose = resolve;
    });
    for (const { under } of both) {
      const { healing } = under.store;
      if (healing === undefined) throw new Error('the store has no healing');
      const { advance } = healing;
      Object.assign(healing, {
        advance: async (...given: Parameters<typeof advance>) => {
          await second;
          return advance(...given);
        },
      });
    }
    await both[0].under.raw.flushall();
    for (const one of both) await promises.work(one);
    await until('a note', async () => (await both[0].under.raw.hget(meta, 'heal'))?.includes(' '));
    await both[1].under.raw.flushall();
    lose();
    for (let round = 0; round < 5; round += 1) for (const one of both) await promises.work(one);
    await both[0].restart();
    await promises.holds(both);
  });

  it('an instance that ships after the healing was down meanwhile: its jobs come back', async () => {
    const [one, two] = await twoInstances(500);
    const promises = new Promises();
    await promises.work(one);
    await two.stop();
    await promises.work(two);
    await server.ask('FLUSHALL');
    await until('the healing', () => isHealed(one));
    const connection = await createConnection({ uri: mysql.url(`healing${made - 1}`) });
    await two.restart(() =>
      until('the shipping', async () => {
        const [rows] = await connection.query('SELECT id FROM dq_job');
        const known = new Set((rows as { id: Buffer }[]).map(({ id }) => id.toString()));
        return [...promises.alive].every((id) => known.has(id));
      }),
    );
    await connection.end();
    await promises.holds([two]);
  });

  it.each([
    ['before it has looked at the store', false],
    ['after it has looked at the store', true],
  ])('an instance that ships late and dies at once, %s: another one compares', async (_, hasLooked) => {
    const [one, two] = await twoInstances(500);
    const promises = new Promises();
    await promises.work(one);
    await two.stop();
    await promises.work(two);
    await server.ask('FLUSHALL');
    await until('the healing', () => isHealed(one));
    const key = { topic: 't', id: [...promises.alive].at(-1) ?? '' };
    await two.shipAndDie(hasLooked, () =>
      until('the shipping', async () => (await two.journal.db.rows([key])).length > 0),
    );
    await promises.holdIn(one);
    await until('no work is left', async () =>
      (await one.journal.db.restores(10)).every(({ state }) => state === 'done'),
    );
  });
});

/** A plain 404 ends nothing: a process that lost nothing itself may answer it until the loss is noticed. */
const isEnd = (outcome: CancelOutcome | undefined): boolean =>
  outcome?.kind === 'cancelled' || (outcome?.kind === 'absent' && outcome.isRecorded === true);

const request = {
  owner: { instance: 3, incarnation: 3 },
  max: 5,
  others: { room: 5, leaseMs: 60_000 },
  topics: new Map(),
};
