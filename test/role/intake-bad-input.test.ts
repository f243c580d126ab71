// Tests bad input generated from /openapi.json: every route × its path, its query and its body. /openapi.json
// describes every reply, the reply names the mistake, and no reply is a server failure.
import { beforeEach, describe, expect, it } from 'vitest';
import { adminToken, bearer, startIntake, type TestIntake } from '../support/intake.ts';
import { answerAsMaster } from '../support/master-answers.ts';
import { words } from '../support/words.ts';

let dq: TestIntake;
beforeEach(async () => {
  dq = await startIntake({
    onSend: answerAsMaster,
  });
  await dq.api('POST', '/v1/topics', { topic: 't', callbackUrl: 'http://127.0.0.1:9000/' });
});

interface Route {
  readonly method: string;
  readonly template: string;
  readonly path: string;
  readonly query: readonly string[];
  /** fields of its JSON body; null for a route without a body, with a list, or with any bytes */
  readonly members: readonly string[] | null;
  /** a body with the required fields, so that only an added field is wrong */
  readonly needed: Readonly<Record<string, unknown>>;
}

interface BodySchema {
  readonly properties?: Readonly<Record<string, { readonly type?: string }>>;
  readonly required?: readonly string[];
}

function routes(): readonly Route[] {
  return Object.entries(dq.description.paths).flatMap(([template, operations]) =>
    Object.entries(operations).map(([method, operation]) => {
      const { parameters = [], requestBody } = operation as unknown as {
        parameters?: { in: string; name: string }[];
        requestBody?: { content: Record<string, { schema: BodySchema }> };
      };
      const { properties, required = [] } = requestBody?.content['application/json']?.schema ?? {};
      return {
        method: method.toUpperCase(),
        template,
        path: template.replace('{topic}', 't').replace(/\{\w+\}/g, 'a'),
        query: parameters.filter((parameter) => parameter.in === 'query').map(({ name }) => name),
        members: properties === undefined ? null : Object.keys(properties),
        needed: Object.fromEntries(
          required.map((name) => [name, properties?.[name]?.type === 'array' ? ['read'] : 'a']),
        ),
      };
    }),
  );
}

/** It looks at the body when it has found the job, and takes any content type, as a push does. */
const editsJob = ({ method, template }: Route): boolean =>
  method === 'PATCH' && template === '/v1/topics/{topic}/jobs/{id}';

async function send(route: Route, path: string, body?: string | Buffer) {
  const { method } = route;
  // The token that every route accepts.
  const headers: Record<string, string> = bearer(adminToken);
  if (editsJob(route))
    headers['if-match'] = `"${(await dq.push('t', '1', '?id=a&delay=1h&mode=replace')).body.version}"`;
  const json = { ...headers, 'content-type': 'application/json' };
  const init = body === undefined ? { headers } : { body: Buffer.from(body), headers: json };
  const { status, body: reply } = await dq.call(method, path, init);
  return {
    status,
    code: reply.code as string | undefined,
    errors: (reply.errors ?? []) as { field: string }[],
  };
}

/** Its reply to a wrong draft is 200, with the errors. */
const isPreview = ({ template }: Route): boolean => template === '/v1/topics/preview';
/** Asks a process that this test does not have. */
const asksOthers = ({ template }: Route): boolean =>
  ['/v1/attempts', '/v1/endpoints', '/v1/topics/{topic}/test-call'].includes(template);

const prototypes = ['__proto__', 'constructor', 'toString', 'hasOwnProperty'];
const deep = `${'['.repeat(100_000)}${']'.repeat(100_000)}`;
const many = `[${'[],'.repeat(1_000_000)}1]`;

describe('paths', () => {
  it('an invalid name is 404 or 400 on every route, and creates nothing', async () => {
    const names = ['-', '.a', 'a b', 'é', 'x'.repeat(129), 'x'.repeat(1_000), ...words`%00 a%2Fb %7B%7D ' *`];
    for (const route of routes()) {
      if (!route.template.includes('{topic}')) continue;
      for (const name of names) {
        const path = route.template.replace('{topic}', name).replace(/\{\w+\}/g, 'a');
        const reply = await send(
          route,
          path,
          route.members === null ? undefined : '{"callbackUrl":"http://127.0.0.1/"}',
        );
        expect([400, 404], `${route.method} ${path} ${JSON.stringify(reply)}`).toContain(reply.status);
      }
    }
    expect((await dq.api('GET', '/v1/topics')).body.items).toHaveLength(1);
    expect(dq.errors).toEqual([]);
  });

  it('names of inherited members are unknown names', async () => {
    for (const route of routes()) {
      if (!/\{\w+\}/.test(route.template) || ['PUT', 'PATCH'].includes(route.method)) continue;
      for (const name of prototypes) {
        const path = route.template.replace(/\{\w+\}/g, name);
        const reply = await send(route, path);
        expect([400, 404, 409], `${route.method} ${path} ${JSON.stringify(reply)}`).toContain(reply.status);
      }
    }
    expect(dq.errors).toEqual([]);
  });
});

describe('queries', () => {
  it('a wrong value of any parameter is named, or has no effect', async () => {
    const values = [
      '',
      ...words`[] {} null %00 -1 1e999`,
      '9'.repeat(400),
      'x'.repeat(3_000),
      '%F0%9F%92%80',
    ];
    for (const route of routes())
      for (const name of route.query)
        for (const value of [...values, ...prototypes]) {
          // The effects of a good value are tested elsewhere.
          const body = route.members === null ? undefined : '5';
          const reply = await send(route, `${route.path}?${name}=${value}`, body);
          const what = `${route.method} ${route.path}?${name}=${value.slice(0, 20)} ${JSON.stringify(reply)}`;
          if (!(asksOthers(route) && reply.code === 'unavailable'))
            expect([200, 201, 400, 404], what).toContain(reply.status);
          if (reply.code === 'invalid') expect(reply.errors.length, what).toBeGreaterThan(0);
        }
    expect(dq.errors).toEqual([]);
  });
});

describe('JSON bodies', () => {
  it('a body that is not an object is rejected on every route', async () => {
    const malformed = [
      '',
      '{',
      '{"a":1,}',
      "{'a':1}",
      '{}x',
      '[',
      '\u0000',
      '"\\x"',
      '01',
      'NaN',
      deep,
      deep.slice(1),
      many,
    ];
    const notUtf8 = [
      [0xff],
      [0x7b, 0x22, 0xc0, 0x80, 0x22, 0x3a, 0x31, 0x7d],
      [0x22, 0xed, 0xa0, 0x80, 0x22],
    ];
    const others = ['null', 'true', '5', '1e999', '-0', '"x"', '[]', '[{}]'];
    const all = routes().filter(({ members }) => members !== null);
    expect(all.length).toBeGreaterThan(5);
    for (const route of all) {
      // An edit reads its body as a push does: no depth is too large for that.
      const some = editsJob(route) ? malformed.filter((body) => body !== deep && body !== many) : malformed;
      for (const body of [...some, ...notUtf8.map((bytes) => Buffer.from(bytes))])
        expect(
          await send(route, route.path, body),
          `${route.path} ${String(body).slice(0, 20)}`,
        ).toMatchObject({
          status: 400,
          code: 'malformed_json',
        });
      for (const body of isPreview(route) ? [] : others)
        expect(await send(route, route.path, body), `${route.path} ${body.slice(0, 20)}`).toMatchObject({
          status: 400,
          code: 'invalid',
        });
    }
    expect(dq.errors).toEqual([]);
  });

  it('an unknown or inherited member is rejected by name', async () => {
    for (const route of routes())
      for (const name of [...prototypes, 'nope', 'Topic'])
        for (const value of ['1', '{}', deep]) {
          if (route.members === null || isPreview(route)) continue;
          const good = JSON.stringify(route.needed).slice(1, -1);
          const body = `{${good}${good === '' ? '' : ','}${JSON.stringify(name)}:${value}}`;
          const { status, code, errors } = await send(route, route.path, body);
          expect(status).toBe(400);
          const fields = errors.map(({ field }) => field);
          if (value === deep && !editsJob(route)) expect(code).toBe('malformed_json');
          else expect(fields, `${route.method} ${route.path}`).toContain(name);
        }
    expect(Reflect.ownKeys(Object.prototype)).not.toContain('nope');
    expect(dq.errors).toEqual([]);
  });

  it('a mistyped, deep, large or odd member is never a server failure', async () => {
    const values = [
      ...[...words`null true 0 -1 1e999 1.5 9007199254740993 ""`, '"\\ud800"', '"\\u0000"', '[]', '{}'],
      ...['[null]', '[[]]', '{"__proto__":1}', '{"type":"exponential"}', `"${'x'.repeat(5_000)}"`, deep],
    ];
    for (const route of routes())
      for (const name of route.members ?? [])
        for (const value of values) {
          const reply = await send(route, route.path, `{${JSON.stringify(name)}:${value}}`);
          const what = `${route.method} ${route.path} ${name}: ${value.slice(0, 30)} ${JSON.stringify(reply)}`;
          if (!(asksOthers(route) && reply.code === 'unavailable'))
            expect([200, 201, 400, 404, 409], what).toContain(reply.status);
          if (reply.code === 'invalid') expect(reply.errors.length, what).toBeGreaterThan(0);
        }
    expect(dq.errors).toEqual([]);
  });

  it('a body over 4 MiB is 413; compressed or not JSON is 415', async () => {
    const large = `{"nope":"${'x'.repeat(4 * 1024 * 1024)}"}`;
    for (const route of routes()) {
      if (route.members === null) continue;
      expect((await send(route, route.path, large)).code, route.path).toBe('body_too_large');
      const types = editsJob(route) ? [] : [{ 'content-type': 'text/plain' }];
      for (const headers of [...types, { 'content-encoding': 'gzip' }])
        expect(
          await dq.call(route.method, route.path, {
            body: '{}',
            headers: { ...bearer(adminToken), ...headers },
          }),
          route.path,
        ).toMatchObject({ status: 415 });
    }
  });
});
