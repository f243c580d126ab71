// Tests /v1/alerts over real sockets: pages of the outbox, incidents, and a test mail through a real mail
// server.
import { describe, expect, it } from 'vitest';
import type { Incident } from '../../src/core/incident.ts';
import type { DeadReason } from '../../src/core/job.ts';
import { IncidentFiles } from '../../src/process/incident-files.ts';
import { attemptOf } from '../conformance/trial.ts';
import { startIntake, type TestIntake } from '../support/intake.ts';
import { problem } from '../support/problem.ts';
import { startSink, status } from '../support/sink.ts';
import { startSilentServer, startSmtpSink } from '../support/smtp-sink.ts';
import { until } from '../support/until.ts';

async function die(dq: TestIntake, id: string, reason: DeadReason = 'attempts_exhausted'): Promise<number> {
  await dq.push('t', '{}', `?id=${id}`);
  const topics = new Map();
  const request = {
    owner: { instance: 1, incarnation: 9 },
    max: 1,
    others: { room: 1, leaseMs: 9_000 },
    topics,
  };
  const [job] = (await dq.store.jobs.reserve(0, request)).jobs;
  if (job === undefined) throw new Error('nothing was reserved');
  await dq.store.jobs.bury([{ ...job, reason, attempt: attemptOf(job, { replyExcerpt: 'no' }) }]);
  const from = Date.now();
  await until('the clock moves', () => Date.now() > from + 1, { everyMs: 1 });
  return job.version;
}

const mailConfig = (url: string) => ({ 'smtp.url': url, 'smtp.from': 'dq@example.org' });

describe('GET /v1/alerts', () => {
  it('lists alerts in pages, newest first', async () => {
    const dq = await startIntake();
    await dq.api('POST', '/v1/topics', { topic: 't', callbackUrl: 'http://127.0.0.1:9/' });
    const versions = [await die(dq, '1'), await die(dq, '2', 'gone'), await die(dq, '3')];
    await dq.store.alerts.settle([versions[0] ?? 0], 'sent');
    await dq.store.alerts.claim('t', 60_000, 1);
    const first = (await dq.api('GET', '/v1/alerts?limit=2')).body;
    expect(first.incidents).toEqual([]);
    expect(first.items).toMatchObject([
      { id: '3', state: 'owed' },
      {
        ...{ topic: 't', id: '2', version: String(versions[1]), deadReason: 'gone', attempt: 1 },
        ...{ lastReason: 'status', status: 503, replyExcerpt: 'no', state: 'claimed' },
      },
    ]);
    const second = (await dq.api('GET', `/v1/alerts?limit=2&cursor=${first.nextCursor}`)).body;
    expect(second).toMatchObject({ items: [{ id: '1', state: 'sent' }], nextCursor: null });
  });

  it('the first page has the incidents, newest first; /readyz names open ones', async () => {
    const dq = await startIntake();
    const files = new IncidentFiles(dq.dataDir);
    const incident = (id: number, more: Partial<Incident>): Incident => ({
      ...{ id, kind: 'crash_loop', about: 'timer', state: 'begun', at: 1_900_000_000_000 + id },
      ...{ detail: `incident ${id}`, alert: 'sent', sentAt: 1_900_000_000_500 },
      ...more,
    });
    await files.write(incident(1, {}));
    const oldest = { topic: 't', id: 'a', dueAt: 1 };
    await files.write(
      incident(2, { kind: 'late', about: '', oldest, waiting: 419, alert: 'owed', sentAt: null }),
    );
    await files.write(incident(3, { state: 'over' }));
    const { incidents } = (await dq.api('GET', '/v1/alerts')).body;
    const help = { topic: null, id: null, waiting: null, command: 'dq status' };
    expect(incidents).toEqual([
      {
        ...{ kind: 'crash_loop', about: 'timer', state: 'over', at: '2030-03-17T17:46:40.003Z' },
        ...{ detail: 'incident 3', alert: 'sent' },
        ...help,
        command: null,
      },
      {
        ...{ kind: 'late', about: '', state: 'begun', at: '2030-03-17T17:46:40.002Z', detail: 'incident 2' },
        ...{ topic: 't', id: 'a', waiting: 419, command: 'dq explain t', alert: 'owed' },
      },
      {
        ...{ kind: 'crash_loop', about: 'timer', state: 'begun', at: '2030-03-17T17:46:40.001Z' },
        ...{ detail: 'incident 1', alert: 'sent' },
        ...help,
      },
    ]);
    // On a busy machine the store may take longer than dq waits for it.
    const readyz = await until('it is ready', async () => {
      const { body } = await dq.api('GET', '/readyz');
      return body.ready ? body : null;
    });
    expect(readyz.warnings).toEqual([
      'incident 2 (reported at 2030-03-17T17:46:40.002Z); dq explain t says what holds the jobs of the topic',
    ]);
  });

  it.each(['cursor=x', 'limit=0', 'limit=1001', 'topic=t'])('rejects %s', async (query) => {
    const dq = await startIntake();
    expect(await dq.api('GET', `/v1/alerts?${query}`)).toMatchObject(problem(400, 'invalid'));
  });
});

describe('POST /v1/alerts/test', () => {
  it('sends a test message to a hook; 502 hook_failed with its reply, without its URL', async () => {
    const sink = await startSink(status(200, {}, '{"errcode":0}'));
    const config = { 'alerts.hooks': [`chat=wecom+${sink.url}?key=s3cret`] };
    const dq = await startIntake({ config });
    const test = () => dq.api('POST', '/v1/alerts/test', { to: 'chat' });
    expect(await test()).toMatchObject({ status: 202, body: { to: 'chat' } });
    expect(JSON.parse(String(sink.arrivals[0]?.body)).text.content).toMatch(/^dq: test of alerts\n/);
    sink.answer(status(200, {}, '{"errcode":93000,"errmsg":"invalid webhook url"}'));
    const rejected = await test();
    expect(rejected).toMatchObject(problem(502, 'hook_failed'));
    expect(rejected.body.detail).toContain('invalid webhook url');
    await sink.close();
    const unreachable = await test();
    expect(unreachable).toMatchObject(problem(502, 'hook_failed'));
    const listed = await dq.api('GET', '/v1/alerts');
    expect(listed.body.mail).toMatchObject({ server: false, hooks: ['chat'], defaultHooks: [] });
    expect(JSON.stringify([rejected, unreachable, listed])).not.toContain('s3cret');
  });

  it('sends one mail, only to that address', async () => {
    const smtp = await startSmtpSink();
    const dq = await startIntake({ config: { ...mailConfig(smtp.url), 'alerts.emails': ['ops@x.org'] } });
    expect(await dq.api('POST', '/v1/alerts/test', { to: 'a@x.org' })).toMatchObject({
      status: 202,
      body: { to: 'a@x.org' },
    });
    expect(smtp.mails.map(({ to, parsed }) => [to, parsed.subject])).toEqual([
      [['a@x.org'], 'dq: test of alerts'],
    ]);
  });

  it.each([
    ['refused for good', 550],
    ['temporarily rejected', 450],
  ])('answers 502 smtp_failed with the reply when the address is %s', async (_, status) => {
    const smtp = await startSmtpSink();
    smtp.judgeAddress(() => status);
    const dq = await startIntake({ config: mailConfig(smtp.url) });
    expect(await dq.api('POST', '/v1/alerts/test', { to: 'a@x.org' })).toMatchObject({
      status: 502,
      body: { code: 'smtp_failed', detail: expect.stringContaining(`the test set ${status}`) },
    });
  });

  it('answers 502 smtp_failed without a mail server, and with an unavailable one', async () => {
    const dq = await startIntake();
    expect(await dq.api('POST', '/v1/alerts/test', { to: 'a@x.org' })).toMatchObject({
      status: 502,
      body: { code: 'smtp_failed', detail: 'smtp.url is not set, so no mail goes out: set it, and reload' },
    });
    const smtp = await startSmtpSink();
    await smtp.close();
    const other = await startIntake({ config: mailConfig(smtp.url.replace('//', '//user:s3cret@')) });
    const { status, body } = await other.api('POST', '/v1/alerts/test', { to: 'a@x.org' });
    expect([status, body.code]).toEqual([502, 'smtp_failed']);
    expect(JSON.stringify(body)).not.toContain('s3cret');
  });

  it.each(['', 'a', 'a@b.c, d@e.f', 'a@b.c\r\nBcc: x@y.z', '<a@b.c>', ['a@b.c'], null, undefined])(
    'rejects %j as address, and sends nothing',
    async (to) => {
      const smtp = await startSmtpSink();
      const dq = await startIntake({ config: mailConfig(smtp.url) });
      expect(await dq.api('POST', '/v1/alerts/test', { to })).toMatchObject(problem(400, 'invalid', 'to'));
      expect(smtp.connections()).toBe(0);
    },
  );
});

it('a callback URL must not be the mail server', async () => {
  const silent = await startSilentServer();
  const dq = await startIntake({ config: mailConfig(silent.url) });
  const topic = { topic: 't', callbackUrl: `http://127.0.0.1:${silent.port}/` };
  expect(await dq.api('POST', '/v1/topics', topic)).toMatchObject({
    status: 400,
    body: { errors: [{ field: 'callbackUrl', message: expect.stringContaining("dq's own endpoints") }] },
  });
});
