// The flow of a job over HTTP: from the store alone, and from a journal in a real MariaDB.

import { describe, expect, it, onTestFinished } from 'vitest';
import type { Change } from '../../src/core/job-change.ts';
import { MysqlJournal } from '../../src/journal/ship/journal-db.ts';
import { bury, failedAttempt, reserveOne } from '../support/handmade.ts';
import { type IntakeOptions, startIntake } from '../support/intake.ts';
import { askMysql, journalDatabase } from '../support/journal-instance.ts';
import { lacks, workerMariadb } from '../support/services.ts';
import { spoolDirectory } from '../support/spool.ts';

async function withTopic(options: IntakeOptions = {}) {
  const dq = await startIntake(options);
  const topic = { topic: 't', callbackUrl: 'http://127.0.0.1:9000/' };
  expect((await dq.api('POST', '/v1/topics', topic)).status).toBe(201);
  const flow = async (id: string) => (await dq.api('GET', `/v1/topics/t/jobs/${id}/flow`)).body;
  return { dq, flow };
}

describe('flow without a journal', () => {
  it('contains push, attempts and end, as far as the store has them', async () => {
    const { dq, flow } = await withTopic();
    const pushed = await dq.push('t', '{}', '?id=a&delay=1h');
    const none = { process: null, host: null, place: null, attempt: null };
    expect(await flow('a')).toEqual({
      journal: false,
      entries: [
        { ...none, at: expect.any(String), version: pushed.body.version, event: 'accepted', dueAt: null },
      ],
    });
    await dq.api('DELETE', '/v1/topics/t/jobs/a');
    expect((await flow('a')).entries).toMatchObject([{ event: 'accepted' }, { event: 'cancelled' }]);

    await bury(dq, 't', ['b']);
    const by = { process: 'dq-notifier-0', host: 'vm' };
    const attempt = { attempt: 1, status: 500, reason: 'status' };
    expect((await flow('b')).entries).toMatchObject([
      { event: 'accepted' },
      { event: 'dead', ...by, attempt },
    ]);

    await dq.push('t', '{}', '?id=c&delay=0');
    const job = await reserveOne(dq);
    const delivered = { ...failedAttempt, outcome: 'delivered', status: 200, reason: null } as const;
    await dq.store.jobs.ack([{ ...job, attempt: { ...delivered, startedAt: Date.now() } }]);
    expect((await flow('c')).entries).toMatchObject([
      { event: 'accepted' },
      { event: 'done', ...by, attempt: { status: 200 } },
    ]);
    expect((await flow('d')).code).toBe('job_not_found');
  });
});

describe.skipIf(await lacks('mysql'))('flow with a journal', async () => {
  const server = await workerMariadb();
  let made = 0;

  async function recorded(changes: readonly Change[]) {
    const database = `flow${made++}`;
    const db = new MysqlJournal(await journalDatabase(server, database), 1);
    onTestFinished(() => db.close());
    const [from, next] = [0, 1].map((offset) => ({ segment: offset, offset })) as [never, never];
    const here = { process: 'dq-server-3', host: 'far', marks: new Map() };
    await db.ship({ instance: 1, incarnation: 2, from, next, changes, ...here });
    const spool = spoolDirectory();
    onTestFinished(() => spool.close());
    return {
      ...(await withTopic({ journal: { db, spool, record: async () => {}, rejectReason: () => null } })),
      forgetChanges: () => askMysql(server.url(database), 'DELETE FROM dq_job_log'),
      db,
    };
  }

  const at = Date.parse('2030-01-01T00:00:00Z') * 1_000;
  const common = { topic: 't', id: 'a', origin: at, place: 's:1', dueAt: at / 1_000, isOwn: true };
  const accepted = {
    ...{ ...common, kind: 'accepted', number: at, version: at, failures: 0, acceptedAt: at / 1_000 },
    ...{ priority: 'normal', contentType: null, extension: null, body: Buffer.from('x') },
  } as Change;
  const run = {
    ...common,
    ...{ kind: 'moved', by: 'run', number: at + 5e6, version: at + 5e6, failures: 0 },
  } as Change;
  const done = {
    ...{ ...common, kind: 'ended', end: 'done', number: at + 9e6, version: at + 5e6, failures: 0 },
    attempt: { ...failedAttempt, outcome: 'delivered', status: 200, reason: null },
  } as Change;

  it('contains all changes of an id that the store does not have', async () => {
    const { flow, db } = await recorded([accepted, run, done, { ...accepted, id: 'other' }]);
    const by = { process: 'dq-server-3', host: 'far', place: 's:1' };
    expect(await flow('a')).toEqual({
      journal: true,
      entries: [
        {
          ...by,
          ...{ at: '2030-01-01T00:00:00.000Z', version: String(at), event: 'accepted', attempt: null },
          dueAt: '2030-01-01T00:00:00.000Z',
        },
        {
          ...by,
          ...{ at: '2030-01-01T00:00:05.000Z', version: String(at + 5e6), event: 'run', attempt: null },
          dueAt: '2030-01-01T00:00:00.000Z',
        },
        {
          ...{ ...by, at: '2030-01-01T00:00:09.000Z', version: String(at + 5e6), event: 'done' },
          ...{ attempt: expect.objectContaining({ status: 200 }), dueAt: '2030-01-01T00:00:00.000Z' },
        },
      ],
    });
    expect((await db.flow({ topic: 't', id: 'a' }, 2)).map(({ event }) => event)).toEqual(['run', 'done']);
    expect((await flow('none')).code).toBe('job_not_found');
  });

  it('falls back on the row when the log was removed', async () => {
    const { flow, forgetChanges } = await recorded([accepted, run, done]);
    await forgetChanges();
    expect((await flow('a')).entries).toMatchObject([
      { event: 'done', at: '2030-01-01T00:00:09.000Z', place: 's:1', process: null },
    ]);
  });

  it('adds what the store knows and the journal does not have yet, once', async () => {
    const { dq, flow, db } = await recorded([]);
    const { body } = await dq.push('t', '{}', '?id=a&delay=1h');
    const version = Number(body.version);
    expect((await flow('a')).entries).toMatchObject([{ event: 'accepted', process: null }]);
    const change = { ...accepted, number: version, version, origin: version } as Change;
    const here = { process: 'dq-server-3', host: 'far', marks: new Map() };
    await db.ship({
      ...{ instance: 1, incarnation: 2, changes: [change], ...here },
      ...{ from: { segment: 1, offset: 1 }, next: { segment: 1, offset: 2 } },
    });
    await dq.api('DELETE', '/v1/topics/t/jobs/a');
    expect((await flow('a')).entries).toMatchObject([
      { event: 'accepted', process: 'dq-server-3' },
      { event: 'cancelled', process: null },
    ]);
  });
});
