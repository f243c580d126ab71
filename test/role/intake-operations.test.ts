// Tests /v1/operations: rejections, and the rights to start, see and stop an operation. upkeep does the work
// (operations.test.ts).
import { beforeEach, describe, expect, it } from 'vitest';
import { limits } from '../../src/core/limits.ts';
import { adminToken, bearer, startIntake, type TestIntake } from '../support/intake.ts';
import { problem } from '../support/problem.ts';
import { until } from '../support/until.ts';

let dq: TestIntake;
beforeEach(async () => {
  dq = await startIntake();
  for (const topic of ['a.x', 'b.x'])
    await dq.api('POST', '/v1/topics', { topic, callbackUrl: 'http://127.0.0.1:9000/' });
});

const begin = (body: object) => dq.api('POST', '/v1/operations', body);

const as = async (token: string, method: string, path: string, body?: object) =>
  dq.call(method, path, {
    headers: { ...bearer(token), ...(body ? { 'content-type': 'application/json' } : {}) },
    ...(body ? { body: JSON.stringify(body) } : {}),
  });

async function makeToken(
  name: string,
  topics: readonly string[],
  scopes: readonly string[] = ['read', 'operate'],
): Promise<string> {
  const reply = await as(adminToken, 'POST', '/v1/tokens', { name, scopes, topics });
  expect(reply.status).toBe(201);
  const { token } = reply.body;
  await until('the token to be known', async () => (await as(token, 'GET', '/v1/me')).status === 200);
  return token;
}

describe('operations', () => {
  it('are accepted, listed newest first, stopped, and in the summary while open', async () => {
    const first = await begin({ kind: 'requeue', filter: { topic: 'a.x', ids: ['1', '2'] }, spread: '10m' });
    expect(first.status).toBe(202);
    expect(first.body).toMatchObject({
      ...{ kind: 'requeue', state: 'not_started', filter: { topic: 'a.x', idCount: 2 }, topics: ['*'] },
      ...{ spread: 600_000, rate: null, dryRun: false, actor: 'this machine', matched: null, done: 0 },
      ...{ leftMs: null, perSecond: null, startedAt: null, endedAt: null, failures: [], problem: null },
    });
    const second = await begin({ kind: 'cancel', all: true, rate: 5 });
    const { body } = await dq.api('GET', '/v1/operations');
    expect(body.items.map(({ id }: { id: string }) => id).sort()).toEqual(
      [first.body.id, second.body.id].sort(),
    );
    expect((await dq.api('GET', '/v1/summary')).body.operations).toHaveLength(2);
    const stopped = await dq.api('DELETE', `/v1/operations/${second.body.id}`);
    expect(stopped.body).toMatchObject({ state: 'stopped', endedAt: expect.any(String) });
    expect((await dq.api('DELETE', `/v1/operations/${second.body.id}`)).body.endedAt).toBe(
      stopped.body.endedAt,
    );
    await until('the summary to leave it out', async () => {
      const { operations } = (await dq.api('GET', '/v1/summary')).body;
      return operations.length === 1 && operations[0].id === first.body.id;
    });
  });

  it('are about the jobs from before the reply', async () => {
    const push = async (id: string) =>
      expect((await dq.push('a.x', '1', `?id=${id}&delay=1h`)).body).toMatchObject({ id });
    for (const id of ['1', '2']) await push(id);
    const { body } = await begin({ kind: 'cancel', filter: { topic: 'a.x' } });
    for (const id of ['2', '3']) await push(id);
    const before = (await dq.registry.operation(body.id))?.moment ?? {};
    const { items } = await dq.store.jobs.search({ topic: 'a.x', before }, 10, null);
    expect(items.map(({ id }) => id)).toEqual(['1']);
  });

  it('that make no sense are rejected, with the name of the field', async () => {
    const all = { all: true };
    const bad: readonly (readonly [body: object, field: string])[] = [
      [{ kind: 'requeue' }, 'all'],
      [{ kind: 'requeue', filter: {} }, 'all'],
      [{ kind: 'nope', ...all }, 'kind'],
      [{ kind: 'cancel', ...all, overdue: 'skip' }, 'overdue'],
      [{ kind: 'requeue', filter: { ids: ['1'] } }, 'topic'],
      [{ kind: 'requeue', filter: { topic: 'a.x', ids: [''] } }, 'ids[0]'],
      [{ kind: 'cancel', filter: { topic: 'a.x', ids: ['1'], versions: [] } }, 'filter.versions'],
      [{ kind: 'cancel', filter: { topic: 'a.x', versions: ['7'] } }, 'filter.versions'],
      [{ kind: 'restore', filter: { topic: 'a.x', ids: ['1'], versions: ['7'] } }, 'filter.versions'],
      [{ kind: 'requeue', filter: { since: 'yesterday' } }, 'since'],
      // A Date holds no later time: with it the list of operations could not be read any more.
      [{ kind: 'requeue', filter: { since: Number.MAX_SAFE_INTEGER } }, 'since'],
      [{ kind: 'requeue', filter: { status: '0xx' } }, 'filter.status'],
      [{ kind: 'requeue', filter: { status: '5x' } }, 'filter.status'],
      [{ kind: 'requeue', filter: { lastReason: 'tiemout' } }, 'filter.lastReason'],
      [{ kind: 'requeue', filter: { state: 'ready' } }, 'filter.state'],
      [{ kind: 'cancel', filter: { deadReason: 'gone' } }, 'filter.deadReason'],
      [{ kind: 'reschedule', delay: '1m', filter: { state: 'dead' } }, 'filter.state'],
      [{ kind: 'reschedule', ...all }, 'delay'],
      [{ kind: 'run', delay: '1m', ...all }, 'delay'],
      [{ kind: 'cancel', spread: '1m', ...all }, 'spread'],
      [{ kind: 'requeue', spread: '8d', ...all }, 'spread'],
      [{ kind: 'requeue', spread: '1m', rate: 1, ...all }, 'rate'],
      [{ kind: 'requeue', rate: 0, ...all }, 'rate'],
    ];
    for (const [body, field] of bad)
      expect((await begin(body)).body, JSON.stringify(body)).toMatchObject({
        code: 'invalid',
        errors: [{ field }],
      });
    expect(await begin({ kind: 'requeue', filter: { topic: 'nope' } })).toMatchObject(
      problem(404, 'topic_not_found'),
    );
    for (const id of ['0123456789ab', 'x', '%00'])
      expect((await dq.api('GET', `/v1/operations/${id}`)).body.code).toBe('operation_not_found');
  });

  it(`at most ${limits.operationsOpenMax} are open`, async () => {
    for (let n = 0; n < limits.operationsOpenMax; n += 1)
      expect((await begin({ kind: 'run', all: true })).status).toBe(202);
    expect(await begin({ kind: 'run', all: true })).toMatchObject(problem(409, 'too_many_operations'));
  });

  it('restore needs a journal, and clear of every topic the name of the installation', async () => {
    expect(await begin({ kind: 'restore', filter: { topic: 'a.x' } })).toMatchObject(
      problem(409, 'no_journal'),
    );
    for (const body of [{}, { confirm: 'yes' }]) {
      const { body: problem } = await begin({ kind: 'clear', all: true, ...body });
      expect([problem.code, problem.errors?.[0]?.field]).toEqual(['invalid', 'confirm']);
    }
    expect((await begin({ kind: 'clear', all: true, confirm: 'all' })).status).toBe(202);
    expect((await begin({ kind: 'clear', filter: { topic: 'a.x' } })).status).toBe(202);
    const token = await makeToken('wide', ['*'], ['read', 'operate', 'push']);
    const wide = await as(token, 'POST', '/v1/operations', { kind: 'clear', all: true, confirm: 'all' });
    expect([wide.status, wide.body.detail]).toEqual([403, expect.stringContaining('scope admin')]);
  });

  it('a caller sees and stops those on its topics only', async () => {
    const [some, every] = [await makeToken('some', ['a.*']), await makeToken('every', ['*'])];
    const start = async (token: string, filter: object, all = false) =>
      as(token, 'POST', '/v1/operations', { kind: 'requeue', filter, all });
    expect((await start(some, { topic: 'b.x' })).status).toBe(403);
    const a = (await start(some, {}, true)).body;
    expect(a).toMatchObject({ topics: ['a.*'], actor: 'some' });
    const b = (await start(every, { topic: 'b.x' })).body;
    const c = (await start(every, {}, true)).body;
    const listed = async (token: string) =>
      (await as(token, 'GET', '/v1/operations')).body.items.map(({ id }: { id: string }) => id).sort();
    expect(await listed(some)).toEqual([a.id]);
    expect(await listed(every)).toEqual([a.id, b.id, c.id].sort());
    for (const { id } of [b, c])
      for (const method of ['GET', 'DELETE'])
        expect((await as(some, method, `/v1/operations/${id}`)).status).toBe(404);
    expect((await as(some, 'DELETE', `/v1/operations/${a.id}`)).body.state).toBe('stopped');
  });

  it('cancel needs the scope push, as DELETE of one job does', async () => {
    const token = await makeToken('operator', ['a.*']);
    for (const input of [{ all: true }, { filter: { topic: 'a.x' } }, { all: true, dryRun: true }])
      expect(await as(token, 'POST', '/v1/operations', { kind: 'cancel', ...input })).toMatchObject({
        status: 403,
        body: { detail: expect.stringContaining('push') },
      });
    expect((await as(token, 'DELETE', '/v1/topics/a.x/jobs/1')).status).toBe(403);
    for (const scopes of [['operate', 'push'], ['admin']]) {
      const other = await makeToken(scopes.join('-'), ['a.*'], scopes);
      expect((await as(other, 'POST', '/v1/operations', { kind: 'cancel', all: true })).status).toBe(202);
    }
  });
});
