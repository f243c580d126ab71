// openapi.ts makes /openapi.json from the schemas of the routes: the document describes what dq validates.

import type { FastifyDynamicSwaggerOptions } from '@fastify/swagger';
import { Type } from 'typebox';
import { problems, reply } from '../contract/api/schema.ts';
import type { Api } from './api-context.ts';
import { callbackWebhook } from './callback-webhook.ts';
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
