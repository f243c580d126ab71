// Tests /v1/schedules on a real intake and registry.
import { beforeEach, expect, it } from 'vitest';
import { startIntake, type TestIntake, tokenFor } from '../support/intake.ts';
import { problem } from '../support/problem.ts';

let dq: TestIntake;
beforeEach(async () => {
  dq = await startIntake();
  await dq.api('POST', '/v1/topics', { topic: 'report', callbackUrl: 'http://127.0.0.1:9/', format: 'form' });
});

const daily = {
  ...{ name: 'daily', topic: 'report', cron: '0 9 * * *', timezone: 'Asia/Shanghai' },
  body: { n: 1 },
};
const add = (json: object = daily) => dq.api('POST', '/v1/schedules', json);
const read = async (name = 'daily') => (await dq.api('GET', `/v1/schedules/${name}`)).body;

it('a schedule is created, shown with its next times, changed, paused, run and removed', async () => {
  const created = await add();
  expect(created.status).toBe(201);
  expect(created.body).toMatchObject({
    ...{ name: 'daily', topic: 'report', cron: '0 9 * * *', every: null, timezone: 'Asia/Shanghai' },
    ...{ body: '{"n":1}', contentType: 'application/json', missed: 'skip', paused: false, revision: 1 },
    ...{ lastAt: null, problem: null, nextAt: expect.stringMatching(/T01:00:00\.000Z$/) },
  });
  expect(created.body.nextTimes).toHaveLength(10);
  expect(created.body.nextTimes[0]).toBe(created.body.nextAt);

  const changed = await dq.api('PATCH', '/v1/schedules/daily', { every: '90m', missed: 'last' });
  expect(changed.body).toMatchObject({
    ...{ cron: null, every: '1h30m', missed: 'last', revision: 2 },
    body: '{"n":1}',
  });

  expect((await dq.api('POST', '/v1/schedules/daily/pause')).body).toMatchObject({
    paused: true,
    nextAt: null,
  });
  expect(await read()).not.toHaveProperty('nextTimes');
  const resumed = (await dq.api('POST', '/v1/schedules/daily/resume')).body;
  expect(Date.parse(resumed.nextAt)).toBeGreaterThan(Date.now());

  const run = await dq.api('POST', '/v1/schedules/daily/run');
  expect(run).toMatchObject({
    status: 201,
    body: { topic: 'report', id: expect.stringMatching(/^schedule:daily:now-/) },
  });
  expect((await dq.api('GET', `/v1/topics/report/jobs/${run.body.id}`)).body.body).toBe('{"n":1}');

  await add({ ...daily, name: 'other', cron: '@hourly' });
  expect((await dq.api('GET', '/v1/schedules?limit=1')).body).toMatchObject({
    ...{ items: [{ name: 'daily' }], nextCursor: 'daily' },
  });
  expect((await dq.api('GET', '/v1/schedules?cursor=daily')).body).toMatchObject({
    ...{ items: [{ name: 'other' }], nextCursor: null },
  });
  expect((await dq.api('DELETE', '/v1/schedules/daily')).body).toEqual({ deleted: true });
  expect(await dq.api('GET', '/v1/schedules/daily')).toMatchObject(problem(404, 'schedule_not_found'));
});

it('a body of another type than JSON is a text, also where the name of the type begins with it', async () => {
  await dq.api('POST', '/v1/topics', { topic: 'raw', callbackUrl: 'http://127.0.0.1:9/' });
  const contentType = 'application/json-seq';
  await add({ ...daily, topic: 'raw', body: '{"n":1}', contentType });
  expect(await read()).toMatchObject({ body: '{"n":1}', contentType });
});

it('the preview of a draft has its next times or its mistakes, and stores nothing', async () => {
  const preview = async (draft: object) => (await dq.api('POST', '/v1/schedules/preview', draft)).body;
  const drafted = await preview({ cron: '30 2 * * *', timezone: 'Europe/Berlin' });
  expect(drafted).toEqual({ errors: [], times: expect.toSatisfy((times) => times.length === 10) });
  const wrong = await preview({ cron: '60 * * * *', timezone: 'Mars/Olympus' });
  expect(wrong).toMatchObject({ errors: [{ field: 'cron' }, { field: 'timezone' }], times: [] });
  expect(await preview({})).toMatchObject({ errors: [{ field: 'cron' }], times: [] });
  const { createdAt } = (await add({ ...daily, cron: undefined, every: '1h' })).body;
  // Counted from the creation, as after the change.
  expect((await preview({ name: 'daily', every: '7m' })).times[0]).toBe(
    new Date(Date.parse(createdAt) + 420_000).toISOString(),
  );
  expect(await read()).toMatchObject({ every: '1h', revision: 1 });
  expect(await preview({ name: 'absent', every: '7m' })).toMatchObject({ code: 'schedule_not_found' });
});

it.each([
  ['cron', { cron: '0 9 * *' }, /^cron: must have 5 fields/],
  ['every', { cron: undefined, every: '10ms' }, /^every: must be from 1s to 3650d/],
  ['every beside cron', { every: '10m' }, /^every: give cron or every, not both/],
  ['no times', { cron: undefined }, /^cron: give cron or every/],
  [
    'timezone',
    { timezone: 'Mars/Olympus' },
    /^timezone: unknown time zone "Mars\/Olympus"; write an IANA name/,
  ],
  ['body', { body: [1] }, /^body: must be a JSON object/],
  ['a long body', { body: { x: 'x'.repeat(70_000) } }, /^body: must be at most 65536 bytes in a schedule/],
  ['topic', { topic: 'gone' }, /^there is no topic "gone"/],
])('rejects a wrong %s, by name', async (_what, wrong, message) => {
  const { status, body } = await add({ ...daily, ...wrong });
  expect([400, 404]).toContain(status);
  expect(body.detail).toMatch(message);
});

it('a schedule can be created as paused; a change by an earlier revision changes nothing', async () => {
  const { body: created } = await add({ ...daily, paused: true });
  expect(created).toMatchObject({ paused: true, nextAt: null, revision: 1 });
  const patch = (revision: number, json: object) =>
    dq.api('PATCH', '/v1/schedules/daily', json, { 'if-match': `"${revision}"` });
  const resumed = (await patch(1, { paused: false, missed: 'last' })).body;
  expect(resumed).toMatchObject({ paused: false, nextAt: expect.any(String), revision: 2 });
  expect(await patch(1, { missed: 'skip' })).toMatchObject(problem(409, 'schedule_changed'));
  expect(await read()).toMatchObject({ missed: 'last', revision: 2 });
});

it('a removal by an earlier revision removes nothing', async () => {
  await add();
  await dq.api('PATCH', '/v1/schedules/daily', { missed: 'last' });
  const remove = (revision: number) =>
    dq.call('DELETE', '/v1/schedules/daily', { headers: { 'if-match': `"${revision}"` } });
  expect(await remove(1)).toMatchObject(problem(409, 'schedule_changed'));
  expect(await read()).toMatchObject({ revision: 2 });
  expect(await remove(2)).toMatchObject({ status: 200, body: { deleted: true } });
});

it('a change without effect changes nothing', async () => {
  await add();
  const before = await read();
  const { name: _, ...same } = daily;
  for (const json of [{}, same, { body: { n: 1 } }])
    expect((await dq.api('PATCH', '/v1/schedules/daily', json)).body).toEqual(before);
  expect((await dq.api('POST', '/v1/schedules/daily/resume')).body).toEqual(before);
  const paused = (await dq.api('POST', '/v1/schedules/daily/pause')).body;
  expect(paused).toMatchObject({ revision: 2, nextAt: null });
  expect((await dq.api('POST', '/v1/schedules/daily/pause')).body).toEqual(paused);
});

it('a change leaves the next instant, unless it changes the times', async () => {
  await add({ ...daily, cron: undefined, every: '1h' });
  const { nextAt } = await read();
  const changed = await dq.api('PATCH', '/v1/schedules/daily', { body: { n: 2 }, missed: 'last' });
  expect(changed.body).toMatchObject({ revision: 2, nextAt, body: '{"n":2}' });
  expect((await dq.api('PATCH', '/v1/schedules/daily', { every: '2h' })).body.nextAt).not.toBe(nextAt);
});

it.each([
  ['list', '[', ']'],
  ['object', '{"a":', '}'],
])('a %s nested in 30,000 levels is malformed wherever the API reads JSON', async (_, open, close) => {
  const deep = `${open.repeat(30_000)}1${close.repeat(30_000)}`;
  const headers = { 'content-type': 'application/json' };
  const schedule = `{"name":"s","topic":"report","every":"1h","body":${deep}}`;
  for (const [method, path, body] of [
    ['POST', '/v1/schedules', schedule],
    ['PATCH', '/v1/schedules/daily', `{"body":${deep}}`],
    ['POST', '/v1/topics', `{"topic":"u","callbackUrl":"http://127.0.0.1:9/","headers":${deep}}`],
    ['POST', '/v1/operations', deep],
    ['POST', '/v1/rules/test', deep],
  ] as const) {
    const reply = await dq.call(method, path, { headers, body });
    expect(reply, path).toMatchObject(problem(400, 'malformed_json'));
    expect(reply.body.detail).toBe('body: is nested deeper than 1000 levels; send less');
  }
  // Brackets in texts do not count; the body of a job is never written again.
  expect((await add({ ...daily, body: { text: `"\\${open.repeat(2_000)}` } })).status).toBe(201);
  expect((await dq.push('report', `{"deep":${deep}}`)).status).toBe(201);
});

it('a name is taken once', async () => {
  await add();
  expect(await add()).toMatchObject(problem(409, 'schedule_exists'));
});

it('schedules of topics that a token does not cover do not exist for it', async () => {
  await dq.api('POST', '/v1/topics', { topic: 'other', callbackUrl: 'http://127.0.0.1:9/' });
  for (const [name, topic] of [
    ['a', 'other'],
    ['b', 'report'],
    ['c', 'other'],
    ['d', 'report'],
  ])
    await add({ ...daily, name, topic });
  const { headers } = await tokenFor(dq, ['report']);
  const list = async (query: string) => (await dq.call('GET', `/v1/schedules${query}`, { headers })).body;
  expect(await list('?limit=1')).toMatchObject({ items: [{ name: 'b' }], nextCursor: 'b' });
  expect(await list('?limit=1&cursor=b')).toMatchObject({ items: [{ name: 'd' }], nextCursor: null });
  const hidden = await dq.call('GET', '/v1/schedules/a', { headers });
  expect(hidden).toMatchObject({ status: 404, body: { detail: 'there is no schedule "a"' } });
});

it('a schedule whose topic is gone is paused, and resumed only with a topic', async () => {
  await add();
  await dq.api('DELETE', '/v1/topics/report');
  expect((await dq.api('POST', '/v1/schedules/daily/pause')).body).toMatchObject({ paused: true });
  expect((await dq.api('POST', '/v1/schedules/daily/resume')).status).toBe(404);
  // Also while it is paused, its job is one that the topic takes.
  const moved = await dq.api('PATCH', '/v1/schedules/daily', { paused: true, topic: 'absent' });
  expect(moved).toMatchObject({ status: 404, body: { code: 'topic_not_found' } });
});

it('a list of long bodies comes in pages that fit', async () => {
  const long = { n: 'x'.repeat(65_000) };
  for (let n = 0; n < 70; n += 1) await add({ ...daily, name: `long-${n}`, body: long });
  const first = (await dq.api('GET', '/v1/schedules?limit=1000')).body;
  expect(first.items.length).toBeLessThan(70);
  const rest = (await dq.api('GET', `/v1/schedules?limit=1000&cursor=${first.nextCursor}`)).body;
  expect(first.items.length + rest.items.length).toBe(70);
  expect(rest.nextCursor).toBeNull();
});

it('times are those of the clock of the store, also in the first request of a process', async () => {
  const day = 86_400_000;
  const behind = await startIntake({ clock: () => Date.now() - day });
  await behind.api('POST', '/v1/topics', { topic: 'report', callbackUrl: 'http://127.0.0.1:9/' });
  const { body } = await behind.api('POST', '/v1/schedules', { name: 'h', topic: 'report', every: '1h' });
  expect(Date.parse(body.nextAt)).toBeLessThan(Date.now());
});
