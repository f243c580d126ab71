// Tests authentication and authorization of every route, over real sockets, with tokens in a real registry.
import { createServer } from 'node:http';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { Access } from '../../src/api/http/access.ts';
import { accessCheck } from '../../src/api/http/route-access.ts';
import { digestOf, type Scope, scopes } from '../../src/core/token.ts';
import { TokenBook } from '../../src/registry/token-book.ts';
import { silentLog } from '../../src/telemetry/log.ts';
import { adminToken, bearer, startIntake, type TestIntake } from '../support/intake.ts';
import { listening } from '../support/listening.ts';
import { answerAsMaster } from '../support/master-answers.ts';
import { problem } from '../support/problem.ts';
import { nameOf, type Route, routesOf, specifiedScope } from '../support/route-scopes.ts';
import { until } from '../support/until.ts';

let dq: TestIntake;
beforeEach(async () => {
  dq = await startIntake({
    onSend: answerAsMaster,
  });
});

const routes = () => routesOf(dq.description);

const pathTo = (path: string, topic = 'order.close') =>
  path.replace('{topic}', topic).replace(/\{\w+\}/g, 'nobody');

/** An invalid request, so that an admitted caller changes nothing. */
async function ask({ method, path }: Route, token: string | null, topic?: string) {
  const reply = await dq.call(method, pathTo(path, topic), {
    headers: token === null ? {} : bearer(token),
  });
  return { status: reply.status, code: reply.body.code, headers: reply.headers };
}

async function make(allowed: readonly string[], topics?: readonly string[]): Promise<string> {
  made += 1;
  const reply = await dq.call('POST', '/v1/tokens', {
    headers: { 'content-type': 'application/json', ...bearer(adminToken) },
    body: JSON.stringify({ name: `t${made}`, scopes: allowed, ...(topics === undefined ? {} : { topics }) }),
  });
  expect(reply.status).toBe(201);
  return reply.body.token;
}
let made = 0;

const as = (token: string, body?: unknown): RequestInit => ({
  headers: { ...bearer(token), ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
  ...(body === undefined ? {} : { body: JSON.stringify(body) }),
});

describe('routes', () => {
  it('each needs its specified scope', () => {
    for (const route of routes()) expect(route.scope, nameOf(route)).toBe(specifiedScope(route));
  });

  it('a route without a declared access does not start', () => {
    expect(() => accessCheck({ method: 'GET', url: '/v1/new', config: {} })).toThrow(/must declare/);
    expect(() => accessCheck({ method: 'GET', url: '/v1/new' })).toThrow(/must declare/);
    const access = { scope: 'read', topics: 'path' };
    expect(() => accessCheck({ method: 'GET', url: '/v1/new', config: { access } })).toThrow(/path/);
  });

  it('once a token exists, only the open routes need none', async () => {
    await make(['push']);
    const wrong = [
      '',
      'Bearer',
      'Bearer x',
      'Basic ZHE6ZHE=',
      `Bearer dqk_${'0'.repeat(12)}_${'A'.repeat(43)}`,
    ];
    for (const route of routes()) {
      const { status, headers } = await ask(route, null);
      if (route.scope === null) {
        expect(status, route.path).toBe(200);
        continue;
      }
      expect(status, `${route.method} ${route.path}`).toBe(401);
      expect(headers.get('www-authenticate')).toBe('Bearer');
      for (const authorization of wrong) {
        const init = { headers: { authorization } };
        const { status } = await dq.call(route.method, pathTo(route.path), init);
        expect(status, `${route.method} ${route.path} ${authorization}`).toBe(401);
      }
    }
    expect((await dq.call('GET', '/nowhere')).status).toBe(401);
    const detailOf = async (authorization: string) =>
      (await dq.call('GET', '/v1/topics', { headers: { authorization } })).body.detail;
    for (const authorization of [wrong[4]?.slice('Bearer '.length) ?? '', 'Bearer', 'Basic ZHE6ZHE='])
      expect(await detailOf(authorization)).toContain('must be the word Bearer, a blank and a token');
    expect(await detailOf(wrong[4] ?? '')).toContain('unknown or expired token');
  });

  it('each accepts a token with its scope or admin; others are 403', async () => {
    for (const held of scopes) {
      const token = await make([held]);
      for (const route of routes()) {
        const { status, code } = await ask(route, token);
        const name = `${held} on ${route.method} ${route.path}`;
        // Writes files on this machine: only for the token of this start.
        const ownerOnly = route.method === 'POST' && route.path === '/v1/backup';
        const lacksSecond = route.andScope !== null && held !== 'admin';
        if (
          !ownerOnly &&
          !lacksSecond &&
          [null, 'known', held, held === 'admin' ? route.scope : held].includes(route.scope)
        )
          expect([401, 403], name).not.toContain(status);
        else expect({ status, code }, name).toEqual({ status: 403, code: 'forbidden' });
      }
      const nowhere = await dq.call('GET', '/nowhere', { headers: bearer(token) });
      expect(nowhere).toMatchObject(problem(404, 'no_route'));
    }
  });

  it('topic routes are 403 for a token of other topics, existing or not', async () => {
    await dq.call(
      'POST',
      '/v1/topics',
      as(adminToken, { topic: 'bill.send', callbackUrl: 'http://127.0.0.1:9/' }),
    );
    const token = await make([...scopes], ['order.*']);
    const ofTopics = routes().filter(({ path }) => path.includes('{topic}'));
    expect(ofTopics.length).toBeGreaterThan(8);
    for (const route of ofTopics) {
      const name = `${route.method} ${route.path}`;
      for (const topic of ['bill.send', 'bill.none', 'order', 'ORDER.close'])
        expect(await ask(route, token, topic), name).toMatchObject({ status: 403, code: 'forbidden' });
      expect([401, 403], name).not.toContain((await ask(route, token, 'order.close')).status);
    }
  });

  it('/v1/tokens rejects a token that covers some topics only', async () => {
    const token = await make(['admin'], ['order.*', '*.close']);
    const body = { name: 'mine', scopes: ['admin'] };
    expect((await dq.call('POST', '/v1/tokens', as(token, body))).status).toBe(403);
    expect((await dq.call('DELETE', '/v1/tokens/t1', as(token))).status).toBe(403);
    expect((await dq.call('GET', '/v1/tokens', as(token))).status).toBe(403);
  });
});

describe('calls over several topics', () => {
  let some: string;
  let all: string;
  beforeEach(async () => {
    for (const topic of ['order.close', 'order.open', 'bill.send'])
      await dq.api('POST', '/v1/topics', { topic, callbackUrl: 'http://127.0.0.1:9/' });
    some = await make([...scopes], ['order.*']);
    all = await make([...scopes]);
  });

  it('lists and statistics show the topics of the token', async () => {
    const listed = async (token: string) =>
      (await dq.call('GET', '/v1/topics', as(token))).body.items.map(({ topic }: { topic: string }) => topic);
    expect(await listed(some)).toEqual(['order.close', 'order.open']);
    expect(await listed(all)).toEqual(['bill.send', 'order.close', 'order.open']);
    await dq.call('POST', '/v1/topics/bill.send/jobs', as(all, {}));
    const { body } = await dq.call('GET', '/v1/stats', as(some));
    expect(body.topics.map(({ topic }: { topic: string }) => topic)).toEqual(['order.close', 'order.open']);
    expect(body.states).toMatchObject({ ready: 0 });
    expect((await dq.call('GET', '/v1/stats', as(all))).body.states).toMatchObject({ ready: 1 });
  });

  it('creating a topic needs a token that covers it', async () => {
    const topic = (name: string) => ({ topic: name, callbackUrl: 'http://127.0.0.1:9/' });
    expect((await dq.call('POST', '/v1/topics', as(some, topic('order.new')))).status).toBe(201);
    expect((await dq.call('POST', '/v1/topics', as(some, topic('bill.new')))).status).toBe(403);
    expect(await dq.registry.get('bill.new')).toBeNull();
  });

  it('the request log has every rejected push and cancel', async () => {
    const line = { version: null, dueAt: null, ms: null };
    const last = () => ({ ...dq.requests.at(-1) });
    const job = '/v1/topics/order.close/jobs';
    const asked = async (method: string, path: string, init: RequestInit = {}) => {
      const before = dq.requests.length;
      const { status } = await dq.call(method, path, init);
      return [status, dq.requests.length - before];
    };
    expect(await asked('POST', `${job}?id=a%2Fb&delay=1s`)).toEqual([401, 1]);
    expect(last()).toEqual({
      ...line,
      ...{ method: 'POST', topic: 'order.close', id: 'a/b', status: 401, code: 'unauthorized', bytes: 0 },
    });
    const stranger = { headers: bearer('dqk_unknown') };
    expect(await asked('DELETE', `${job}/%E8%AE%A2`, stranger)).toEqual([401, 1]);
    expect(last()).toMatchObject({ ...line, method: 'DELETE', topic: 'order.close', id: '订', status: 401 });
    expect(await asked('POST', '/v1/jobs', stranger)).toEqual([401, 1]);
    expect(last()).toMatchObject({ ...line, method: 'POST', topic: null, id: null, status: 401 });
    expect(await asked('POST', `${job.replace('order', '%ff')}`)).toEqual([401, 1]);
    expect(last()).toMatchObject({ topic: '%ff.close', id: null });
    expect(await asked('POST', job.replace('order.close', 'bill.send'), as(some, 1))).toEqual([403, 1]);
    expect(last()).toMatchObject({ ...line, topic: 'bill.send', status: 403, code: 'forbidden' });
    for (const [method, path] of [
      ['GET', `${job}/a`],
      ['GET', '/v1/jobs'],
      ['POST', `${job}/a/run`],
      ['POST', '/v1/topics'],
      ['GET', '/jobs'],
    ] as const)
      expect(await asked(method, path), path).toEqual([401, 0]);
    expect(JSON.stringify(dq.requests)).not.toContain('dqk_');
  });

  it('each item of a batch is authorized by itself', async () => {
    const items = ['order.close', 'bill.send', 'bill.none', 'order.open'].map((topic) => ({
      topic,
      body: 1,
    }));
    const { status, body } = await dq.call('POST', '/v1/jobs', as(some, items));
    expect(status).toBe(200);
    expect(body).toMatchObject({ accepted: 2, failed: 2 });
    expect(body.results.map((result: { status: number }) => result.status)).toEqual([201, 403, 403, 201]);
    expect((await dq.store.admin.counts()).topics).toMatchObject({ 'order.close': {}, 'order.open': {} });
    expect((await dq.store.admin.counts()).topics).not.toHaveProperty('bill.send');
  });

  it('dead letters: the filter names a covered topic, or the token covers all', async () => {
    const status = async (token: string, body: unknown) =>
      (await dq.call('POST', '/v1/dead/requeue', as(token, body))).status;
    expect(await status(some, { topic: 'order.close' })).toBe(200);
    expect(await status(some, { topic: 'bill.send' })).toBe(403);
    expect(await status(some, { all: true })).toBe(403);
    expect(await status(some, { since: 0 })).toBe(403);
    expect(await status(all, { all: true })).toBe(200);
    const listed = async (token: string, query: string) =>
      (await dq.call('GET', `/v1/dead${query}`, as(token))).status;
    expect(await listed(some, '?topic=order.close')).toBe(200);
    expect(await listed(some, '?topic=bill.send')).toBe(403);
    expect(await listed(some, '')).toBe(403);
    expect(await listed(all, '')).toBe(200);
    const purged = async (token: string, query: string) =>
      (await dq.call('DELETE', `/v1/dead${query}`, as(token))).status;
    expect(await purged(some, '?topic=order.close')).toBe(200);
    expect(await purged(some, '?topic=bill.send')).toBe(403);
    expect(await purged(some, '?all=true')).toBe(403);
    expect(await purged(all, '?all=true')).toBe(200);
  });

  it('calls about the whole daemon need a token for every topic', async () => {
    for (const path of ['/v1/alerts', '/v1/tokens']) {
      expect((await dq.call('GET', path, as(some))).status, path).toBe(403);
      expect((await dq.call('GET', path, as(all))).status, path).toBe(200);
    }
    const test = (token: string) => dq.call('POST', '/v1/alerts/test', as(token, { to: 'nobody' }));
    expect((await test(some)).status).toBe(403);
    expect((await test(all)).status).toBe(400);
  });
});

describe('/v1/tokens', () => {
  it('shows a token once and stores only its digest', async () => {
    const { status, body } = await dq.api('POST', '/v1/tokens', {
      name: 'shop',
      scopes: ['push', 'read'],
      topics: ['order.*'],
    });
    expect(status).toBe(201);
    const { token, ...rest } = body;
    expect(token).toMatch(new RegExp(`^dqk_${rest.id}_[A-Za-z0-9_-]{43}$`));
    expect(rest).toMatchObject({ name: 'shop', scopes: ['push', 'read'], topics: ['order.*'] });
    expect(Date.parse(rest.createdAt)).toBeGreaterThan(Date.now() - 60_000);
    const list = await dq.call('GET', '/v1/tokens', as(token.replace('shop', '')));
    expect(list.status, 'a token for some topics').toBe(403);
    expect((await dq.call('GET', '/v1/tokens', as(adminToken))).body).toEqual({ items: [rest] });
    const stored = await dq.registry.tokens(-1);
    expect(stored.tokens).toMatchObject([{ name: 'shop', digest: digestOf(token).toString('hex') }]);
    expect(JSON.stringify(stored)).not.toContain(token.slice(-43));
  });

  it('a token without topics covers every topic', async () => {
    const { body } = await dq.api('POST', '/v1/tokens', { name: 'a', scopes: ['read'] });
    expect(body.topics).toEqual(['*']);
  });

  it('a name is unique, and free again after its token is removed', async () => {
    const body = { name: 'a', scopes: ['push'] };
    expect((await dq.api('POST', '/v1/tokens', body)).status).toBe(201);
    const again = await dq.call('POST', '/v1/tokens', as(adminToken, body));
    expect(again).toMatchObject(problem(409, 'token_exists'));
    const gone = await dq.call('DELETE', '/v1/tokens/a', as(adminToken));
    expect(gone).toMatchObject({ status: 200, body: { deleted: true } });
    expect((await dq.api('DELETE', '/v1/tokens/a')).body.code).toBe('token_not_found');
    expect((await dq.api('POST', '/v1/tokens', body)).status).toBe(201);
  });

  it.each([
    [{ scopes: ['push'] }, 'name'],
    [{ name: '', scopes: ['push'] }, 'name'],
    [{ name: '-a', scopes: ['push'] }, 'name'],
    [{ name: 'x'.repeat(65), scopes: ['push'] }, 'name'],
    [{ name: 'a' }, 'scopes'],
    [{ name: 'a', scopes: [] }, 'scopes'],
    [{ name: 'a', scopes: ['all'] }, 'scopes[0]'],
    [{ name: 'a', scopes: ['push', 'push'] }, 'scopes'],
    [{ name: 'a', scopes: ['push'], topics: [] }, 'topics'],
    [{ name: 'a', scopes: ['push'], topics: ['order/*'] }, 'topics[0]'],
    [{ name: 'a', scopes: ['push'], topics: Array(51).fill('a') }, 'topics'],
    [{ name: 'a', scopes: ['push'], token: 'dqk_x' }, 'token'],
  ])('%j is rejected by field name, and no token is made', async (body, field) => {
    const reply = await dq.api('POST', '/v1/tokens', body);
    expect(reply.status).toBe(400);
    expect(reply.body.errors.map((error: { field: string }) => error.field)).toContain(field);
    expect((await dq.registry.tokens(-1)).tokens).toEqual([]);
  });

  it('the message of a bad name or topic describes a good one', async () => {
    const body = { name: '', scopes: ['push'], topics: ['order/*'] };
    const first = (await dq.api('POST', '/v1/tokens', body)).body.errors;
    const second = (await dq.api('POST', '/v1/tokens', { ...body, name: 'a' })).body.errors;
    expect([...first, ...second]).toEqual([
      { field: 'name', message: 'must be 1 to 64 of A-Z a-z 0-9 . _ - beginning with a letter or digit' },
      { field: 'topics[0]', message: 'must be 1 to 128 of A-Z a-z 0-9 . _ - and *' },
    ]);
  });

  it('every character of a token counts, not only its readable part', async () => {
    const token = await make(['read']);
    expect((await dq.call('GET', '/v1/topics', as(token))).status).toBe(200);
    for (const at of [17, 30, token.length - 1]) {
      const other = token[at] === 'A' ? 'B' : 'A';
      const forged = token.slice(0, at) + other + token.slice(at + 1);
      expect((await dq.call('GET', '/v1/topics', as(forged))).status, `character ${at}`).toBe(401);
    }
  });

  it('the process that removes a token rejects it at once', async () => {
    await make(['admin']);
    const token = await make(['read']);
    expect((await dq.call('GET', '/v1/topics', as(token))).status).toBe(200);
    await dq.call('DELETE', `/v1/tokens/t${made}`, as(adminToken));
    expect((await dq.call('GET', '/v1/topics', as(token))).status).toBe(401);
  });

  it('a token in a URL is an unknown parameter', async () => {
    const token = await make(['read']);
    for (const name of ['token', 'access_token']) {
      expect((await dq.call('GET', `/v1/topics?${name}=${token}`)).status).toBe(401);
      const named = await dq.call('GET', `/v1/topics?${name}=${token}`, as(token));
      expect(named).toMatchObject({ status: 400, body: { errors: [{ field: name }] } });
      expect(JSON.stringify(named.body)).not.toContain(token);
    }
    expect(JSON.stringify([dq.requests, dq.errors])).not.toContain(token);
  });
});

describe('without any token', () => {
  it('dq serves this machine; the Host and Origin rule holds until a token exists', async () => {
    const from = async (header: string, token = '') => {
      const connection = dq.open();
      const authorization = token === '' ? '' : `authorization: Bearer ${token}\r\n`;
      connection.send(`GET /v1/topics HTTP/1.1\r\n${header}\r\n${authorization}connection: close\r\n\r\n`);
      return (await connection.closed).slice(9, 12);
    };
    expect(await from('host: 127.0.0.1')).toBe('200');
    expect(await from('host: dq.example.org')).toBe('403');
    expect(await from('host: localhost\r\norigin: http://localhost')).toBe('403');
    expect(await from('host: dq.example.org', adminToken)).toBe('403');
    const token = await make(['read']);
    expect(await from('host: dq.example.org')).toBe('401');
    expect(await from('host: dq.example.org', token)).toBe('200');
    expect(await from('host: localhost\r\norigin: http://localhost', token)).toBe('200');
    expect(await from('x: no host at all', token)).toBe('400');
    await dq.call('DELETE', `/v1/tokens/t${made}`, as(adminToken));
    expect(await from('host: 127.0.0.1')).toBe('200');
    expect(await from('host: dq.example.org')).toBe('403');
  });

  it('the token of this start is accepted, and does not count as a token', async () => {
    expect((await dq.call('GET', '/v1/tokens', as(adminToken))).body).toEqual({ items: [] });
    expect((await dq.api('GET', '/v1/topics')).status).toBe(200);
  });
});

describe('Access', () => {
  async function serving(options: { readonly servesStrangers: boolean; readonly book?: TokenBook }) {
    const tokens = options.book ?? new TokenBook(dq.registry, silentLog);
    await tokens.refresh().catch(() => undefined);
    const access = new Access({ adminToken, tokens, servesStrangers: options.servesStrangers });
    const server = createServer((request, response) => {
      const admitted = access.admit(request);
      response.end('code' in admitted ? admitted.code : 'admitted');
    });
    const port = await listening(server);
    return async (path: string, token: string | null, method = 'GET') => {
      const headers = token === null ? {} : bearer(token);
      return (await fetch(`http://127.0.0.1:${port}${path}`, { method, headers })).text();
    };
  }

  it('reachable from other machines: removing the last token admits no caller', async () => {
    const ask = await serving({ servesStrangers: false });
    expect(await ask('/v1/topics', null)).toBe('unauthorized');
    expect(await ask('/v1/topics', adminToken)).toBe('admitted');
    expect(await ask('/livez', null)).toBe('admitted');
  });

  it('before dq has read the tokens, it serves only the command line', async () => {
    const token = await make(['read']);
    let away = true;
    const registry = {
      ...dq.registry,
      tokens: (since: number) =>
        away ? Promise.reject(new Error('the registry is unavailable')) : dq.registry.tokens(since),
    };
    const book = new TokenBook(registry, silentLog);
    const ask = await serving({ servesStrangers: true, book });
    expect(await ask('/v1/topics', null)).toBe('unavailable');
    expect(await ask('/v1/topics', token)).toBe('unavailable');
    expect(await ask('/v1/topics', null, 'POST')).toBe('not_stored');
    expect(await ask('/v1/topics', adminToken)).toBe('admitted');
    expect(await ask('/livez', null)).toBe('admitted');
    away = false;
    await book.refresh();
    expect(await ask('/v1/topics', null)).toBe('unauthorized');
    expect(await ask('/v1/topics', token)).toBe('admitted');
    away = true;
    await expect(book.refresh()).rejects.toThrow('unavailable');
    expect(await ask('/v1/topics', token)).toBe('admitted');
  });

  it('an older registry answer does not restore a removed token', async () => {
    const token = await make(['read']);
    const old = await dq.registry.tokens(-1);
    let answerOld: () => void = () => undefined;
    let first = true;
    const registry = {
      ...dq.registry,
      tokens: async (since: number) => {
        if (!first) return dq.registry.tokens(since);
        first = false;
        await new Promise<void>((resolve) => {
          answerOld = resolve;
        });
        return old;
      },
    };
    const book = new TokenBook(registry, silentLog);
    const slow = book.refresh();
    await dq.call('DELETE', `/v1/tokens/t${made}`, as(adminToken));
    await book.refresh();
    answerOld();
    await slow;
    expect(book.rightsOf(token, digestOf(token))).toBeNull();
  });

  it('another process learns a changed token set by itself', async () => {
    const book = new TokenBook(dq.registry, silentLog);
    await book.start();
    onTestFinished(() => book.drain(1_000));
    expect(book.count).toBe(0);
    const token = await make(['read'] satisfies Scope[]);
    await until('it is known', () => book.rightsOf(token, digestOf(token)) !== null);
    await dq.call('DELETE', `/v1/tokens/t${made}`, as(adminToken));
    await until('it is gone', () => book.count === 0);
  });
});
