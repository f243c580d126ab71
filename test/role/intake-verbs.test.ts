// Tests run, reschedule and requeue of one job, and the test of a retry rule.
import { beforeEach, describe, expect, it } from 'vitest';
import { jobOf } from '../conformance/trial.ts';
import { bury, failedAttempt, reserveOne } from '../support/handmade.ts';
import { startIntake, type TestIntake, withJobs } from '../support/intake.ts';
import { problem } from '../support/problem.ts';

const callbackUrl = 'http://127.0.0.1:9000/';
let dq: TestIntake;
beforeEach(async () => {
  dq = await startIntake();
  await dq.api('POST', '/v1/topics', { topic: 't', callbackUrl });
});

const job = '/v1/topics/t/jobs/a';
const get = async () => (await dq.api('GET', job)).body;
const verbs = ['run', 'reschedule?delay=1h', 'requeue'] as const;

describe('run', () => {
  it('makes a delayed job ready as a new version, with its body and attempts', async () => {
    await dq.push('t', '{"x": 1.0}', '?id=a&delay=0');
    await dq.store.jobs.retry([{ ...(await reserveOne(dq)), delayMs: 3_600_000, attempt: failedAttempt }]);
    const { why, nextAttempts, ...before } = await get();
    expect(before).toMatchObject({ state: 'delayed', attempt: 1 });
    expect([why.code, nextAttempts.length]).toEqual(['waits_to_retry', 9]);
    const { status, body } = await dq.api('POST', `${job}/run`);
    expect(status).toBe(200);
    expect(Object.keys(body)).toEqual(['topic', 'id', 'version', 'state', 'dueAt']);
    expect(body).toMatchObject({ topic: 't', id: 'a', state: 'ready' });
    expect(BigInt(body.version)).toBeGreaterThan(BigInt(before.version));
    const { version, state, dueAt } = body;
    const { why: whyNow, nextAttempts: planned, ahead, ...after } = await get();
    expect(after).toEqual({ ...before, version, state, dueAt });
    expect((await reserveOne(dq)).version).toBe(Number(version));
  });

  it('has no effect on a ready or reserved job', async () => {
    const pushed = await dq.push('t', '1', '?id=a&delay=0');
    const { topic, id, version, dueAt } = pushed.body;
    expect(await dq.api('POST', `${job}/run`)).toEqual({
      ...pushed,
      status: 200,
      headers: expect.anything(),
      body: { topic, id, version, state: 'ready', dueAt },
    });
    await reserveOne(dq);
    expect((await dq.api('POST', `${job}/run`)).body).toEqual({
      topic,
      id,
      version,
      state: 'reserved',
      dueAt,
    });
  });

  it('a dead letter is 409 job_dead', async () => {
    await bury(dq, 't', ['a']);
    expect(await dq.api('POST', `${job}/run`)).toMatchObject(problem(409, 'job_dead'));
    expect((await get()).state).toBe('dead');
  });
});

describe('If-Match', () => {
  const when = (method: string, path: string, version: string) =>
    dq.call(method, path, { headers: { 'if-match': version } });

  it.each([
    ['run', 'POST', `${job}/run`],
    ['reschedule', 'POST', `${job}/reschedule?delay=1h`],
    ['requeue', 'POST', `${job}/requeue`],
    ['cancel', 'DELETE', job],
  ] as const)('%s: a job that was pushed since it was read is 412 job_changed and stays', async (...call) => {
    const [verb, method, path] = call;
    const seed = () =>
      verb === 'requeue' ? bury(dq, 't', ['a']) : dq.push('t', '1', '?id=a&delay=2h').then(() => undefined);
    await seed();
    const read = (await get()).version;
    await seed();
    const newer = await get();
    for (const other of [read, '0'])
      expect(await when(method, path, other)).toMatchObject(problem(412, 'job_changed'));
    expect(await get()).toMatchObject({ version: newer.version, state: newer.state, dueAt: newer.dueAt });
    expect((await when(method, path, 'W/"1"')).status).toBe(400);
    expect((await when(method, path, `"${newer.version}"`)).status).toBe(200);
  });
});

describe('reschedule', () => {
  it('gives a delayed or ready job another time', async () => {
    await dq.push('t', '1', '?id=a&delay=0');
    const later = await dq.api('POST', `${job}/reschedule?at=2030-01-01T08:00:00+08:00`);
    expect(later).toMatchObject({
      status: 200,
      body: { state: 'delayed', dueAt: '2030-01-01T00:00:00.000Z' },
    });
    const hour = await dq.api('POST', `${job}/reschedule?delay=1h`);
    expect(BigInt(hour.body.version)).toBeGreaterThan(BigInt(later.body.version));
    expect(Date.parse(hour.body.dueAt) - Date.now()).toBeGreaterThan(59 * 60_000);
    expect(await get()).toMatchObject({ state: 'delayed', dueAt: hour.body.dueAt });
    for (const query of ['delay=0', 'at=2001-01-01T00:00:00Z'])
      expect((await dq.api('POST', `${job}/reschedule?${query}`)).body.state).toBe('ready');
  });

  it('a reserved job is 409 job_in_flight, a dead letter 409 job_dead', async () => {
    await dq.push('t', '1', '?id=a&delay=0');
    await reserveOne(dq);
    const query = `${job}/reschedule?delay=1h`;
    expect(await dq.api('POST', query)).toMatchObject(problem(409, 'job_in_flight'));
    expect((await get()).state).toBe('reserved');
    await dq.api('DELETE', job);
    await bury(dq, 't', ['a']);
    expect(await dq.api('POST', query)).toMatchObject(problem(409, 'job_dead'));
  });

  it('needs exactly one valid time', async () => {
    await dq.push('t', '1', '?id=a&delay=1h');
    const before = await get();
    for (const [query, field] of [
      ['', 'delay'],
      ['?delay=', 'delay'],
      ['?delay=soon', 'delay'],
      ['?delay=30', 'delay'],
      ['?delay=3651d', 'delay'],
      ['?at=', 'at'],
      ['?at=1760000000', 'at'],
      ['?at=2030-01-01T00:00:00', 'at'],
      ['?at=2200-01-01T00:00:00Z', 'at'],
      ['?delay=1s&at=2030-01-01T00:00:00Z', 'at'],
    ])
      expect(await dq.api('POST', `${job}/reschedule${query}`), query).toMatchObject(
        problem(400, 'invalid', field),
      );
    expect(await get()).toEqual(before);
  });
});

describe('requeue of one', () => {
  it('makes a dead letter ready, and its attempts start again', async () => {
    await bury(dq, 't', ['a']);
    const before = await get();
    const { status, body } = await dq.api('POST', `${job}/requeue`);
    expect(status).toBe(200);
    expect(body).toMatchObject({ topic: 't', id: 'a', state: 'ready' });
    expect(BigInt(body.version)).toBeGreaterThan(BigInt(before.version));
    expect(await get()).toMatchObject({ state: 'ready', attempt: 0, body: '{"id":"a"}' });
  });

  it('the job and its flow still have the attempts from before, which are marked', async () => {
    await bury(dq, 't', ['a']);
    const [buried] = (await get()).attempts;
    expect(buried).not.toHaveProperty('beforeRequeue');
    await dq.api('POST', `${job}/requeue`);
    expect((await get()).attempts).toEqual([{ ...buried, beforeRequeue: true }]);
    await dq.store.jobs.retry([{ ...(await reserveOne(dq)), delayMs: 3_600_000, attempt: failedAttempt }]);
    const { attempt, attempts } = await get();
    expect([attempt, attempts.map((one: object) => 'beforeRequeue' in one)]).toEqual([1, [true, false]]);
    const { entries } = (await dq.api('GET', `${job}/flow`)).body;
    const events = entries.map(({ event }: { event: string }) => event);
    expect(events.toSorted()).toEqual(['accepted', 'dead', 'retried']);
  });

  it('a live job is 409 not_dead', async () => {
    await dq.push('t', '1', '?id=a&delay=1h');
    for (const state of ['delayed', 'ready']) {
      const reply = await dq.api('POST', `${job}/requeue`);
      expect(reply).toMatchObject(problem(409, 'not_dead'));
      expect(reply.body.detail).toContain(state);
      await dq.api('POST', `${job}/run`);
    }
  });
});

describe('each verb', () => {
  it('distinguishes missing job, missing topic and invalid id', async () => {
    for (const verb of verbs) {
      const rejected = async (path: string) => {
        const { status, body } = await dq.api('POST', `${path}/${verb}`);
        return [status, body.code];
      };
      expect(await rejected('/v1/topics/t/jobs/none'), verb).toEqual([404, 'job_not_found']);
      expect(await rejected('/v1/topics/none/jobs/a'), verb).toEqual([404, 'topic_not_found']);
      expect(await rejected('/v1/topics/-/jobs/a'), verb).toEqual([404, 'topic_not_found']);
      expect(await rejected('/v1/topics/t/jobs/%00'), verb).toEqual([400, 'invalid']);
    }
  });

  it('moves a job of a removed topic', async () => {
    await dq.store.jobs.push([jobOf('a', { topic: 'gone', when: { delayMs: 60_000 } })]);
    expect((await dq.api('POST', '/v1/topics/gone/jobs/a/run')).body.state).toBe('ready');
  });

  it('reports whether the store did it', async () => {
    for (const kind of ['not_stored', 'unknown'] as const) {
      const fail = async () => [{ kind, code: 'broken' }] as const;
      const own = await startIntake({
        store: withJobs(() => ({ run: fail, reschedule: fail, requeue: fail })),
      });
      for (const verb of verbs) {
        const reply = await own.call('POST', `${job}/${verb}`);
        expect(reply, verb).toMatchObject(problem(503, kind));
        expect(reply.headers.get('retry-after')).toBe('1');
      }
    }
  });
});

describe('POST /v1/rules/test', () => {
  const ask = (body: object) => dq.api('POST', '/v1/rules/test', body);

  it('shows the result of the rule and the values of its references', async () => {
    const rule = '{res.code}!=200 && {status}==200 && {header.x}==null && {attempt}==1';
    expect(await ask({ rule, status: 200, body: '{"code":500}' })).toMatchObject({
      status: 200,
      body: {
        retry: true,
        values: { '{res.code}': 500, '{status}': 200, '{header.x}': null, '{attempt}': 1 },
      },
    });
    expect((await ask({ rule, body: '{"code":200}' })).body.retry).toBe(false);
    expect((await ask({ rule: '{res.__proto__}', body: '{"__proto__":5}' })).body).toEqual({
      retry: true,
      values: { '{res.__proto__}': 5 },
    });
  });

  it('judges the reply as a topic or a draft does, and says what decides', async () => {
    const rules = { deadIf: '{status}==400 || {res.code}=="E_ARG"', retryIf: '{res.code}!==0' };
    const poll = { againIf: '{res.state}=="pending"', againAfter: '{res.wait}s', okStatus: ['2xx', '410'] };
    const topic = { topic: 'judging', callbackUrl: 'http://127.0.0.1:9/', ...rules, ...poll };
    await dq.api('POST', '/v1/topics', topic);
    for (const [status, body, verdict, by, headers = {}] of [
      [400, '{}', 'dead', 'deadIf'],
      [200, '{"code":"E_ARG"}', 'dead', 'deadIf'],
      [410, '{"code":1}', 'dead', 'status 410'],
      [500, '{"state":"pending","wait":5}', 'again', 'againIf'],
      [500, '', 'again', 'dq-again', { 'DQ-Again': '10m' }],
      [200, '{"code":0}', 'retry', 'dq-again', { 'dq-again': '600' }],
      [500, '{"code":0}', 'retry', 'okStatus'],
      [200, '{"code":1}', 'retry', 'retryIf'],
      [500, '', 'dead', 'dq-no-retry', { 'dq-no-retry': 'true' }],
      [200, '{"code":0}', 'done', null],
    ] as const) {
      const asked = { status, body, headers };
      for (const by_ of [{ topic: 'judging' }, { draft: { ...rules, ...poll } }])
        expect((await ask({ ...asked, ...by_ })).body, `${status} ${body}`).toMatchObject({ verdict, by });
    }
    const once = { topic: 'judging', draft: { maxAttempts: 1 }, status: 500, body: '' };
    expect((await ask(once)).body).toMatchObject({ verdict: 'dead', by: 'maxAttempts' });
    expect((await ask({ topic: 'judging', body: '{"code":7}' })).body.values).toEqual({
      ...{ '{status}': 200, '{res.code}': 7, '{res.state}': null },
    });
    expect(await ask({ topic: 'absent', body: '' })).toMatchObject(problem(404, 'topic_not_found'));
    expect(await ask({ draft: { deadIf: '1==' }, body: '' })).toMatchObject(
      problem(400, 'invalid', 'deadIf'),
    );
    expect(await ask({ draft: {}, rule: '1==1', body: '' })).toMatchObject(problem(400, 'invalid', 'rule'));
  });

  it('names the position of a mistake, and every wrong field', async () => {
    expect(await ask({ rule: '{res.code} =! 5', body: '' })).toMatchObject({
      status: 400,
      body: { code: 'invalid', errors: [{ field: 'rule', position: 11 }] },
    });
    for (const [body, field] of [
      [{ body: '' }, 'rule'],
      [{ rule: '{status}' }, 'body'],
      [{ rule: '', body: '' }, 'rule'],
      [{ rule: 5, body: '' }, 'rule'],
      [{ rule: '{status}', body: {} }, 'body'],
      [{ rule: '{status}', body: 'x'.repeat(65_537) }, 'body'],
      [{ rule: '{status}', body: '', status: '200' }, 'status'],
      [{ rule: '{status}', body: '', status: 99 }, 'status'],
      [{ rule: '{status}', body: '', status: 200.5 }, 'status'],
      [{ rule: '{status}', body: '', header: {} }, 'header'],
    ] as const)
      expect(await ask(body), JSON.stringify(body).slice(0, 60)).toMatchObject(
        problem(400, 'invalid', field),
      );
  });
});
