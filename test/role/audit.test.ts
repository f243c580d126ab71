// Tests the audit log: which calls are recorded, with which difference, and what it never holds; its list;
// and rows that wait for the registry.
import { expect, it } from 'vitest';
import { makeAuditId } from '../../src/core/audit.ts';
import { StoreError } from '../../src/ports/store-error.ts';
import { halvesIn, startConsole } from '../support/console.ts';
import { bury } from '../support/handmade.ts';
import { adminToken, bearer, startIntake, type TestIntake, tokenFor } from '../support/intake.ts';
import { until } from '../support/until.ts';

const callbackUrl = 'http://127.0.0.1:9000/';

/** Entries without time, id and address, once there are so many. */
async function entries(dq: Pick<TestIntake, 'registry'>, count: number, topic?: string) {
  const read = async () => (await dq.registry.audit({ topic }, null, 100)).items;
  await until(`${count} entries`, async () => (await read()).length >= count);
  return (await read()).map(({ id: _, at: __, address: ___, ...entry }) => entry);
}

it('a change of a topic is recorded with its difference, a rejection that changed nothing is not', async () => {
  const dq = await startIntake();
  for (const _ of ['made', 'exists']) await dq.api('POST', '/v1/topics', { topic: 't', callbackUrl });
  await dq.api('PATCH', '/v1/topics/t', { maxAttempts: 3, headers: { 'x-key': 'very-secret' } });
  await dq.api('PATCH', '/v1/topics/t', { maxAttempts: -1 });
  await dq.api('PATCH', '/v1/topics/absent', { maxAttempts: 1 });
  await dq.api('POST', '/v1/topics/t/pause');
  await dq.push('t', '1', '?id=a&delay=1h');
  await dq.api('DELETE', '/v1/topics/t');
  const found = await entries(dq, 5);
  expect(found).toHaveLength(5);
  expect(found[0]).toMatchObject({ action: 'removeTopic', topic: 't', status: 409, code: 'topic_has_jobs' });
  expect(found[1]).toEqual({
    ...{ actor: 'this machine', action: 'pauseTopic', topic: 't', jobId: null },
    detail: { changes: [{ field: 'state', before: 'active', after: 'paused' }] },
    status: 200,
    code: null,
  });
  expect(found[2]?.detail?.changes).toEqual([
    { field: 'headers.x-key', before: null, after: '***' },
    { field: 'maxAttempts', before: 10, after: 3 },
  ]);
  // The topic exists, so there is no difference.
  expect(found[3]).toMatchObject({ action: 'createTopic', topic: 't', detail: null, code: 'topic_exists' });
  expect(found[4]).toMatchObject({ action: 'createTopic', topic: 't', status: 201 });
  expect(JSON.stringify(found)).not.toContain('secret');
});

it('a change of unknown outcome is recorded with its topic and the difference that it may have made', async () => {
  const lost = () => new StoreError({ kind: 'unknown', code: 'no_answer' });
  const dq = await startIntake({
    registry: (registry) => ({
      ...registry,
      create: async (draft) => {
        await registry.create(draft);
        throw lost();
      },
      update: async () => Promise.reject(lost()),
    }),
  });
  for (const [method, path, body] of [
    ['POST', '/v1/topics', { topic: 't', callbackUrl }],
    ['PATCH', '/v1/topics/t', { maxAttempts: 3 }],
    ['PUT', '/v1/topics/t', { callbackUrl, maxAttempts: 4 }],
    ['POST', '/v1/topics/t/pause', undefined],
  ] as const)
    expect(await dq.api(method, path, body)).toMatchObject({ status: 503, body: { code: 'unknown' } });
  const found = await entries(dq, 4);
  for (const one of found) expect(one).toMatchObject({ topic: 't', status: 503, code: 'unknown' });
  const changesOf = (by: string) => found.find(({ action }) => action === by)?.detail?.changes;
  expect(changesOf('pauseTopic')).toEqual([{ field: 'state', before: 'active', after: 'paused' }]);
  expect(changesOf('putTopic')).toEqual([{ field: 'maxAttempts', before: 10, after: 4 }]);
  expect(changesOf('patchTopic')).toEqual([{ field: 'maxAttempts', before: 10, after: 3 }]);
  expect(changesOf('createTopic')).toContainEqual({ field: 'callbackUrl', before: null, after: callbackUrl });
});

it('bulk calls are recorded with filter and count, calls of one job with its id', async () => {
  const dq = await startIntake();
  await dq.api('POST', '/v1/topics', { topic: 't', callbackUrl });
  await bury(dq, 't', ['a', 'b']);
  await dq.api('POST', '/v1/topics/t/jobs/a/requeue');
  await dq.api('POST', '/v1/dead/requeue', { topic: 't', ids: ['b'] });
  await dq.api('POST', '/v1/topics/t/jobs/b/reschedule?delay=1h');
  const [reschedule, bulk, one] = await entries(dq, 4);
  expect(reschedule).toMatchObject({
    action: 'rescheduleJob',
    jobId: 'b',
    detail: { filter: { delay: '1h' } },
  });
  expect(bulk).toMatchObject({
    action: 'requeueDead',
    topic: 't',
    jobId: null,
    detail: { filter: { ids: ['b'] }, count: 1 },
  });
  expect(one).toMatchObject({ action: 'requeueJob', topic: 't', jobId: 'a', detail: null });
});

it('the actor is the token, or the command line; passwords of URLs and secrets are hidden', async () => {
  const dq = await startIntake();
  const topic = { topic: 't', callbackUrl: 'http://me:pass-word@127.0.0.1:9000/x' };
  const made = await dq.api('POST', '/v1/topics', topic, bearer(adminToken));
  expect(made.status, JSON.stringify(made.body)).toBeLessThan(500);
  // Only the command line names a user: a token has its own name.
  const { token, name, headers } = await tokenFor(dq, ['*'], ['admin']);
  await dq.api('PUT', '/v1/topics/u', { callbackUrl }, { ...headers, 'dq-user': 'li.wei' });
  await dq.call('POST', '/v1/topics/u/secret', { headers });
  const found = await entries(dq, 2, 'u');
  expect(found.map(({ actor, action }) => [actor, action])).toEqual([
    [name, 'rotateSecret'],
    [name, 'putTopic'],
  ]);
  for (const [owner, user] of [
    ['a', 'li.wei'],
    ['b', '<b>'],
  ] as const)
    await dq.api('PATCH', '/v1/topics/u', { owner }, { ...bearer(adminToken), 'dq-user': user });
  const byOwner = (await entries(dq, 4, 'u')).filter(({ action }) => action === 'patchTopic');
  expect(byOwner.map(({ actor }) => actor)).toEqual(['dq CLI', 'dq CLI (li.wei)']);
  const all = JSON.stringify(await entries(dq, 4));
  for (const secret of ['pass-word', 'whsec_', token]) expect(all).not.toContain(secret);
});

it('the list has filters and pages; a caller of some topics sees these topics only', async () => {
  const dq = await startIntake();
  for (const topic of ['a.one', 'a.two', 'b.one']) await dq.api('POST', '/v1/topics', { topic, callbackUrl });
  await dq.api('POST', '/v1/topics/a.one/pause');
  await entries(dq, 4);
  const list = async (query: string, headers = {}) => {
    const { status, body } = await dq.call('GET', `/v1/audit${query}`, { headers });
    expect(status).toBe(200);
    return {
      next: body.nextCursor,
      items: body.items.map((e: { action: string; topic: string }) => `${e.action} ${e.topic}`),
    };
  };
  expect((await list('?topic=a.one')).items).toEqual(['pauseTopic a.one', 'createTopic a.one']);
  expect((await list('?action=pauseTopic&actor=this%20machine')).items).toEqual(['pauseTopic a.one']);
  expect((await list('?actor=another')).items).toEqual([]);
  expect((await list(`?since=${Date.now() + 60_000}`)).items).toEqual([]);
  const first = await list('?limit=3');
  expect(first.items).toHaveLength(3);
  expect(await list(`?limit=3&cursor=${first.next}`)).toEqual({ next: null, items: ['createTopic a.one'] });
  for (const bad of ['?limit=201', '?cursor=x', '?id=4711', '?since=yesterday'])
    expect((await dq.call('GET', `/v1/audit${bad}`)).status, bad).toBe(400);

  const some = await tokenFor(dq, ['b.*'], ['admin']);
  expect((await list('', some.headers)).items).toEqual(['createTopic b.one']);
  expect((await dq.call('GET', '/v1/audit?topic=a.one', some)).status).toBe(403);
  expect((await dq.call('GET', '/v1/audit', await tokenFor(dq, ['*']))).status).toBe(403);
});

it('entries wait while the registry is unavailable; the change is not delayed', async () => {
  let isAway = true;
  let calls = 0;
  const dq = await startIntake({
    registry: (registry) => ({
      ...registry,
      addAudit: async (batch) => {
        calls += 1;
        if (isAway) throw new StoreError({ kind: 'not_stored', code: 'store_away' });
        await registry.addAudit(batch);
      },
    }),
  });
  expect((await dq.api('POST', '/v1/topics', { topic: 't', callbackUrl })).status).toBe(201);
  await dq.api('POST', '/v1/topics/t/pause');
  await until('a call', () => calls > 0);
  expect((await dq.registry.audit({}, null, 10)).items).toEqual([]);
  isAway = false;
  expect((await entries(dq, 2)).map(({ action }) => action)).toEqual(['pauseTopic', 'createTopic']);
  expect(dq.errors).toHaveLength(1);
});

it('sign-ins, failed links and sign-outs are recorded without what was presented', async () => {
  const console = await startConsole();
  const { halves } = await console.signIn({});
  if (halves === null) throw new Error('no session');
  const link = `dql_${'x'.repeat(43)}`;
  expect((await console.signIn({ link })).status).toBe(401);
  await console.send('DELETE', '/v1/session', halvesIn(halves));
  const found = await entries(console, 3);
  expect(found.map(({ action, actor, status, code }) => [action, actor, status, code])).toEqual([
    ['signOut', 'this machine', 200, null],
    ['signIn', '', 401, 'unauthorized'],
    ['signIn', 'this machine', 200, null],
  ]);
  expect(found[1]?.detail).toEqual({ filter: { signedInBy: 'link' } });
  for (const secret of [link, halves.key]) expect(JSON.stringify(found)).not.toContain(secret);
});

it('If-Match: another revision is 412 topic_changed with the current topic, and changes nothing', async () => {
  const dq = await startIntake();
  const { body: made } = await dq.api('POST', '/v1/topics', { topic: 't', callbackUrl });
  const change = (method: string, revision: string, body: object) =>
    dq.api(method, '/v1/topics/t', body, { 'if-match': revision });
  const first = await change('PATCH', `"${made.revision}"`, { title: 'mine' });
  expect(first.status).toBe(200);
  expect(first.headers.get('etag')).toBe(`"${first.body.revision}"`);
  expect(first.body.revision).toBeGreaterThan(made.revision);
  for (const [method, body] of [
    ['PATCH', { title: 'theirs' }],
    ['PUT', { callbackUrl }],
  ] as const) {
    const late = await change(method, String(made.revision), body);
    expect(late).toMatchObject({ status: 412, body: { code: 'topic_changed', topic: first.body } });
  }
  for (const query of ['', '?jobs=purge']) {
    const headers = { 'if-match': String(made.revision) };
    const late = await dq.call('DELETE', `/v1/topics/t${query}`, { headers });
    expect(late).toMatchObject({ status: 412, body: { code: 'topic_changed', topic: first.body } });
  }
  expect((await dq.api('GET', '/v1/topics/t')).body).toEqual(first.body);
  expect((await change('PATCH', '*', { title: 'any' })).status).toBe(200);
  expect((await change('PATCH', 'W/"1"', { title: 'weak' })).status).toBe(400);
  const absent = await dq.api('PUT', '/v1/topics/absent', { callbackUrl }, { 'if-match': '"1"' });
  expect(absent.status).toBe(404);
});

it('the preview of a draft names mistakes, waits and the egress verdict, and stores nothing', async () => {
  const dq = await startIntake({ config: { 'egress.deny': ['10.0.0.0/8'] } });
  const preview = async (draft: object, headers = {}) =>
    (await dq.api('POST', '/v1/topics/preview', draft, headers)).body;
  const good = { callbackUrl, maxAttempts: 3, backoff: ['10s', '1m'] };
  expect(await preview(good)).toEqual({
    errors: [],
    waitsMs: [10_000, 60_000],
    totalMs: 70_000,
    destination: { host: '127.0.0.1', addresses: ['127.0.0.1'], verdict: 'allowed', reason: null },
  });
  const wrong = await preview({ retryIf: '{res.code}!=', maxAttempts: 0 });
  expect(wrong.errors.map(({ field }: { field: string }) => field).sort()).toEqual([
    'callbackUrl',
    'maxAttempts',
    'retryIf',
  ]);
  expect(wrong).toMatchObject({ waitsMs: null, totalMs: null, destination: null });
  const named = { ...good, callbackUrl: 'http://no-such-host.invalid/' };
  expect((await preview(named)).destination).toMatchObject({ addresses: [], verdict: 'unknown' });

  await dq.api('POST', '/v1/topics', { topic: 't', ...good });
  expect(await preview({ topic: 't', maxAttempts: 2 })).toMatchObject({ waitsMs: [10_000] });
  expect((await dq.api('GET', '/v1/topics/t')).body.maxAttempts).toBe(3);
  const { headers } = await tokenFor(dq, ['other']);
  expect((await preview(good, headers)).destination).toBeNull();
  expect(await preview({ topic: 't' }, headers)).toMatchObject({ code: 'forbidden' });
  expect((await dq.registry.audit({}, null, 10)).items).toHaveLength(1);
});

it('ids order entries by their time', () => {
  expect(makeAuditId(1_000) < makeAuditId(1_001)).toBe(true);
});
