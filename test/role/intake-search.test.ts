// Tests GET /v1/jobs, the search.
import { beforeEach, expect, it } from 'vitest';
import { storeLimits } from '../../src/store/limits.ts';
import { bury, reserveOne } from '../support/handmade.ts';
import { startIntake, type TestIntake } from '../support/intake.ts';
import { problem } from '../support/problem.ts';

let dq: TestIntake;
beforeEach(async () => {
  dq = await startIntake();
  for (const topic of ['a', 'b'])
    await dq.api('POST', '/v1/topics', { topic, callbackUrl: 'http://127.0.0.1:9000/' });
});

interface Item {
  readonly topic: string;
  readonly id: string;
  readonly state: string;
}
/** `topic/id state` of every job on every page. */
async function search(query = ''): Promise<string[]> {
  const found: Item[] = [];
  for (let cursor: string | null = ''; cursor !== null; ) {
    const more: string = cursor === '' ? '' : `&cursor=${encodeURIComponent(cursor)}`;
    const { status, body } = await dq.api('GET', `/v1/jobs?${query}${more}`);
    expect(status, query).toBe(200);
    found.push(...body.items);
    cursor = body.nextCursor;
  }
  return found.map(({ topic, id, state }) => `${topic}/${id} ${state}`);
}

it('search: finds live and dead jobs by due time; ended ones by state', async () => {
  await bury(dq, 'a', ['dead']);
  await dq.push('a', '1', '?id=reserved&delay=0');
  const job = await reserveOne(dq);
  await dq.push('b', '1', '?id=ready&delay=0');
  await dq.push('a', '1', '?id=x&at=2030-01-02T00:00:00Z');
  await dq.push('b', '1', '?id=x&at=2030-01-01T00:00:00Z');
  await dq.push('b', '1', '?id=gone');
  await dq.api('DELETE', '/v1/topics/b/jobs/gone');
  const live = ['a/dead dead', 'a/reserved reserved', 'b/ready ready', 'b/x delayed', 'a/x delayed'];
  expect(await search()).toEqual(live);
  for (const limit of [1, 2, 3]) expect(await search(`limit=${limit}`)).toEqual(live);
  expect(await search('topic=a')).toEqual(live.filter((line) => line.startsWith('a/')));
  for (const state of ['delayed', 'ready', 'reserved', 'dead'])
    expect(await search(`state=${state}`)).toEqual(live.filter((line) => line.endsWith(state)));
  expect(await search('id=x')).toEqual(['b/x delayed', 'a/x delayed']);
  expect(await search('id=x&topic=a')).toEqual(['a/x delayed']);
  expect(await search('since=2030-01-01T00:00:00Z&until=2030-01-02T00:00:00Z')).toEqual(['b/x delayed']);
  expect(await search('state=cancelled')).toEqual(['b/gone cancelled']);
  expect(await search('topic=a&state=ready')).toEqual([]);
  expect((await dq.api('GET', '/v1/jobs?topic=none')).body.code).toBe('topic_not_found');
  const { body } = await dq.api('GET', '/v1/jobs?limit=2');
  expect(body.items).toEqual([
    {
      ...{ topic: 'a', id: 'dead', version: expect.stringMatching(/^\d+$/), state: 'dead', attempt: 1 },
      dueAt: expect.stringMatching(/Z$/),
      createdAt: expect.stringMatching(/Z$/),
      deadAt: expect.stringMatching(/Z$/),
    },
    {
      ...{ topic: 'a', id: 'reserved', version: String(job.version), state: 'reserved', attempt: 0 },
      dueAt: expect.stringMatching(/Z$/),
      createdAt: expect.stringMatching(/Z$/),
    },
  ]);
  const gone = (await dq.api('GET', '/v1/jobs?state=cancelled')).body.items[0];
  expect(gone).toMatchObject({ attempt: 0, endedAt: expect.stringMatching(/Z$/) });
});

it('search: an empty page can have a next one, because calls are bounded', async () => {
  const items = Array.from({ length: 1_000 }, () => '{"topic":"a","body":1,"delay":"1h"}').join('\n');
  for (let left = storeLimits.searchRowsMax; left > 0; left -= 1_000)
    await dq.call('POST', '/v1/jobs', { body: items, headers: { 'content-type': 'application/x-ndjson' } });
  const all = (await dq.api('GET', '/v1/jobs?state=reserved')).body;
  expect(all.items).toEqual([]);
  expect(all.nextCursor).not.toBe(null);
  expect(await search('state=reserved')).toEqual([]);
});

it('search: names the wrong parameter', async () => {
  for (const [query, field] of [
    ['state=', 'state'],
    ['state=gone', 'state'],
    ['id=', 'id'],
    ['id=..', 'id'],
    ['topic=', 'topic'],
    ['topic=-', 'topic'],
    ['since=5', 'since'],
    ['until=tomorrow', 'until'],
    ['limit=0', 'limit'],
    ['limit=1001', 'limit'],
    ['cursor=', 'cursor'],
    ['cursor=x', 'cursor'],
  ])
    expect(await dq.api('GET', `/v1/jobs?${query}`), query).toMatchObject(problem(400, 'invalid', field));
});
