// /openapi.json describes every route, parameter and error reply, with named schemas. Every other test of the
// intake checks its replies against it (test/support/described.ts).
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import AjvCompiler from '@fastify/ajv-compiler';
import Schema from 'typebox/schema';
import { expect, it } from 'vitest';
import { callbackHeaders } from '../../src/core/delivery.ts';
import { topicInputNames } from '../../src/core/topic/settings.ts';
import { version } from '../../src/core/version.ts';
import { dereferenced, type OpenApi } from '../support/described.ts';
import { startIntake } from '../support/intake.ts';

const httpPage = join(import.meta.dirname, '../../src/manual/reference/http.md');

/** The routes of the manual, which a person has read in the commit that added them. Those of the console's
 *  sessions and trial are not on this port. */
const built = [...readFileSync(httpPage, 'utf8').matchAll(/^### ([A-Z]+ \/.*)$/gm)]
  .map(([, route]) => route as string)
  .filter((route) => !/ \/v1\/(session|trial)$/.test(route));

interface Media {
  readonly content: Readonly<Record<string, { readonly schema: object }>>;
}
interface Operation {
  readonly operationId: string;
  readonly summary: string;
  readonly parameters?: readonly {
    readonly in: string;
    readonly name: string;
    readonly required: boolean;
    readonly schema: object;
  }[];
  readonly requestBody?: Media & { readonly required: boolean };
  readonly responses: Readonly<Record<string, Media & { readonly description: string }>>;
}

it('openapi: describes every route, and no other', async () => {
  const dq = await startIntake();
  const reply = await dq.api('GET', '/openapi.json');
  const body = { ...reply.body, paths: dereferenced(reply.body as OpenApi).paths };
  expect(body.openapi).toMatch(/^3\.1\./);
  expect(body.info).toMatchObject({ title: 'dq', version });
  const operations = Object.entries(body.paths as Record<string, Record<string, Operation>>).flatMap(
    ([path, methods]) =>
      Object.entries(methods).map(([method, operation]) => ({
        name: `${method.toUpperCase()} ${path}`,
        path,
        operation,
      })),
  );
  expect(built.length).toBeGreaterThan(80);
  expect(operations.map(({ name }) => name).sort()).toEqual([...built].sort());
  expect(new Set(operations.map(({ operation }) => operation.operationId)).size).toBe(built.length);
  for (const { name, path, operation } of operations) {
    const inPath = (operation.parameters ?? []).filter((parameter) => parameter.in === 'path');
    expect(inPath.map((parameter) => `{${parameter.name}}`).sort(), name).toEqual(
      (path.match(/\{\w+\}/g) ?? []).sort(),
    );
    expect(inPath.every(({ required }) => required)).toBe(true);
    expect(operation.summary).not.toBe('');
    expect(Object.keys(operation.responses), name).toEqual(expect.arrayContaining(['400', '401', '403']));
    for (const [status, response] of Object.entries(operation.responses)) {
      expect(response.description).not.toBe('');
      const [type] = Object.keys(response.content);
      const good = path === '/metrics' ? 'text/plain' : 'application/json';
      expect(type, `${name} ${status}`).toBe(Number(status) < 300 ? good : 'application/problem+json');
      for (const { schema } of Object.values(response.content)) Schema.Compile(schema as never);
    }
    for (const { schema } of Object.values(operation.requestBody?.content ?? {}))
      Schema.Compile(schema as never);
  }
});

it('openapi: the body of a push is optional; JSON is the first of its content types', async () => {
  const dq = await startIntake();
  const { body } = await dq.api('GET', '/openapi.json');
  const { required, content } = body.paths['/v1/topics/{topic}/jobs'].post.requestBody;
  expect([required, Object.keys(content)]).toEqual([
    false,
    ['application/json', 'application/octet-stream', '*/*'],
  ]);
});

it('openapi: every schema of a request is valid, which dq-server does not check', async () => {
  const { body } = await (await startIntake()).api('GET', '/openapi.json');
  const compile = AjvCompiler()({}, { customOptions: { strict: false } });
  const operations = Object.values(dereferenced(body as OpenApi).paths as object).flatMap(
    (methods: Record<string, Operation>) => Object.values(methods),
  );
  const schemas = operations.flatMap(({ parameters = [], requestBody }) => [
    ...parameters.map(({ schema }) => schema),
    ...Object.values(requestBody?.content ?? {}).map(({ schema }) => schema),
  ]);
  expect(schemas.length).toBeGreaterThan(100);
  for (const schema of schemas) compile({ schema } as never);
  expect(() => compile({ schema: { type: 'strin' } } as never)).toThrow('schema is invalid');
});

it('openapi: names its schemas', async () => {
  const dq = await startIntake();
  const { body } = await dq.api('GET', '/openapi.json');
  expect(Object.keys(body.components.schemas)).toEqual(
    expect.arrayContaining([
      ...['Alert', 'Attempt', 'Backup', 'BatchItem', 'BatchResult', 'CreatedToken', 'DeadLetter', 'Fsck'],
      ...['Incident', 'Index', 'Job', 'JobSummary', 'MovedJob', 'Problem', 'Process', 'PushResult', 'Ready'],
      ...['RotatedSecret', 'RuleResult', 'RuleTest', 'Shard', 'StateCounts', 'Stats', 'Token', 'TokenInput'],
      ...['Topic', 'TopicInput', 'TopicPatch', 'TopicReplacement', 'TopicStats', 'TopicWithSecret'],
    ]),
  );
  expect(body.paths['/v1/jobs'].post.responses[200].content['application/json'].schema).toEqual({
    $ref: '#/components/schemas/BatchResult',
  });
});

interface Described {
  readonly $ref?: string;
  readonly description?: string;
  readonly examples?: readonly unknown[];
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly type?: string | readonly string[];
  readonly items?: Described;
  readonly properties?: Readonly<Record<string, Described>>;
  readonly anyOf?: readonly Described[];
}

/** Whether the field has a description and an example. */
function isExplained(field: Described): boolean {
  const isEnough = (schema: Described): boolean =>
    schema.$ref !== undefined ||
    schema.examples !== undefined ||
    schema.enum !== undefined ||
    schema.const !== undefined ||
    schema.type === 'null' ||
    (schema.items !== undefined && (isEnough(schema.items) || schema.items.properties !== undefined)) ||
    (schema.anyOf ?? []).some(isEnough);
  const hasMeaning =
    field.description !== undefined || field.$ref !== undefined || field.items?.$ref !== undefined;
  return hasMeaning && isEnough(field);
}

it('openapi: explains every field and parameter, with an example', async () => {
  const dq = await startIntake();
  const { body } = await dq.api('GET', '/openapi.json');
  const schemas = body.components.schemas as Record<string, Described>;
  const fields = Object.entries(schemas).flatMap(([name, { properties = {} }]) =>
    Object.entries(properties).map(([field, schema]) => [`${name}.${field}`, schema] as const),
  );
  expect(fields.length).toBeGreaterThan(100);
  expect(fields.filter(([, schema]) => !isExplained(schema)).map(([name]) => name)).toEqual([]);
  interface Parameter {
    readonly name: string;
    readonly description?: string;
    readonly example?: unknown;
    readonly schema: Described;
  }
  const paths = body.paths as Record<string, Record<string, { parameters?: readonly Parameter[] }>>;
  const parameters = Object.entries(paths).flatMap(([path, operations]) =>
    Object.values(operations).flatMap(({ parameters = [] }) =>
      parameters.map((parameter) => ({ ...parameter, path })),
    ),
  );
  const unexplained = parameters.filter(
    ({ description, example, schema }) =>
      description === undefined || (example === undefined && schema.enum === undefined),
  );
  expect(unexplained.map(({ path, name }) => `${path} ${name}`)).toEqual([]);
});

it('openapi: shows the default of a topic field where a missing one takes it', async () => {
  const dq = await startIntake();
  const { body } = await dq.api('GET', '/openapi.json');
  const { TopicInput, TopicPatch } = body.components.schemas;
  const defaults = Object.entries(TopicInput.properties as Record<string, Described>).flatMap(
    ([name, { description = '' }]) => {
      const shown = /; default: (.*)$/.exec(description)?.[1];
      return shown === undefined ? [] : [[name, shown]];
    },
  );
  const reply = await dq.api('POST', '/v1/topics', { topic: 't', callbackUrl: 'http://127.0.0.1:9/' });
  const texts = Object.entries(reply.body).map(([name, value]) => [
    name,
    value === '' ? 'empty' : typeof value === 'string' ? value : JSON.stringify(value),
  ]);
  expect(defaults.length).toBeGreaterThan(10);
  expect(Object.fromEntries(texts)).toMatchObject(Object.fromEntries(defaults));
  expect(JSON.stringify(TopicPatch)).not.toContain('; default: ');
  // The keyword would make a generated client require the field.
  expect(JSON.stringify(body.components)).not.toContain('"default":');
});

it('openapi: describes the callback as a webhook with the headers that dq sends', async () => {
  const dq = await startIntake();
  const { body } = await dq.api('GET', '/openapi.json');
  const topic = {
    ...{ topic: 't', callbackUrl: 'http://127.0.0.1:9/', maxAttempts: 3, headers: {} },
    secrets: [{ secret: 'whsec_MDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAw', untilAt: null }],
  };
  const job = {
    ...{ topic: 't', id: 'a', origin: 1, failures: 0, dueAt: 0 },
    contentType: 'application/json',
  };
  const sent = callbackHeaders(job, topic, { nowMs: 0, body: Buffer.from('{}'), version: '0', again: 1 });
  const { parameters } = body.webhooks.callback.post as { parameters: readonly { name: string }[] };
  const ofHttp = ['accept-encoding', 'content-type', 'user-agent'];
  expect(parameters.map(({ name }) => name).sort()).toEqual(
    Object.keys(sent)
      .filter((name) => !ofHttp.includes(name))
      .sort(),
  );
});

it('openapi: the schema of a topic accepts what dq accepts', async () => {
  const dq = await startIntake();
  const reply = await dq.api('GET', '/openapi.json');
  const body = dereferenced(reply.body as OpenApi) as typeof reply.body;
  const schema = body.paths['/v1/topics'].post.requestBody.content['application/json'].schema;
  expect(Object.keys(schema.properties).sort()).toEqual([...topicInputNames].sort());
  const described = Schema.Compile(schema);
  // The schema does not express that GET needs form.
  const good = { topic: 'a', callbackUrl: 'http://127.0.0.1:9000/', format: 'form' };
  const values: Readonly<Record<string, readonly unknown[]>> = {
    topic: ['a', 'a.b-c_d', 'x'.repeat(128), '', '-', 'x'.repeat(129), 5],
    title: ['', 'x'.repeat(200), 'x'.repeat(201), 5],
    method: ['POST', 'PUT', 'GET', 'post'],
    format: ['raw', 'form'],
    headers: [
      {},
      { 'x-a': '1' },
      [],
      'x',
      Object.fromEntries(Array.from({ length: 17 }, (_, n) => [`x${n}`, '1'])),
    ],
    delay: [
      ...[0, '0', '30m', '1h30m', '5 m', '2 hours', '1 h 30min', 'P1DT12H', 'PT30M', 'PT1H1M1S'],
      ...[-1, 1.5, 30, '30', '5M', '1w', '5  m', ' 5m', '1.5h', 'P', 'PT', 'P1M', 'PT1.5H', '', null],
    ],
    timeout: ['3s', 1_000, '1000', '', null],
    okStatus: [['2xx'], ['204', '404'], [], ['3xx'], ['302'], ['abc'], [200], 'x'],
    emptyReply: ['retry', 'accept', 'ignore'],
    maxAttempts: [1, 100, 0, 101, 1.5, '5'],
    backoff: [
      '2n+1',
      ['1s'],
      [],
      'x',
      { type: 'exponential', base: '1s', factor: 2, cap: '1h' },
      { type: 'exponential' },
      { type: 'exponential', base: '1s', factor: 2, cap: '1h', x: 1 },
    ],
    ...{ jitter: [0, 0.5, 0.6, -0.1], priority: ['high', 'normal', 'low', 'urgent'] },
    ...{ concurrency: [1, 10_000, 0, 10_001], rate: [0, 1, 100_000, -1, 100_001, 1.5] },
    alertEmails: [
      ...[
        [],
        ['a@b.c'],
        ["o'brien+x@mail.b.c", 'root@localhost'],
        Array(50).fill('a@b.c'),
        Array(51).fill('a@b.c'),
      ],
      ...['a@b.c', ['a'], ['a@b.c, d@e.f'], ['a@b.c\r\nBcc: x@y.z'], ['<a@b.c>'], ['a@b..c'], [5]],
    ],
    dangerouslySkipTlsVerify: [true, false, 'true'],
    state: ['active', 'paused', 'offline', 'dead'],
    secret: [`whsec_${'A'.repeat(32)}`, 'x', ''],
    nope: [1],
  };
  let made = 0;
  for (const [name, list] of Object.entries(values))
    for (const value of list) {
      made += 1;
      const input = { ...good, topic: `t${made}`, [name]: value };
      const { status } = await dq.api('POST', '/v1/topics', input);
      expect(status < 300, `${name} ${JSON.stringify(value)}`).toBe(described.Check(input));
    }
});
