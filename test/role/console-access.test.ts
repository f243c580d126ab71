// Tests who may call the API through the console's port: sessions of two halves, their ends, pages of other
// origins, and every route with every scope.
import { beforeEach, describe, expect, it } from 'vitest';
import { en } from '../../src/console/web/words/en.ts';
import { zh } from '../../src/console/web/words/zh.ts';
import { limits } from '../../src/core/limits.ts';
import { halfDigestOf, linkDigestOf, makeSignInLink } from '../../src/core/session.ts';
import { makeToken, type Scope, scopes } from '../../src/core/token.ts';
import { StoreError } from '../../src/ports/store-error.ts';
import { type Halves, halvesIn, sessionAt, startConsole, type TestConsole } from '../support/console.ts';
import { adminToken, bearer } from '../support/intake.ts';
import { answerAsMaster } from '../support/master-answers.ts';
import { andSpecified, nameOf, type Route, routesOf, specifiedScope } from '../support/route-scopes.ts';
import { until } from '../support/until.ts';

const hour = 3_600_000;
let now: number;
let console: TestConsole;
beforeEach(async () => {
  now = Date.now();
  console = await startConsole({
    now: () => now,
    onSend: answerAsMaster,
  });
});

async function makeRegistryToken(
  allowed: readonly Scope[] = ['admin'],
  topics: readonly string[] = ['*'],
  on: TestConsole = console,
  expiresAt: number | null = null,
) {
  const { token, id, digest } = makeToken();
  const name = `t-${id}`;
  const life = { createdAt: 0, expiresAt, usedAt: null };
  await on.registry.createToken({ name, id, digest, scopes: allowed, topics, ...life });
  return { token, name, id };
}

async function makeLink(allowed: readonly Scope[] = ['admin'], topics: readonly string[] = ['*']) {
  const link = makeSignInLink();
  const digest = linkDigestOf(link) as string;
  const endsAt = now + limits.signInLinkMs;
  await console.registry.createSignInLink(
    { digest, name: 'li.wei', scopes: allowed, topics, tokenId: null, endsAt },
    now,
  );
  return link;
}

const signIn = (by: unknown, on: TestConsole = console): Promise<Halves> => sessionAt(on.port, by);
const signInHere = (on?: TestConsole): Promise<Halves> => signIn({}, on);

const post = (halves: Halves, path: string, body: unknown = {}, on: TestConsole = console) =>
  on.send('POST', path, { ...halvesIn(halves), 'content-type': 'application/json' }, JSON.stringify(body));

const hasEnded = (halves: Halves) =>
  until('the session has ended', async () => (await console.status('/v1/me', halves)) === 401);

describe('a session', () => {
  it('without a sign-in: only while no token exists, with all rights', async () => {
    const signedIn = await console.signIn({});
    const rights = { name: 'this machine', scopes: ['admin'], topics: ['*'] };
    expect(signedIn).toMatchObject({ status: 200, json: rights });
    expect(Date.parse(signedIn.json.endsAt)).toBe(now + 12 * hour);
    const halves = signedIn.halves as Halves;
    expect((await console.send('GET', '/v1/me', halvesIn(halves))).json).toMatchObject({
      name: 'this machine',
      tokensExist: false,
      readOnly: false,
      store: 'embedded',
    });
    await makeRegistryToken();
    await hasEnded(halves);
    expect((await console.signIn({})).status).toBe(401);
  });

  it('needs both halves, of one session', async () => {
    const [a, b] = [await signInHere(), await signInHere()];
    expect(await console.status('/v1/topics', a)).toBe(200);
    for (const halves of [
      {},
      { cookie: a.cookie },
      { key: a.key },
      { cookie: a.cookie, key: b.key },
      { cookie: a.cookie, key: '' },
      { cookie: a.cookie, key: `${a.key.slice(0, -1)}${a.key.endsWith('A') ? 'B' : 'A'}` },
      { cookie: a.cookie.replace(/_\d+_/, '_1_'), key: a.key },
      { cookie: a.key, key: a.cookie },
    ])
      expect(await console.status('/v1/topics', halves), JSON.stringify(halves)).toBe(401);
    expect(await console.status('/v1/topics', { ...a, cookie: `other=1; ${a.cookie}; more=2` })).toBe(200);
    // A server on another port of this host can set cookies of this name with a longer path: they come first.
    const [name] = a.cookie.split('=');
    for (const before of [`${name}=`, b.cookie, `${name}=${'x'.repeat(43)}; ${b.cookie}`])
      expect(await console.status('/v1/topics', { ...a, cookie: `${before}; ${a.cookie}` }), before).toBe(
        200,
      );
  });

  it('a caller of the API learns that this is the port of the console', async () => {
    const detailOf = async (headers: Readonly<Record<string, string>>) =>
      (await console.send('GET', '/v1/topics', headers)).json.detail;
    const here = 'this is the port of the console, and the API is at';
    expect(await detailOf({})).toContain(here);
    expect(await detailOf(bearer('dqk_x'))).toContain(here);
    // The page of an ended session
    expect(await detailOf({ 'x-dq-key': 'a' })).toBe('session: missing or ended; sign in again');
  });

  it('the cookie is for this port, for no script and for no other site', async () => {
    const { headers } = await console.signIn({});
    expect(headers['set-cookie']).toEqual([
      expect.stringMatching(
        new RegExp(
          `^dq_console_${console.port}_[0-9a-f]{6}=[\\w-]{43}; Path=/; Max-Age=604800; HttpOnly; SameSite=Strict$`,
        ),
      ),
    ]);
  });

  it('ends after console.sessionIdle without use, and at console.sessionMax', async () => {
    const halves = await signInHere();
    now += 11 * hour;
    expect(await console.status('/v1/me', halves)).toBe(200);
    now += 12 * hour - 1;
    expect(await console.status('/v1/me', halves)).toBe(200);
    now += 12 * hour;
    expect(await console.status('/v1/me', halves)).toBe(401);
    const other = await signInHere();
    for (const end = now + 7 * 24 * hour; now + 6 * hour < end; ) {
      now += 6 * hour;
      expect(await console.status('/v1/me', other)).toBe(200);
    }
    now += 6 * hour;
    expect(await console.status('/v1/me', other)).toBe(401);
  });

  it('records its uses, so that another console knows them', async () => {
    const halves = await signInHere();
    now += 11 * hour;
    expect(await console.status('/v1/me', halves)).toBe(200);
    const at = now;
    await until('the use is recorded', async () => {
      const { sessions } = await console.registry.sessions(-1);
      return sessions?.some(({ usedAt }) => usedAt === at);
    });
  });

  it('by a token: has its name and rights, and ends with it', async () => {
    const { token, name } = await makeRegistryToken(['read'], ['order.*']);
    const halves = await signIn({ token });
    const { json } = await console.send('GET', '/v1/me', halvesIn(halves));
    expect(json).toMatchObject({ name, scopes: ['read'], topics: ['order.*'], tokensExist: true });
    await console.registry.removeToken(name);
    await hasEnded(halves);
  });

  it('by a token that expires: ends with it, and this machine still needs a sign-in', async () => {
    const { token } = await makeRegistryToken(['read'], ['*'], console, now + 60_000);
    const halves = await signIn({ token });
    expect(await console.status('/v1/me', halves)).toBe(200);
    now += 60_000;
    expect(await console.status('/v1/me', halves)).toBe(401);
    expect((await console.signIn({ token })).status).toBe(401);
    expect((await console.signIn({})).status).toBe(401);
  });

  it('is ended by its own sign-out, by its id, and with all others', async () => {
    const [a, b, c, d] = [await signInHere(), await signInHere(), await signInHere(), await signInHere()];
    const out = await console.send('DELETE', '/v1/session', halvesIn(a));
    expect(out).toMatchObject({ status: 200, json: { deleted: true } });
    expect(String(out.headers['set-cookie'])).toMatch(/=; Path=\/; Max-Age=0;/);
    expect(await console.status('/v1/me', a)).toBe(401);
    const { json } = await console.send('GET', '/v1/sessions', halvesIn(b));
    expect(json.items).toHaveLength(3);
    const machine = { name: 'this machine', signedInBy: 'machine', address: '127.0.0.1' };
    expect(json.items[0]).toMatchObject(machine);
    // b asks.
    const own = json.items.filter(({ isOwn }: { isOwn: boolean }) => isOwn);
    const idOf = async (key: string) => {
      const { sessions } = await console.registry.sessions(-1);
      return sessions?.find(({ keyDigest }) => keyDigest === halfDigestOf(key))?.id;
    };
    expect(own.map(({ id }: { id: string }) => id)).toEqual([await idOf(b.key)]);
    expect(JSON.stringify(json)).not.toContain(b.key);
    const { sessions } = await console.registry.sessions(-1);
    const ended = sessions?.at(-1)?.id;
    const removed = await console.send('DELETE', `/v1/sessions/${ended}`, halvesIn(b));
    expect([200, 401]).toContain(removed.status);
    const none = await console.send('DELETE', '/v1/sessions/0123456789ab', halvesIn(await signInHere()));
    expect(none).toMatchObject({ status: 404, json: { code: 'session_not_found' } });
    await console.send('DELETE', '/v1/sessions?all=true', halvesIn(await signInHere()));
    for (const halves of [b, c, d]) await hasEnded(halves);
  });

  it('is listed with the names of its browser and system', async () => {
    const agent = 'Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0';
    const { halves } = await console.signIn({}, { 'user-agent': agent });
    const { json } = await console.send('GET', '/v1/sessions', halvesIn(halves ?? {}));
    const own = json.items.find(({ isOwn }: { isOwn: boolean }) => isOwn);
    expect(own).toMatchObject({ browser: 'Firefox, Linux' });
    await console.send('DELETE', '/v1/session', halvesIn(halves ?? {}));
  });

  it('a second sign-in of a browser ends its first session', async () => {
    const first = await signInHere();
    await console.signIn({}, halvesIn(first));
    expect(await console.status('/v1/me', first)).toBe(401);
    expect((await console.registry.sessions(-1)).sessions).toHaveLength(1);
  });

  it('the registry has digests only, and no log has a secret', async () => {
    const { token } = await makeRegistryToken();
    const halves = await signIn({ token });
    const link = await makeLink();
    await console.signIn({ link });
    await console.signIn({ link });
    await console.status('/v1/topics', { ...halves, key: `${halves.key}x` });
    const stored = JSON.stringify(await console.registry.sessions(-1));
    const logged = JSON.stringify([console.requests, console.errors]);
    for (const secret of [token, link, halves.key, halves.cookie.split('=')[1] as string]) {
      expect(stored).not.toContain(secret);
      expect(logged).not.toContain(secret);
    }
  });
});

describe('a link', () => {
  it('signs in once, with its own rights', async () => {
    const link = await makeLink(['read'], ['order.*']);
    const { halves, json } = await console.signIn({ link });
    expect(json).toMatchObject({ name: 'li.wei', scopes: ['read'], topics: ['order.*'] });
    expect(await console.status('/v1/me', halves as Halves)).toBe(200);
    expect(await console.signIn({ link })).toMatchObject({ status: 401, json: { code: 'unauthorized' } });
  });

  it('of many sign-ins at once one succeeds', async () => {
    const link = await makeLink();
    const replies = await Promise.all(Array.from({ length: 5 }, () => console.signIn({ link })));
    expect(replies.map(({ status }) => status).sort()).toEqual([200, 401, 401, 401, 401]);
    expect((await console.registry.sessions(-1)).sessions).toHaveLength(1);
  });

  it('is rejected when it is late or forged', async () => {
    const link = await makeLink();
    for (const forged of ['', 'dql_', `${link.slice(0, -1)}${link.endsWith('A') ? 'B' : 'A'}`, `${link}A`])
      expect((await console.signIn({ link: forged })).status, forged).toBe(401);
    now += limits.signInLinkMs;
    expect((await console.signIn({ link })).status).toBe(401);
  });

  it('never has more rights than the caller that makes it', async () => {
    const { token } = await makeRegistryToken(['read', 'operate'], ['order.*']);
    const halves = await signIn({ token });
    const make = (body: unknown) => post(halves, '/v1/sign-in-links', body);
    expect((await make({ scopes: ['admin'] })).status).toBe(403);
    expect((await make({ scopes: ['read', 'push'] })).status).toBe(403);
    for (const glob of ['*', 'order*', 'bill.*', '*.close', 'order.'])
      expect((await make({ topics: [glob] })).status, glob).toBe(glob === 'order.' ? 201 : 403);
    const reply = await make({ name: 'a@b', scopes: ['read'], topics: ['order.c*', 'order.x'] });
    expect(reply).toMatchObject({ status: 201, json: { name: 'a@b', publicUrl: null } });
    const { json } = await console.signIn({ link: reply.json.link });
    expect(json).toMatchObject({ name: 'a@b', scopes: ['read'], topics: ['order.c*', 'order.x'] });
    expect((await make({})).json).toMatchObject({ scopes: ['read', 'operate'], topics: ['order.*'] });
  });

  it('makes no further links: a chain of them would outlast console.sessionMax', async () => {
    const reply = await post(await signIn({ link: await makeLink() }), '/v1/sign-in-links');
    expect(reply).toMatchObject({ status: 403, json: { code: 'forbidden' } });
  });

  it('and its session end with the token that made it', async () => {
    const { token, name } = await makeRegistryToken(['read']);
    const halves = await signIn({ token });
    const make = async () => (await post(halves, '/v1/sign-in-links')).json.link as string;
    const [used, unused] = [await make(), await make()];
    const linked = await signIn({ link: used });
    // Another token: without any, this machine needs no sign-in.
    await makeRegistryToken();
    await console.registry.removeToken(name);
    await hasEnded(linked);
    expect((await console.signIn({ link: unused })).status).toBe(401);
  });
});

describe('a request that a page of another origin could send', () => {
  it('is 403, with a session and at a sign-in', async () => {
    const halves = await signInHere();
    const given: readonly (readonly [string, string])[] = [
      ...['http://evil.example', 'null', 'https://127.0.0.1', 'http://127.0.0.1:1'].map(
        (origin) => ['origin', origin] as const,
      ),
      ...['same-site', 'cross-site', 'none'].map((site) => ['sec-fetch-site', site] as const),
      ...[
        ...['evil.example', '127.0.0.1.evil.example:80', 'localhost.evil.example', 'localhost.', '127.1'],
        ...['2130706433', '[::1].evil.example', '127.0.0.1:80:80'],
      ].map((host) => ['host', host] as const),
    ];
    for (const [name, value] of given) {
      const headers = { [name]: value };
      expect(await console.status('/v1/topics', halves, headers), value).toBe(403);
      expect((await console.signIn({}, headers)).status, value).toBe(403);
    }
  });

  it('the own origin passes, and a Host with a name once a token exists', async () => {
    const halves = await signInHere();
    const own = { origin: `http://127.0.0.1:${console.port}`, 'sec-fetch-site': 'same-origin' };
    expect(await console.status('/v1/topics', halves, own)).toBe(200);
    expect(await console.status('/v1/topics', halves, { host: `localhost:${console.port}` })).toBe(200);
    const { token } = await makeRegistryToken();
    const session = await signIn({ token });
    expect(await console.status('/v1/topics', session, { host: 'queue.example' })).toBe(200);
    const named = { host: 'queue.example', origin: 'http://queue.example' };
    expect(await console.status('/v1/topics', session, named)).toBe(200);
  });

  it('a sign-in whose body is not declared as JSON is rejected', async () => {
    for (const type of [{}, { 'content-type': 'text/plain' }])
      expect((await console.send('POST', '/v1/session', type as never, '{}')).status).toBe(415);
  });

  it('tokens are rejected: no bearer, not the one of this start', async () => {
    const halves = await signInHere();
    const { token } = await makeRegistryToken();
    for (const text of [token, adminToken, 'x'])
      for (const more of [{}, halvesIn(halves)])
        expect(await console.status('/v1/topics', {}, { ...bearer(text), ...more })).toBe(403);
    expect((await console.signIn({ token: adminToken })).status).toBe(401);
  });
});

describe('failed sign-ins', () => {
  it('the 11th failure of a minute gets 429, a valid secret signs in; a page that asks for a session without a secret does not count', async () => {
    await makeRegistryToken();
    await until('a sign-in is needed', async () => (await console.signIn({})).status === 401);
    for (let n = 0; n < 10; n += 1) await console.signIn({});
    for (let n = 0; n < 10; n += 1) expect((await console.signIn({ token: 'dqk_x' })).status).toBe(401);
    const wrong = ['dqk_x', 'x', makeToken().token];
    for (const secret of wrong) {
      const reply = await console.signIn({ token: secret });
      expect(reply).toMatchObject({ status: 429, json: { code: 'too_many_sign_ins' } });
      expect(reply.headers['retry-after']).toBe('60');
    }
    // Of another user behind the same proxy, also in the middle of many failures.
    const { token } = await makeRegistryToken(['read']);
    const flood = Array.from({ length: 90 }, () => console.signIn({ link: 'dql_x' }));
    const valid = await Promise.all([console.signIn({ link: await makeLink() }), console.signIn({ token })]);
    expect(valid.map(({ status }) => status)).toEqual([200, 200]);
    expect(new Set((await Promise.all(flood)).map(({ status }) => status))).toEqual(new Set([429]));
  });

  it('more than wait at once keep no known token out', async () => {
    const { token } = await makeRegistryToken(['read']);
    expect((await console.signIn({ token })).status).toBe(200);
    const flood = Array.from({ length: 300 }, () => console.signIn({ token: makeToken().token }));
    const valid = await Promise.all(Array.from({ length: 5 }, () => console.signIn({ token })));
    expect(valid.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200]);
    expect(new Set((await Promise.all(flood)).map(({ json }) => json?.code))).toEqual(
      new Set(['unauthorized', 'too_many_sign_ins']),
    );
  });
});

describe('every route', () => {
  const pathTo = (path: string) => path.replace('{topic}', 'order.close').replace(/\{\w+\}/g, 'nobody');
  /** For the token of this start only, which the console does not take. */
  const ownerOnly = 'POST /v1/backup';

  /** All but those whose own tests call them, with a call that fails for a reply that is not described. */
  async function described(on: TestConsole, halves: Halves) {
    const description = await on.description(halves);
    const all = routesOf(description);
    const routes = all.filter(({ path }) => path !== '/v1/session' && path !== '/');
    const call = on.described(description);
    const status = async ({ method, path }: Route, headers: Record<string, string>) =>
      (await call(method, pathTo(path), { headers })).status;
    return { all, routes, status };
  }

  async function signInByLink(allowed: readonly Scope[], topics: readonly string[]) {
    return halvesIn(await signIn({ link: await makeLink(allowed, topics) }));
  }

  it('has its specified scope, those of this port too', async () => {
    const { all } = await described(console, await signInHere());
    for (const route of all) {
      expect(route.scope, nameOf(route)).toBe(specifiedScope(route));
      expect(route.andScope, nameOf(route)).toBe(andSpecified[nameOf(route)] ?? null);
    }
    const own = all.filter(({ path }) => /^\/v1\/(session|trial|doctor)$/.test(path)).map(nameOf);
    expect(own.sort()).toEqual(
      [
        ...['POST /v1/session', 'DELETE /v1/session', 'GET /v1/doctor', 'POST /v1/doctor'],
        ...['GET /v1/trial', 'POST /v1/trial', 'DELETE /v1/trial'],
      ].sort(),
    );
  });

  it('that is recorded has a name in the audit log, in both languages', async () => {
    const description = await console.description(await signInHere());
    const open = ['signIn', 'signOut', 'createSignInLink'];
    const recorded = Object.values(description.paths).flatMap((operations) =>
      Object.entries(operations).flatMap(([method, operation]) => {
        const { operationId, security } = operation as unknown as {
          operationId: string;
          security: readonly { bearer?: readonly string[] }[];
        };
        const scope = security.at(-1)?.bearer?.[0] ?? '';
        const changes = method !== 'get' && ['operate', 'admin'].includes(scope);
        return changes || open.includes(operationId) ? [`act_${operationId}`] : [];
      }),
    );
    expect(recorded.length).toBeGreaterThan(30);
    expect(recorded.filter((key) => !(key in en) || !(key in zh))).toEqual([]);
  });

  it('is for its scope and its topics only', async () => {
    const { routes, status } = await described(console, await signInHere());
    expect(routes.length).toBeGreaterThan(40);
    await makeRegistryToken();
    await until('a sign-in is needed', async () => (await console.signIn({})).status === 401);
    for (const route of routes)
      expect(await status(route, {}), `${nameOf(route)} without a session`).toBe(
        route.scope === null ? 200 : 401,
      );
    for (const held of scopes) {
      const [of, other] = [await signInByLink([held], ['*']), await signInByLink([held], ['bill.*'])];
      for (const route of routes) {
        const name = `${held} on ${nameOf(route)}`;
        const mayPass =
          nameOf(route) !== ownerOnly &&
          (route.andScope === null || held === 'admin') &&
          [null, 'known', held].includes(held === 'admin' ? held : route.scope);
        if (mayPass) expect([401, 403], name).not.toContain(await status(route, of));
        else expect(await status(route, of), name).toBe(403);
        if (route.path.includes('{topic}'))
          expect(await status(route, other), `${name}, of another topic`).toBe(403);
      }
    }
  });

  // By hand: a new route that names no topic in its path is for sessions of all topics until it is listed.
  const ofSomeTopics = [
    ...['GET /openapi.json', 'GET /livez', 'GET /readyz', 'GET /v1/me', 'GET /v1/processes'],
    ...['POST /v1/sign-in-links', 'POST /v1/rules/test'],
    ...['GET /v1/topics', 'POST /v1/topics', 'POST /v1/topics/preview', 'GET /v1/stats', 'GET /v1/summary'],
    ...['GET /v1/series', 'GET /v1/series/topics', 'GET /v1/horizon'],
    ...['GET /v1/attempts', 'GET /v1/endpoints'],
    ...['GET /v1/dead', 'GET /v1/dead/groups', 'POST /v1/dead/requeue', 'DELETE /v1/dead'],
    ...['GET /v1/jobs', 'POST /v1/jobs', 'GET /v1/audit'],
    ...['POST', 'GET'].map((method) => `${method} /v1/schedules`),
    'POST /v1/schedules/preview',
    ...['GET', 'PATCH', 'DELETE'].map((method) => `${method} /v1/schedules/{name}`),
    ...['pause', 'resume', 'run'].map((verb) => `POST /v1/schedules/{name}/${verb}`),
    ...['POST', 'GET'].map((method) => `${method} /v1/operations`),
    ...['GET', 'DELETE'].map((method) => `${method} /v1/operations/{id}`),
  ];

  it('of the whole daemon is 403 for a session of some topics', async () => {
    const { routes, status } = await described(console, await signInHere());
    const some = await signInByLink(['admin'], ['bill.*']);
    const ofAll = routes.filter(
      (route) => !route.path.includes('{topic}') && !ofSomeTopics.includes(nameOf(route)),
    );
    expect(ofAll.length).toBeGreaterThan(15);
    for (const route of ofAll) expect(await status(route, some), nameOf(route)).toBe(403);
  });

  it('shows and changes nothing of a topic that the session does not cover', async () => {
    const here = halvesIn(await signInHere());
    const as = async (headers: Record<string, string>, method: string, path: string, body?: unknown) =>
      console.send(
        method,
        path,
        body === undefined ? headers : { ...headers, 'content-type': 'application/json' },
        body === undefined ? undefined : JSON.stringify(body),
      );
    const [topic, id] = ['geheim.lager', 'geheim-4711'];
    const made = await as(here, 'POST', '/v1/topics', { topic, callbackUrl: 'http://127.0.0.1:9/' });
    expect(made.status).toBe(201);
    const pushed = await as(here, 'POST', `/v1/topics/${topic}/jobs?id=${id}&delay=1h`, { of: id });
    expect(pushed.status).toBe(201);
    const began = await as(here, 'POST', '/v1/operations', { kind: 'run', filter: { topic }, rate: 1 });
    expect(began.status).toBe(202);
    const job = async () => {
      const { version, state, dueAt } = (await as(here, 'GET', `/v1/topics/${topic}/jobs/${id}`)).json;
      return { version, state, dueAt };
    };
    await until('the audit log has it', async () =>
      (await as(here, 'GET', '/v1/audit')).body.includes('createOperation'),
    );
    const before = await job();
    expect(before.state).toBe('delayed');
    const some = await signInByLink(['admin'], ['bill.*']);

    for (const path of ofSomeTopics.flatMap((name) => /^GET (.*)$/.exec(name)?.[1] ?? [])) {
      if (path === '/openapi.json' || path.includes('{')) continue;
      const { status, body } = await as(some, 'GET', path);
      // 503: the master of this test has no dq-upkeep.
      expect([200, 400, 403, 503], path).toContain(status);
      expect(body.toString(), path).not.toContain('geheim');
    }
    for (const path of [
      ...['/v1/jobs', '/v1/dead', '/v1/dead/groups', '/v1/horizon', '/v1/series', '/v1/audit'],
      ...['/v1/attempts', '/v1/endpoints'],
    ])
      expect((await as(some, 'GET', `${path}?topic=${topic}`)).status, path).toBe(403);
    for (const query of [`id=${id}`, 'idPrefix=geh', `body=${id}`])
      expect((await as(some, 'GET', `/v1/jobs?${query}`)).body.toString(), query).not.toContain(topic);
    expect((await as(some, 'GET', `/v1/series/topics?names=${topic}`)).status).toBe(403);
    for (const method of ['GET', 'DELETE'])
      expect((await as(some, method, `/v1/operations/${began.json.id}`)).status, method).toBe(404);

    const callbackUrl = 'http://127.0.0.1:9/';
    const changes: readonly (readonly [string, string, unknown])[] = [
      ['POST', '/v1/topics', { topic: 'geheim.neu', callbackUrl }],
      ['POST', '/v1/topics/preview', { topic, callbackUrl }],
      ['POST', '/v1/operations', { kind: 'cancel', filter: { topic } }],
      ['POST', '/v1/dead/requeue', { topic }],
      ['POST', '/v1/dead/requeue', { all: true }],
      ['DELETE', `/v1/dead?topic=${topic}`, undefined],
      ['DELETE', '/v1/dead?all=true', undefined],
    ];
    for (const [method, path, body] of changes)
      expect((await as(some, method, path, body)).status, `${method} ${path}`).toBe(403);
    const batch = await as(some, 'POST', '/v1/jobs', [{ topic, id, body: 1 }]);
    expect(batch.json).toMatchObject({ accepted: 0, failed: 1, results: [{ status: 403 }] });
    const all = await as(some, 'POST', '/v1/operations', { kind: 'cancel', all: true });
    expect(all.json).toMatchObject({ topics: ['bill.*'] });
    expect(await job()).toEqual(before);
  });

  it('with console.readOnly every session only reads', async () => {
    const readOnly = await startConsole({ config: { 'console.readOnly': true }, onSend: answerAsMaster });
    const halves = await signInHere(readOnly);
    expect((await readOnly.send('GET', '/v1/me', halvesIn(halves))).json).toMatchObject({
      scopes: ['read'],
      readOnly: true,
    });
    const { routes, status } = await described(readOnly, halves);
    for (const route of routes) {
      const reads = [null, 'known', 'read'].includes(route.scope);
      if (reads) expect([401, 403], nameOf(route)).not.toContain(await status(route, halvesIn(halves)));
      else expect(await status(route, halvesIn(halves)), nameOf(route)).toBe(403);
    }
    expect((await readOnly.send('DELETE', '/v1/session', halvesIn(halves))).status).toBe(200);
  });

  it('with console.readOnly no link outlives what its session came from', async () => {
    const readOnly = await startConsole({ config: { 'console.readOnly': true } });
    const make = async (body: unknown) =>
      await post(await signIn(body, readOnly), '/v1/sign-in-links', {}, readOnly);
    expect((await make({})).status).toBe(403);
    const { token } = await makeRegistryToken(['admin'], ['*'], readOnly);
    // The session by this link ends with the token.
    const made = await make({ token });
    expect(made.json).toMatchObject({ scopes: ['read'] });
    expect((await make({ link: made.json.link })).status).toBe(403);
  });
});

describe('behind a proxy', () => {
  const proxied = (publicUrl: string) => startConsole({ config: { 'console.publicUrl': publicUrl } });

  it('only the public origin is accepted, and the cookie is for https', async () => {
    const behind = await proxied('https://ops.example.org/dq');
    const { token } = await makeRegistryToken(['admin'], ['*'], behind);
    const origin = { origin: 'https://ops.example.org' };
    const { headers, halves } = await behind.signIn({ token }, origin);
    expect(String(headers['set-cookie'])).toMatch(
      new RegExp(`^__Host-dq_console_${behind.port}_[0-9a-f]{6}=.*; Path=/; .*; SameSite=Strict; Secure$`),
    );
    expect(await behind.status('/v1/me', halves as Halves, origin)).toBe(200);
    expect(await behind.status('/dq/v1/me', halves as Halves, origin)).toBe(200);
    const direct = { origin: `http://127.0.0.1:${behind.port}` };
    expect(await behind.status('/v1/me', halves as Halves, direct)).toBe(403);
  });

  it('no session without a sign-in: the proxy calls from this machine for others', async () => {
    expect((await (await proxied('http://ops.example.org')).signIn({})).status).toBe(401);
  });
});

describe('while the registry is unavailable', () => {
  it('known sessions continue, and a sign-in is 503', async () => {
    let isAway = false;
    const broken = await startConsole({
      registry: (registry) =>
        new Proxy(registry, {
          get(target, name: keyof typeof registry) {
            const value: unknown = target[name];
            if (typeof value !== 'function') return value;
            return isAway && name !== 'onChange'
              ? () => Promise.reject(new StoreError({ kind: 'not_stored', code: 'unreachable' }))
              : value.bind(target);
          },
        }),
    });
    const halves = await signInHere(broken);
    isAway = true;
    expect(await broken.status('/v1/me', halves)).toBe(200);
    expect(await broken.signIn({})).toMatchObject({ status: 503, json: { code: 'not_stored' } });
    isAway = false;
  });
});
