// openapi.ts makes /openapi.json from the schemas of the routes: the document describes what dq validates.
// For receivers that generate their code it describes the callback, too: the request that dq sends for each
// attempt, and the meaning of the reply. The notifier sends it; src/manual/receiving.md is its contract.

import type { FastifyDynamicSwaggerOptions } from '@fastify/swagger';
import { Type } from 'typebox';
import { problems, reply } from '../contract/api/schema.ts';
import type { Api } from './api-context.ts';
import { type DeclaredAccess, needs } from './http/route-access.ts';

/** An empty body is a valid job; without a secret dq generates one. */
const bodyOptional = ['/v1/topics/{topic}/jobs', '/v1/topics/{topic}/secret'];

const tags = [
  { name: 'jobs', description: 'push, read, move and cancel jobs' },
  { name: 'topics', description: 'kinds of jobs with their callback, retry policy and limits' },
  { name: 'pull', description: 'take due jobs of pull topics; acknowledge, reject or extend their leases' },
  { name: 'dead letters', description: 'jobs whose attempts are used up' },
  { name: 'alerts', description: 'mails about dead letters and incidents' },
  { name: 'access', description: 'access tokens' },
  { name: 'operation', description: 'health, statistics, shards, backup' },
  { name: 'callback', description: 'the requests that dq sends' },
];

export function openapiOptions(version: string): FastifyDynamicSwaggerOptions {
  return {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'dq',
        version,
        description:
          'A delay queue: push a job over HTTP, and dq calls the callback URL of its topic when the job is due. Every error is a Problem. dq answers invalid HTTP, slow requests, an unknown Expect and large headers with 400, 408, 417 or 431, and closes the connection. An unknown path is 404, a wrong method 405 with Allow.',
        license: { name: 'MIT', identifier: 'MIT' },
      },
      servers: [{ url: '/', description: 'the daemon that serves this document' }],
      tags,
      components: {
        securitySchemes: {
          bearer: {
            type: 'http',
            scheme: 'bearer',
            description:
              'An access token (dqk_…) with the scope that the operation names; the scope admin covers every scope. A token can cover some topics only; other topics are 403. While no token exists, calls from the same machine need none.',
          },
        },
      },
    },
    transformObject: (document) => {
      if (!('openapiObject' in document)) return document.swaggerObject;
      const { openapiObject } = document;
      for (const path of bodyOptional) {
        const body = openapiObject.paths?.[path]?.post?.requestBody;
        if (body !== undefined && 'required' in body) body.required = false;
      }
      return withComponents({ ...openapiObject, webhooks: callbackWebhook }) as typeof openapiObject;
    },
    transform: ({ schema, url, route }) => {
      const { jsonBody, bodyContent, access } = route.config ?? {};
      const body = bodyContent ?? jsonBody;
      const security = securityOf(access);
      return { schema: body === undefined ? { ...schema, security } : { ...schema, body, security }, url };
    },
  };
}

/** {}: without a token while none exists. The list names scopes: OpenAPI 3.1 allows roles there. */
function securityOf(access: DeclaredAccess | undefined): readonly Record<string, readonly string[]>[] {
  if (access === 'known') return [{}, { bearer: [] }];
  if (typeof access !== 'object') return [];
  const { scope, andScope } = access;
  return [{}, { bearer: andScope === undefined ? [scope] : [scope, andScope] }];
}

/** Keywords whose values are data, not schemas. */
const dataKeywords: ReadonlySet<string> = new Set(['const', 'default', 'enum', 'example', 'examples']);

/** Moves every schema with a `title` to components.schemas, and refers to it. Throws when two schemas
 *  share a title. */
function withComponents(document: { paths?: object; webhooks?: object; components?: object }): object {
  const schemas: Record<string, object> = {};
  const mapped = (map: object, change: (value: unknown) => unknown) =>
    Object.fromEntries(Object.entries(map).map(([name, value]) => [name, change(value)]));
  function visit(node: unknown): unknown {
    if (Array.isArray(node)) return node.map(visit);
    if (typeof node !== 'object' || node === null) return node;
    const entries = Object.entries(node).map(([key, value]) => {
      if (dataKeywords.has(key)) return [key, value];
      // The names of properties are not keywords.
      return [
        key,
        key === 'properties' ? mapped(value, (field) => defaultInWords(visit(field))) : visit(value),
      ];
    });
    const { title, ...schema } = Object.fromEntries(entries);
    if (typeof title !== 'string') return Object.fromEntries(entries);
    const known = schemas[title];
    if (known !== undefined && JSON.stringify(known) !== JSON.stringify(schema))
      throw new Error(`two schemas have the title ${title}`);
    schemas[title] = schema;
    return { $ref: `#/components/schemas/${title}` };
  }
  const { paths = {}, webhooks = {}, components = {} } = document;
  return {
    ...document,
    paths: mapped(paths, visit),
    webhooks: mapped(webhooks, visit),
    components: { ...components, schemas },
  };
}

/** Moves the default of a field into its description. With the keyword, openapi-typescript makes the field
 *  of a named schema required, so a client could not leave it out. Defaults of parameters keep the
 *  keyword. */
function defaultInWords(field: unknown): unknown {
  if (typeof field !== 'object' || field === null || !('default' in field)) return field;
  const { default: value, ...rest } = field;
  const description = 'description' in rest ? `${rest.description}; default: ` : 'default: ';
  const shown = value === '' ? 'empty' : value;
  return { ...rest, description: description + (typeof shown === 'string' ? shown : JSON.stringify(shown)) };
}

const schema = {
  operationId: 'openapi',
  tags: ['operation'],
  summary: 'This document',
  response: { 200: reply('OpenAPI 3.1', Type.Object({})), ...problems() },
};

export function openapiRoute(api: Api): void {
  api.get('/openapi.json', { schema, config: needs('read', 'none') }, async () => api.swagger());
}

const header = (name: string, description: string, example: string | number, type = 'string') => ({
  in: 'header',
  name,
  required: true,
  description,
  schema: { type },
  example,
});

const rawBody = { schema: { type: 'string', format: 'binary', description: 'the body as it was pushed' } };
const retryAfter = {
  'Retry-After': {
    description: 'the next attempt waits at least this long, at most 24 h: seconds or a date',
    schema: { type: 'string' },
  },
};

const callbackWebhook = {
  callback: {
    post: {
      operationId: 'callback',
      tags: ['callback'],
      summary: 'A job is due',
      description:
        'dq sends it to the callbackUrl of the topic, with the method of the topic (POST, PUT or GET) and its static headers. Delivery is at least once: webhook-id is the same on every attempt of a job and is the idempotency key.',
      parameters: [
        header('webhook-id', 'idempotency key: the same on every attempt of a job', 'msg_2b7e151628aed2a6'),
        header('webhook-timestamp', 'time of this attempt, Unix seconds', 1_893_456_000, 'integer'),
        header(
          'webhook-signature',
          'v1,<base64 HMAC-SHA256 of "id.timestamp.body">, as Standard Webhooks defines it; several, separated by spaces, while a secret is being rotated',
          'v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=',
        ),
        header('dq-topic', 'topic name', 'order.close'),
        header('dq-job-id', 'job id, percent-encoded', '4711'),
        header('dq-attempt', 'number of this attempt, from 1', 1, 'integer'),
        header('dq-again-count', 'how often the job was snoozed; absent: never', 3, 'integer'),
        header('dq-max-attempts', 'maxAttempts of the job, or of its topic', 10, 'integer'),
        header('dq-due-at', 'when this attempt was due, RFC 3339', '2030-01-01T08:00:00.000Z'),
      ],
      requestBody: {
        description:
          'The body and content type as pushed. With format form: the top-level members as form fields',
        required: false,
        content: {
          'application/json': { schema: { description: 'any JSON value' } },
          'application/x-www-form-urlencoded': {
            schema: { type: 'object', additionalProperties: { type: 'string' } },
          },
          '*/*': rawBody,
        },
      },
      responses: {
        '2XX': {
          description:
            'delivered, if the status is in okStatus, emptyReply accepts the body and the rules of the topic are false; otherwise dq retries. With the header dq-again: 10m dq calls again after that time, and no attempt counts',
        },
        '410': { description: 'failed; dq makes no further attempt' },
        '429': { description: 'failed; dq retries', headers: retryAfter },
        '503': { description: 'failed; dq retries', headers: retryAfter },
        default: {
          description: 'failed; dq retries, unless the reply has the header dq-no-retry: true',
        },
      },
      security: [],
    },
  },
};
