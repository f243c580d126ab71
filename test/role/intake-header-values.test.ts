// Tests the values of a topic's headers in the API: they can be credentials, so callers without `admin` see a
// mask, and a mask in a request keeps the stored value.
import { describe, expect, it } from 'vitest';
import type { Scope } from '../../src/core/token.ts';
import { adminToken, bearer, startIntake, type TestIntake, tokenFor } from '../support/intake.ts';

const callbackUrl = 'http://127.0.0.1:9000/';
const headers = { authorization: 'Bearer geheim', 'x-a': 'b' };
const masked = { authorization: '***', 'x-a': '***' };

async function withTopic(): Promise<TestIntake> {
  const dq = await startIntake();
  expect((await dq.api('POST', '/v1/topics', { topic: 'a', callbackUrl, headers })).status).toBe(201);
  return dq;
}

describe('a reply', () => {
  it('shows header values only to admin', async () => {
    const dq = await withTopic();
    const seen = async (token: string, method = 'GET', path = '/v1/topics/a') =>
      (await dq.call(method, path, { headers: bearer(token) })).body;
    const tokenOf = async (scope: Scope) => (await tokenFor(dq, ['*'], [scope])).token;
    const [read, operate, admin] = [await tokenOf('read'), await tokenOf('operate'), await tokenOf('admin')];
    expect((await seen(read)).headers).toEqual(masked);
    expect((await seen(read, 'GET', '/v1/topics')).items[0].headers).toEqual(masked);
    for (const verb of ['pause', 'resume', 'offline'])
      expect((await seen(operate, 'POST', `/v1/topics/a/${verb}`)).headers).toEqual(masked);
    expect((await seen(admin)).headers).toEqual(headers);
    expect((await seen(admin, 'GET', '/v1/topics')).items[0].headers).toEqual(headers);
    expect((await seen(admin, 'POST', '/v1/topics/a/pause')).headers).toEqual(headers);
    expect((await seen(adminToken)).headers).toEqual(headers);
    expect((await dq.registry.get('a'))?.headers).toEqual(headers);
  });

  it('shows them while no token exists', async () => {
    const dq = await withTopic();
    expect((await dq.api('GET', '/v1/topics/a')).body.headers).toEqual(headers);
  });
});

describe('a masked value', () => {
  it.each(['PATCH', 'PUT'])('%s: keeps the stored one, in any spelling of the name', async (method) => {
    const dq = await withTopic();
    const sent = { callbackUrl, headers: { Authorization: '***', 'x-new': 'n' } };
    const { status, body } = await dq.api(method, '/v1/topics/a', sent);
    expect(status).toBe(200);
    expect(body.headers).toEqual({ authorization: 'Bearer geheim', 'x-new': 'n' });
    expect((await dq.registry.get('a'))?.headers).toEqual(body.headers);
  });

  it.each([
    ['PATCH', '/v1/topics/a', { title: 'x' }],
    ['PUT', '/v1/topics/a', { callbackUrl }],
    ['PUT', '/v1/topics/new', { callbackUrl }],
    ['POST', '/v1/topics', { topic: 'new', callbackUrl }],
  ])('%s %s: is rejected for a header that is not stored', async (method, path, more) => {
    const dq = await withTopic();
    const sent = { ...more, headers: { 'x-new': '***', constructor: '***' } };
    const { status, body } = await dq.api(method, path, sent);
    expect([status, body.errors.map(({ field }: { field: string }) => field)]).toEqual([
      400,
      ['headers.x-new', 'headers.constructor'],
    ]);
    expect(body.errors[0].message).toMatch(/send the value/);
    expect((await dq.registry.get('a'))?.headers).toEqual(headers);
    expect(await dq.registry.get('new')).toBeNull();
  });
});
