// Tests rejections: every route × every kind of wrong query or body. The error names the wrong field.
import { beforeEach, describe, expect, it } from 'vitest';
import { apiLimits } from '../../src/api/limits.ts';
import { adminToken, bearer, startIntake, type TestIntake } from '../support/intake.ts';
import { problem } from '../support/problem.ts';
import { words } from '../support/words.ts';

let dq: TestIntake;
beforeEach(async () => {
  dq = await startIntake({ config: { 'limits.bodyBytes': 1_000 } });
  await dq.api('POST', '/v1/topics', { topic: 't', callbackUrl: 'http://127.0.0.1:9000/' });
});

interface Route {
  readonly method: string;
  readonly path: string;
  readonly parameters: readonly string[];
}

/** From /openapi.json, with real names in the paths. */
async function routes(): Promise<readonly Route[]> {
  const { body } = await dq.api('GET', '/openapi.json');
  return Object.entries(
    body.paths as Record<string, Record<string, { parameters?: { in: string; name: string }[] }>>,
  ).flatMap(([template, operations]) =>
    Object.entries(operations).map(([method, { parameters = [] }]) => ({
      method: method.toUpperCase(),
      path: template.replace('{topic}', 't').replace('{id}', 'a'),
      parameters: parameters.filter((parameter) => parameter.in === 'query').map(({ name }) => name),
    })),
  );
}

async function refusal(route: Pick<Route, 'method'>, path: string, body?: string) {
  const takesBody = body !== undefined && route.method !== 'GET';
  // The token that every route accepts.
  const headers = bearer(adminToken);
  const reply = await dq.call(route.method, path, {
    ...(takesBody ? { body, headers: { ...headers, 'content-type': 'application/json' } } : { headers }),
  });
  return {
    status: reply.status,
    code: reply.body.code,
    fields: (reply.body.errors ?? []).map((error: { field: string }) => error.field),
  };
}

/** A valid body of each route, so that only the query is wrong. */
const goodBody = '{"topic":"t","callbackUrl":"http://127.0.0.1:9000/"}';
const bodyOf = ({ method, path }: Route) => {
  if (path === '/v1/dead/requeue') return '{"all":true}';
  if (method === 'POST' && path === '/v1/operations') return '{"kind":"requeue","all":true}';
  if (method === 'POST' && path === '/v1/backup') return '{"directory":"/tmp/x"}';
  if (path === '/v1/sign-in-links' || path.endsWith('/test-call')) return '{}';
  if (path === '/v1/pull') return '{"topics":["a"]}';
  if (method === 'POST' && path === '/v1/schedules') return '{"name":"a","topic":"a"}';
  if (path === '/v1/schedules/{name}' && method === 'PATCH') return '{}';
  if (path === '/v1/leases/extend') return '{"leases":["a"],"for":"1m"}';
  if (path.startsWith('/v1/leases/')) return '{"leases":["a"]}';
  if (path === '/v1/rules/test') return '{"rule":"{status}","body":""}';
  if (path === '/v1/alerts/test') return '{"to":"a@b.c"}';
  if (method === 'POST' && path === '/v1/tokens') return '{"name":"a","scopes":["read"]}';
  if (method === 'POST' && path === '/v1/jobs') return '[]';
  if (method === 'POST' && path === '/v1/shards') return '{"url":"redis://127.0.0.1:1"}';
  if (path === '/v1/topics/preview') return goodBody;
  if (path === '/v1/schedules/preview') return '{"every":"1m"}';
  return ['PUT', 'PATCH'].includes(method) || path === '/v1/topics' ? goodBody : undefined;
};

const invalid = (...fields: string[]) => ({ status: 400, code: 'invalid', fields });

describe('queries', () => {
  it('an unknown, repeated or invalid parameter is rejected on every route', async () => {
    const all = await routes();
    expect(all.length).toBeGreaterThan(15);
    const unknown = ['nope', 'Id', '__proto__', 'constructor'];
    const bad = words`% %4 %zz %ff %c0%80 %ed%a0%80 %f4%90%80%80`;
    let turn = 0;
    for (const route of all) {
      const rejected = async (query: string, name: string) =>
        expect(
          await refusal(route, `${route.path}?${query}`, bodyOf(route)),
          `${route.method} ${route.path}?${query}`,
        ).toEqual(invalid(name));
      for (const name of unknown) await rejected(`${name}=1`, name);
      for (const name of [...route.parameters, 'nope']) {
        await rejected(`${name}=1&${name}=1`, name);
        // In turn: one parser reads every query (query.test.ts).
        await rejected(`${name}=${bad[turn++ % bad.length]}`, name);
      }
      const escaped = await refusal(route, `${route.path}?a%ffb=1`, bodyOf(route));
      expect(escaped, route.path).toMatchObject({ status: 400, code: 'invalid' });
    }
  });
});

describe('pushes', () => {
  const bad: readonly (readonly [query: string, field: string])[] = [
    ...['', '.', '..', '%00', 'a%0ab', '%7f', '%c2%85', 'x'.repeat(257), '%e8%ae%a2'.repeat(86)].map(
      (id) => [`id=${id}`, 'id'] as const,
    ),
    ...[
      '',
      ...words`-1 1.5 1e3 30 %2B5s`,
      ' 5s',
      ...words`5x 5M 1m30 s P1M 3651d 99999999999999999 Infinity`,
    ].map((delay) => [`delay=${delay}`, 'delay'] as const),
    ...[
      '',
      ...words`soon 2030-01-01 2030-01-01T00:00:00 2030-02-30T00:00:00Z 1760000000 -5 2200-01-01T00:00:00Z`,
      '2030-01-01T00:00:00 0800',
    ].map((at) => [`at=${encodeURIComponent(at)}`, 'at'] as const),
    ['delay=5s&at=2030-01-01T00:00:00Z', 'at'],
    ...['', 'REPLACE', 'skip'].map((mode) => [`mode=${mode}`, 'mode'] as const),
  ];

  it('are rejected with the name of the wrong field', async () => {
    for (const [query, field] of bad) {
      const reply = await dq.push('t', '1', `?${query}`);
      expect(reply, query).toMatchObject({
        status: 400,
        body: { code: 'invalid', errors: [{ field, message: expect.any(String) }] },
      });
    }
    expect((await dq.store.admin.counts()).topics).toEqual({});
  });

  it('with a Content-Encoding but identity are 415', async () => {
    const identity = { headers: { 'content-encoding': 'Identity' }, body: '1' };
    for (const topic of ['t', '%74'])
      expect(await dq.call('POST', `/v1/topics/${topic}/jobs`, identity)).toMatchObject({ status: 201 });
    for (const encoding of ['gzip', 'identity, gzip', 'br'])
      expect(
        await dq.call('POST', '/v1/topics/t/jobs', { headers: { 'content-encoding': encoding }, body: '1' }),
      ).toMatchObject(problem(415, 'unsupported_media_type'));
  });

  it('with an invalid content type are rejected', async () => {
    for (const type of ['json', '/', 'a/b/c', 'text/plain; x=\u00fc', `text/${'x'.repeat(300)}`])
      expect(
        await dq.call('POST', '/v1/topics/t/jobs', { headers: { 'content-type': type }, body: '1' }),
      ).toMatchObject(problem(400, 'invalid', 'content-type'));
  });

  it('to a topic that another process has just registered are accepted', async () => {
    const known = await dq.registry.get('t');
    if (known === null) throw new Error('the topic is not there');
    const { revision: _, createdAt: __, updatedAt: ___, ...draft } = known;
    // The topic's hint races the push: both orders must find the topic.
    for (let n = 0; n < 20; n++) {
      expect((await dq.registry.create({ ...draft, topic: `young${n}` })).kind).toBe('created');
      expect((await dq.push(`young${n}`, '1')).status).toBe(201);
    }
  });
});

describe('bodies', () => {
  it('over the limit are 413; at the limit they are accepted', async () => {
    expect((await dq.push('t', Buffer.alloc(1_000), '', 'a/b')).status).toBe(201);
    expect(await dq.push('t', Buffer.alloc(1_001), '', 'a/b')).toMatchObject({
      status: 413,
      body: { code: 'body_too_large', detail: 'body: larger than 1000 bytes (limits.bodyBytes)' },
    });
    expect(dq.requests.at(-1)).toMatchObject({ topic: 't', status: 413, code: 'body_too_large' });
    const text = 'x'.repeat(1_001);
    const schedule = { name: 's', topic: 't', every: '1h', contentType: 'text/plain', body: text };
    for (const [path, json] of [
      ['schedules', schedule],
      ['topics/t/test-call', { contentType: 'text/plain', body: text }],
    ] as const)
      expect(await dq.api('POST', `/v1/${path}`, json), path).toMatchObject(
        problem(413, 'body_too_large', 'body'),
      );
  });

  it('of JSON routes must be JSON in UTF-8, with that content type or none', async () => {
    const send = (body: Buffer | string, type: string | null = 'application/json', encoding?: string) =>
      dq.call('POST', '/v1/dead/requeue', {
        body: Buffer.from(body),
        headers: {
          ...(type === null ? {} : { 'content-type': type }),
          ...(encoding === undefined ? {} : { 'content-encoding': encoding }),
        },
      });
    for (const body of ['{', '', '{"all":tru}', Buffer.from([0x22, 0xff, 0x22]), '\u0000'])
      expect(await send(body)).toMatchObject(problem(400, 'malformed_json'));
    for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'application/jsonx'])
      expect(await send('{"all":true}', type)).toMatchObject(problem(415, 'unsupported_media_type'));
    expect(await send('{"all":true}', 'application/json', 'gzip')).toMatchObject({ status: 415 });
    expect((await send('{"all":true}', 'application/json; charset=utf-8')).status).toBe(200);
    expect((await send('{"all":true}', null)).status).toBe(200);
  });

  it('unknown members, wrong types and bad filters of a requeue are named', async () => {
    const cases: readonly (readonly [unknown, string])[] = [
      [{}, 'all'],
      [{ all: false }, 'all'],
      [{ all: 'true' }, 'all'],
      [{ all: true, nope: 1 }, 'nope'],
      [JSON.parse('{"all":true,"__proto__":{}}'), '__proto__'],
      [[], 'body'],
      [null, 'body'],
      [{ ids: ['a'] }, 'topic'],
      [{ topic: 't', ids: [] }, 'ids'],
      [{ topic: 't', ids: 'a' }, 'ids'],
      [{ topic: 't', ids: ['a', 5] }, 'ids[1]'],
      [{ topic: 't', ids: ['a', '..'] }, 'ids[1]'],
      [{ topic: '-' }, 'topic'],
      [{ topic: 5 }, 'topic'],
      [{ since: 5 }, 'since'],
      [{ since: 'yesterday' }, 'since'],
      [{ until: true }, 'until'],
    ];
    for (const [body, field] of cases)
      expect(await dq.api('POST', '/v1/dead/requeue', body), JSON.stringify(body)).toMatchObject(
        problem(400, 'invalid', field),
      );
  });

  it('are rejected where a call takes none', async () => {
    for (const [method, path] of [
      ['POST', '/v1/topics/t/pause'],
      ['DELETE', '/v1/topics/t/jobs/a'],
      ['DELETE', '/v1/topics/t'],
    ] as const)
      expect(await dq.api(method, path, {})).toMatchObject(problem(400, 'invalid'));
  });
});

describe('paths', () => {
  it('unknown ones are 404 no_route, with any method and body', async () => {
    for (const [method, path] of [
      ['POST', '/v2'],
      ['GET', '/v1'],
      ['GET', '/V1/topics'],
      ['GET', '//v1/topics'],
      ['GET', '/metrics/dq'],
      ['POST', '/v1/restore'],
      ['POST', '/v1/topics/t/jobs/a/restore'],
    ] as const)
      expect(
        await dq.call(
          method,
          path,
          method === 'GET' ? {} : { body: '{', headers: { 'content-type': 'application/json' } },
        ),
        `${method} ${path}`,
      ).toMatchObject(problem(404, 'no_route'));
  });

  it('known ones with a wrong method are 405 with Allow', async () => {
    for (const [method, path, allow] of [
      ['DELETE', '/', 'GET, HEAD'],
      ['POST', '/livez', 'GET, HEAD'],
      ['PATCH', '/v1/topics', 'GET, HEAD, POST'],
      ['OPTIONS', '/v1/topics?limit=1', 'GET, HEAD, POST'],
      ['POST', '/v1/topics/t', 'DELETE, GET, HEAD, PATCH, PUT'],
      ['PUT', '/v1/topics/none/jobs/%E8%AE%A2', 'DELETE, GET, HEAD, PATCH'],
      ['GET', '/v1/topics/t/jobs', 'POST'],
      ['GET', '/v1/dead/requeue', 'POST'],
      ['PROPFIND', '/openapi.json', 'GET, HEAD'],
    ] as const) {
      const body = method === 'GET' ? {} : { body: '{', headers: { 'content-type': 'application/json' } };
      const reply = await dq.call(method, path, body);
      expect(reply, `${method} ${path}`).toMatchObject({
        status: 405,
        body: { code: 'method_not_allowed', errors: [] },
      });
      expect(reply.headers.get('allow'), path).toBe(allow);
      expect(reply.headers.get('content-type')).toBe('application/problem+json');
    }
  });

  it('with bad escapes, control characters, dots or too much in them are 400', async () => {
    for (const segment of [
      ...words`% %zz %ff %c0%80 %00 a%0d%0ab`,
      'x'.repeat(257),
      'x'.repeat(1_100),
      '%f0%9f%92%80'.repeat(65),
    ]) {
      const connection = dq.open();
      connection.send(
        `GET /v1/topics/t/jobs/${segment} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n`,
      );
      const reply = await connection.closed;
      expect(reply, segment.slice(0, 20)).toMatch(
        /^HTTP\/1\.1 400 [\s\S]*application\/problem\+json[\s\S]*"code":"invalid"/,
      );
    }
    for (const segment of ['.', '..', '%2e', '%2E%2e']) {
      const connection = dq.open();
      connection.send(
        `DELETE /v1/topics/t/jobs/${segment} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n`,
      );
      expect(await connection.closed, segment).toMatch(/^HTTP\/1\.1 400 [\s\S]*"field":"id"/);
    }
  });
});

describe('access', () => {
  const ask = async (lines: string) => {
    const connection = dq.open();
    connection.send(`GET /v1/topics HTTP/1.1\r\n${lines}connection: close\r\n\r\n`);
    return (await connection.closed).slice(9, 12);
  };

  it('a Host must be an IP address or localhost while no token exists', async () => {
    for (const host of words`localhost LOCALHOST:1 127.0.0.1 127.0.0.1:6789 10.0.0.1 [::1] [::1]:6789`)
      expect(await ask(`host: ${host}\r\n`), host).toBe('200');
    for (const host of words`
      example.org evil.localhost localhost.evil.org localhost. 127.0.0.1.nip.io ::1 [::1 1 []
    `)
      expect(await ask(`host: ${host}\r\n`), host).toBe('403');
    expect(await ask('')).toBe('400');
  });

  it('an Origin is rejected, on health checks too', async () => {
    for (const origin of ['http://localhost', 'null', 'http://127.0.0.1:6789'])
      for (const path of ['/v1/topics', '/livez', '/readyz', '/openapi.json', '/nope'])
        expect(await dq.call('GET', path, { headers: { origin } }), path).toMatchObject(
          problem(403, 'forbidden'),
        );
  });

  it('the token of this start is accepted, another is 401; health checks need none', async () => {
    const with_ = (authorization: string, path = '/v1/topics') =>
      dq.call('GET', path, { headers: { authorization } });
    expect((await with_(`Bearer ${adminToken}`)).status).toBe(200);
    expect((await with_(`bearer  ${adminToken}`)).status).toBe(200);
    for (const bad of ['Bearer', 'Bearer x', `Basic ${adminToken}`, adminToken, `Bearer ${adminToken}x`]) {
      const reply = await with_(bad);
      expect(reply, bad).toMatchObject(problem(401, 'unauthorized'));
      expect(reply.headers.get('www-authenticate')).toBe('Bearer');
      expect((await with_(bad, '/livez')).status).toBe(200);
      expect((await with_(bad, '/readyz')).status).toBe(200);
    }
  });

  it('rejected pushes: a few log lines per second, shortened, the rest counted', async () => {
    const headers = { authorization: 'Bearer no' };
    const path = `/v1/topics/${'t'.repeat(900)}/jobs?id=${'i'.repeat(5_000)}`;
    const from = performance.now();
    const calls = Array.from({ length: 200 }, () => dq.call('POST', path, { headers, body: '1' }));
    for (const { status } of await Promise.all(calls)) expect(status).toBe(401);
    await dq.role.drain(0);
    const seconds = Math.ceil((performance.now() - from) / 1_000);
    const counts = dq.requests.filter((line) => 'leftOut' in line);
    const whole = dq.requests.filter((line) => !('leftOut' in line));
    expect(whole.length).toBeLessThanOrEqual(apiLimits.rejectedLinesPerSecond * (seconds + 1));
    expect(whole.length + counts.reduce((sum, { leftOut }) => sum + Number(leftOut), 0)).toBe(200);
    for (const line of dq.requests) expect(JSON.stringify(line).length).toBeLessThan(400);
  });

  it('a rejected push stores no job', async () => {
    await dq.call('POST', '/v1/topics/t/jobs?id=x', { headers: { origin: 'http://evil' }, body: '1' });
    await dq.call('POST', '/v1/topics/t/jobs?id=x', { headers: { authorization: 'Bearer no' }, body: '1' });
    expect((await dq.api('GET', '/v1/topics/t/jobs/x')).status).toBe(404);
  });
});
