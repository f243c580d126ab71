// Tests the answers when the store or the registry fails: stored, surely not stored, or unknown, and never
// the wrong one.
import { expect, it } from 'vitest';
import type { PushOutcome, Store } from '../../src/ports/job-store.ts';
import { StoreError } from '../../src/ports/store-error.ts';
import { startIntake, type TestIntake, withJobs } from '../support/intake.ts';
import { useJumpingTime } from '../support/jumping-time.ts';
import { problem } from '../support/problem.ts';

const topic = { topic: 't', callbackUrl: 'http://127.0.0.1:9000/' };

async function pushAgainst(
  push: Store['jobs']['push'],
  query = '?id=mine',
): Promise<{ dq: TestIntake; reply: Awaited<ReturnType<TestIntake['call']>> }> {
  const dq = await startIntake({ store: withJobs(() => ({ push })) });
  await dq.api('POST', '/v1/topics', topic);
  return { dq, reply: await dq.call('POST', `/v1/topics/t/jobs${query}`, { body: '1' }) };
}

it('without the store owner: not_stored, unavailable, not ready', async () => {
  const time = useJumpingTime();
  const dq = await startIntake();
  await dq.api('POST', '/v1/topics', topic);
  await dq.sqlite.owner.drain(0);
  const answers = Promise.all([
    dq.call('POST', '/v1/topics/t/jobs?id=a', { body: '1' }),
    dq.call('GET', '/v1/topics/t/jobs/a'),
    dq.call('DELETE', '/v1/topics/t/jobs/a'),
    dq.call('GET', '/readyz'),
    dq.call('GET', '/livez'),
    dq.api('PATCH', '/v1/topics/t', { title: 'x' }),
    dq.push('other', '1'),
  ]);
  const [push, get, cancel, ready, live, patch, unknownTopic] = await time.outlast(answers);
  expect(push).toMatchObject(problem(503, 'not_stored'));
  expect(get).toMatchObject(problem(503, 'unavailable'));
  expect(cancel).toMatchObject(problem(503, 'not_stored'));
  expect(ready).toMatchObject({
    status: 503,
    body: {
      code: 'unavailable',
      detail: 'store: no answer within 2 s',
      errors: [{ field: 'store', message: 'no answer within 2 s' }],
    },
  });
  expect(patch).toMatchObject(problem(503, 'not_stored'));
  expect(unknownTopic).toMatchObject(problem(503, 'not_stored'));
  for (const reply of [push, get, cancel, ready]) expect(reply.headers.get('retry-after')).toBe('1');
  expect(live.status).toBe(200);
});

it.each(['store', 'registry'])('a hanging %s is not ready, and /readyz answers in time', async (check) => {
  const time = useJumpingTime();
  const never = () => new Promise<never>(() => {});
  let hangs = false;
  const dq = await startIntake({
    store: (store) => ({
      ...store,
      admin: {
        ...store.admin,
        health: () => (hangs && check === 'store' ? never() : store.admin.health()),
      },
    }),
    registry: (registry) => ({
      ...registry,
      changes: (since) => (hangs && check === 'registry' ? never() : registry.changes(since)),
    }),
  });
  expect((await dq.call('GET', '/readyz')).status).toBe(200);
  hangs = true;
  expect(await time.outlast(dq.call('GET', '/readyz'))).toMatchObject({
    status: 503,
    body: { errors: [{ field: check, message: 'no answer within 2 s' }] },
  });
});

it('an unknown outcome has the id, also a generated one', async () => {
  const lost = async (jobs: readonly unknown[]): Promise<readonly PushOutcome[]> =>
    jobs.map(() => ({ kind: 'unknown', code: 'no_answer' }));
  const { reply, dq } = await pushAgainst(lost);
  expect(reply).toMatchObject({ status: 503, body: { code: 'unknown', id: 'mine' } });
  expect(reply.headers.get('retry-after')).toBe('1');
  const made = await dq.push('t', '1');
  expect(made).toMatchObject({
    status: 503,
    body: { code: 'unknown', id: expect.stringMatching(/^[0-9a-f-]{36}$/) },
  });
  expect(dq.counted.size).toBe(0);
  expect(dq.requests).toEqual([
    expect.objectContaining({ status: 503, code: 'unknown', id: 'mine' }),
    expect.objectContaining({ status: 503, code: 'unknown', id: made.body.id }),
  ]);
});

it('a rejecting store call makes its pushes unknown and is logged', async () => {
  const { reply, dq } = await pushAgainst(() => Promise.reject(new Error('no such call')));
  expect(reply).toMatchObject({ status: 503, body: { code: 'unknown', id: 'mine' } });
  expect(dq.errors).toEqual([expect.stringContaining('no such call')]);
});

it('one outcome does not affect the others', async () => {
  const dq = await startIntake({
    store: withJobs((real) => ({
      push: async (jobs) => {
        const outcomes = await real.push(jobs.filter(({ id }) => id !== 'full'));
        const left = [...outcomes];
        return jobs.map(({ id }) =>
          id === 'full'
            ? { kind: 'not_stored', code: 'full' }
            : (left.shift() ?? { kind: 'unknown', code: 'lost' }),
        );
      },
    })),
  });
  await dq.api('POST', '/v1/topics', topic);
  const replies = await Promise.all(
    ['a', 'full', 'b'].map((id) => dq.push('t', id, `?id=${id}`, 'text/plain')),
  );
  expect(replies.map(({ status }) => status)).toEqual([201, 503, 201]);
  expect(replies[1]?.body).toMatchObject({ code: 'not_stored' });
  for (const id of ['a', 'b']) expect((await dq.api('GET', `/v1/topics/t/jobs/${id}`)).body.body).toBe(id);
});

it('a bug in a handler is a 503 without internals; the server continues', async () => {
  const dq = await startIntake({
    store: withJobs(() => ({
      get: () => Promise.reject(new TypeError('secret /root/path is not a function')),
      cancel: () => Promise.reject(new TypeError('secret /root/path is not a function')),
    })),
  });
  const read = await dq.call('GET', '/v1/topics/t/jobs/a');
  const write = await dq.call('DELETE', '/v1/topics/t/jobs/a');
  expect(read).toMatchObject({ status: 503, body: { code: 'unavailable', errors: [] } });
  expect(write).toMatchObject({ status: 503, body: { code: 'unknown', errors: [] } });
  for (const reply of [read, write])
    expect(JSON.stringify(reply.body)).not.toMatch(/secret|root|TypeError|\.ts/);
  expect(dq.errors).toHaveLength(2);
  expect((await dq.api('GET', '/livez')).status).toBe(200);
});

it('with an unavailable registry the known topics stay in force', async () => {
  let broken = false;
  const dq = await startIntake({
    registry: (registry) => {
      const fail = () => Promise.reject(new StoreError({ kind: 'unknown', code: 'no_answer' }));
      return new Proxy(registry, {
        get: (target, name) =>
          broken && ['get', 'changes', 'stats'].includes(String(name)) ? fail : Reflect.get(target, name),
      });
    },
  });
  await dq.api('POST', '/v1/topics', topic);
  broken = true;
  expect((await dq.push('t', '1')).status).toBe(201);
  expect(await dq.push('other', '1')).toMatchObject(problem(503, 'not_stored'));
  for (const path of ['/v1/topics', '/v1/topics/t', '/v1/stats'])
    expect(await dq.api('GET', path)).toMatchObject(problem(503, 'unavailable'));
  expect(await dq.api('GET', '/readyz')).toMatchObject({
    status: 503,
    body: { errors: [{ field: 'registry' }] },
  });
});
