// Tests the routes that examine many jobs: search by id prefix and body, horizon, groups of dead letters, and
// dead letters by their last attempt.
import { expect, it } from 'vitest';
import { horizonClasses } from '../../src/core/survey.ts';
import type { Store, Surveys } from '../../src/ports/job-store.ts';
import { StoreError } from '../../src/ports/store-error.ts';
import { bury, failedAttempt, reserveOne } from '../support/handmade.ts';
import { adminToken, bearer, startIntake, type TestIntake, tokenFor } from '../support/intake.ts';
import { problem } from '../support/problem.ts';

async function started(store?: (store: Store) => Store): Promise<TestIntake> {
  const dq = await startIntake(store === undefined ? {} : { store });
  for (const topic of ['a.x', 'b.x'])
    await dq.api('POST', '/v1/topics', { topic, callbackUrl: 'http://127.0.0.1:9000/' });
  return dq;
}

const withSurveys = (surveys: Partial<Surveys>) => (store: Store) => ({
  ...store,
  surveys: { ...store.surveys, ...surveys },
});

/** A server without tokens needs none; with one, every call does. */
const asAdmin = bearer(adminToken);

/** `topic/id` of all pages, sorted. */
async function scan(dq: TestIntake, query: string, headers = asAdmin): Promise<string[]> {
  const found = new Set<string>();
  for (let cursor: string | null = ''; cursor !== null; ) {
    const more: string = cursor === '' ? '' : `&cursor=${encodeURIComponent(cursor)}`;
    const { status, body } = await dq.call('GET', `/v1/jobs?${query}${more}`, { headers });
    expect(status, query).toBe(200);
    expect(body.scanned).toEqual({ jobs: expect.any(Number), of: expect.any(Number) });
    for (const { topic, id } of body.items) found.add(`${topic}/${id}`);
    cursor = body.nextCursor;
  }
  return [...found].sort();
}

it('search: by id prefix and part of the body, in the topics that the token covers', async () => {
  const dq = await started();
  for (const [topic, id] of [
    ['a.x', 'vip-1'],
    ['b.x', 'vip-2'],
    ['b.x', 'other'],
  ] as const)
    await dq.push(topic, `{"order":"№ ${id}"}`, `?id=${id}&delay=1h`);
  const of = (query: string) => scan(dq, query);
  expect(await of('idPrefix=vip')).toEqual(['a.x/vip-1', 'b.x/vip-2']);
  expect(await of('idPrefix=vip&limit=1')).toEqual(['a.x/vip-1', 'b.x/vip-2']);
  expect(await of('idPrefix=vip&topic=b.x')).toEqual(['b.x/vip-2']);
  expect(await of('idPrefix=vip&state=ready')).toEqual([]);
  expect(await of(`body=${encodeURIComponent('№ vip')}`)).toEqual(['a.x/vip-1', 'b.x/vip-2']);
  expect(await of('body=other')).toEqual(['b.x/other']);
  expect(await of('body=other&idPrefix=vip')).toEqual([]);
  expect(await of('idPrefix=vip&until=2020-01-01T00:00:00Z')).toEqual([]);
  expect((await dq.api('GET', '/v1/jobs?topic=a.x')).body).not.toHaveProperty('scanned');
  const { headers } = await tokenFor(dq, ['b.*']);
  expect(await scan(dq, 'idPrefix=vip', headers)).toEqual(['b.x/vip-2']);
  expect(await scan(dq, 'body=vip', headers)).toEqual(['b.x/vip-2']);
  expect(await dq.call('GET', '/v1/jobs?idPrefix=vip&topic=a.x', { headers })).toMatchObject({
    status: 403,
  });
  expect((await dq.call('GET', '/v1/jobs?idPrefix=vip&topic=none', { headers: asAdmin })).body.code).toBe(
    'topic_not_found',
  );
});

it('search: names the wrong parameter of a scan', async () => {
  const dq = await started();
  for (const [query, field] of [
    ['idPrefix=', 'idPrefix'],
    [`idPrefix=${'x'.repeat(257)}`, 'idPrefix'],
    ['body=ab', 'body'],
    [`body=${'ü'.repeat(129)}`, 'body'],
    ['idPrefix=a&id=a', 'id'],
    ['idPrefix=a&state=done', 'state'],
    ['idPrefix=a&cursor=x', 'cursor'],
    ['body=abc&cursor=x', 'cursor'],
    ['idPrefix=a&since=5', 'since'],
    ['idPrefix=a&topic=-', 'topic'],
  ])
    expect(await dq.api('GET', `/v1/jobs?${query}`), query).toMatchObject(problem(400, 'invalid', field));
  // No id is "..", but ids can begin with it.
  expect(await scan(dq, 'idPrefix=..')).toEqual([]);
});

it('surveys: a busy store and a survey without end answer 503 with a remedy', async () => {
  const fail = (code: string) => () => Promise.reject(new StoreError({ kind: 'not_stored', code }));
  for (const [code, problem, detail] of [
    ['survey_busy', 'survey_busy', 'try again in a second'],
    ['survey_too_long', 'unavailable', 'name a topic'],
  ] as const) {
    const dq = await started(withSurveys({ scan: fail(code), horizon: fail(code), deadGroups: fail(code) }));
    for (const path of ['/v1/jobs?body=abc', '/v1/horizon', '/v1/dead/groups'])
      expect(await dq.api('GET', path), path).toMatchObject({
        status: 503,
        body: { code: problem, detail: expect.stringContaining(detail) },
      });
  }
});

it('horizon: counts the waiting jobs of the topics that the token covers, and keeps its answer', async () => {
  const dq = await started();
  await dq.push('a.x', '1', '?delay=30s');
  await dq.push('a.x', '1', '?delay=2h');
  await dq.push('b.x', '1', '?delay=0');
  const of = async (query = '', headers = asAdmin) =>
    (await dq.call('GET', `/v1/horizon${query}`, { headers })).body;
  const classes = (counts: Readonly<Record<string, number>>) =>
    horizonClasses.map((upTo) => ({ upTo, count: counts[upTo] ?? 0 }));
  const all = { classes: classes({ overdue: 1, '1m': 1, '3h': 1 }), total: 3, at: expect.any(String) };
  expect(await of()).toEqual(all);
  expect(await of('?topic=b.x')).toMatchObject({ classes: classes({ overdue: 1 }), total: 1 });
  await dq.push('a.x', '1', '?delay=30s');
  expect(await of()).toEqual(all);
  const { headers } = await tokenFor(dq, ['a.*']);
  expect(await of('', headers)).toMatchObject({ classes: classes({ '1m': 2, '3h': 1 }), total: 3 });
  expect(await of('?topic=b.x', headers)).toMatchObject({ code: 'forbidden' });
  expect(await of('?topic=none')).toMatchObject({ code: 'topic_not_found' });
  expect(await of('?topic=-')).toMatchObject({ code: 'invalid' });
});

it('dead groups: by cause, in the topics that the token covers', async () => {
  const dq = await started();
  await bury(dq, 'a.x', ['1', '2']);
  await bury(dq, 'b.x', ['1']);
  const of = async (query = '', headers = asAdmin) =>
    (await dq.call('GET', `/v1/dead/groups${query}`, { headers })).body;
  const [largest, other] = [
    { topic: 'a.x', deadReason: 'attempts_exhausted', lastReason: 'status', status: 500, count: 2 },
    { topic: 'b.x', count: 1 },
  ];
  const body = await of();
  expect(body).toMatchObject({ groups: [largest, other], examined: 3, complete: true });
  expect(body.groups[0]).toMatchObject({
    firstAt: expect.stringMatching(/Z$/),
    lastAt: expect.stringMatching(/Z$/),
    hours: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2],
  });
  expect(await of('?topic=b.x')).toMatchObject({ groups: [other], examined: 1 });
  const { headers } = await tokenFor(dq, ['b.*']);
  expect(await of('', headers)).toMatchObject({ groups: [other], examined: 1 });
  expect(await of('?topic=none')).toMatchObject({ code: 'topic_not_found' });
  for (const query of [
    'deadReason=gone',
    'lastReason=none',
    'status=4xx',
    'since=2100-01-01T00:00:00Z',
    'until=2001-01-01T00:00:00Z',
  ])
    expect(await of(`?topic=a.x&${query}`), query).toMatchObject({ groups: [], examined: 0 });
  const all = `since=${body.groups[0].firstAt}&deadReason=attempts_exhausted&lastReason=status&status=500`;
  expect(await of(`?topic=a.x&${all}`)).toMatchObject({ groups: [largest], examined: 2, complete: true });
  expect(await of('?since=x')).toMatchObject({ code: 'invalid' });
  // Jobs outlive their topic: with some it is known, also where the filter matches none.
  const known = await dq.registry.get('b.x');
  await dq.registry.remove('b.x', known?.revision ?? 0);
  await dq.topics.refresh();
  for (const path of ['dead/groups?', 'dead?', 'jobs?state=ready&']) {
    const found = await dq.call('GET', `/v1/${path}topic=b.x&since=2100-01-01T00:00:00Z`, {
      headers: asAdmin,
    });
    expect(found.status, path).toBe(200);
  }
});

it('dead letters: by dead reason, last reason and status', async () => {
  const dq = await started();
  await bury(dq, 'a.x', ['500']);
  const die = async (id: string, reason: 'gone' | 'attempts_exhausted', attempt: object) => {
    await dq.push('a.x', '1', `?id=${id}&delay=0`);
    const job = await reserveOne(dq);
    await dq.store.jobs.bury([{ ...job, reason, attempt: { ...failedAttempt, ...attempt } }]);
  };
  await die('410', 'gone', { status: 410 });
  await die('slow', 'attempts_exhausted', { reason: 'timeout', status: null });
  const of = async (query: string) => {
    const ids: string[] = [];
    for (let cursor: string | null = ''; cursor !== null; ) {
      const more: string = cursor === '' ? '' : `&cursor=${encodeURIComponent(cursor)}`;
      const { body } = await dq.api('GET', `/v1/dead?${query}${more}`);
      expect(body.items.length).toBeLessThanOrEqual(2);
      for (const { id } of body.items) ids.push(id);
      cursor = body.nextCursor;
    }
    return ids;
  };
  expect(await of('limit=2')).toEqual(['slow', '410', '500']);
  expect(await of('deadReason=gone&limit=2')).toEqual(['410']);
  expect(await of('lastReason=status&limit=2')).toEqual(['410', '500']);
  expect(await of('lastReason=timeout&limit=2')).toEqual(['slow']);
  expect(await of('status=500&limit=1')).toEqual(['500']);
  expect(await of('status=4xx&limit=1')).toEqual(['410']);
  expect(await of('status=none&limit=1')).toEqual(['slow']);
  expect(await of('status=5xx&deadReason=gone&limit=1')).toEqual([]);
  for (const query of ['status=5', 'status=', 'deadReason=x', 'lastReason='])
    expect(await dq.api('GET', `/v1/dead?${query}`), query).toMatchObject({ status: 400 });
});
