// /openapi.json, made from the schemas of the routes: what is described is what is validated.

import type { FastifyDynamicSwaggerOptions } from '@fastify/swagger';
import { Type } from 'typebox';
import type { Api } from './api-context.ts';
import type { RouteAccess } from './http/route-access.ts';
import { problems, reply } from './http/schemas.ts';

/** An empty body is a job too; a secret that is not given is made. */
const bodyOptional = ['/v1/topics/{topic}/jobs', '/v1/topics/{topic}/secret'];

const anyBody = {
  description: 'the job: any bytes, delivered as they are',
  content: { '*/*': { schema: { type: 'string', format: 'binary' } } },
};

export function openapiOptions(version: string): FastifyDynamicSwaggerOptions {
  return {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'dq',
        version,
        description:
          'A delay queue: push a job over HTTP, and dq calls the callback URL of its topic when it is due. What is no HTTP, too slow, or too large in its header is refused in the same shape with 400, 408, 417 or 431, and the connection is closed.',
        license: { name: 'MIT', identifier: 'MIT' },
      },
      servers: [{ url: '/' }],
      components: {
        securitySchemes: {
          bearer: {
            type: 'http',
            scheme: 'bearer',
            description:
              'An access token, dqk_…, with the scope that the operation names; admin covers every scope. Where a token is for some topics only, the others are 403.',
          },
        },
      },
    },
    transformObject: (document) => {
      if (!('openapiObject' in document)) return document.swaggerObject;
      for (const path of bodyOptional) {
        const body = document.openapiObject.paths?.[path]?.post?.requestBody;
        if (body !== undefined && 'required' in body) body.required = false;
      }
      return document.openapiObject;
    },
    transform: ({ schema, url, route }) => {
      const { jsonBody, bodyContent, anyBody: any, access } = route.config ?? {};
      const body = any === true ? anyBody : (bodyContent ?? jsonBody);
      const security = securityOf(access);
      return { schema: body === undefined ? { ...schema, security } : { ...schema, body, security }, url };
    },
  };
}

/** Nobody needs a token while none exists. The names in the list are scopes: OpenAPI 3.1 allows roles there. */
function securityOf(access: RouteAccess | 'open' | undefined): readonly Record<string, readonly string[]>[] {
  return typeof access === 'object' ? [{}, { bearer: [access.scope] }] : [];
}

export function openapiRoute(api: Api): void {
  api.get(
    '/openapi.json',
    {
      schema: {
        operationId: 'openapi',
        tags: ['operation'],
        summary: 'This document',
        response: { 200: reply('OpenAPI 3.1', Type.Object({})), ...problems() },
      },
      config: { access: { scope: 'read', topics: 'none' } },
    },
    async () => api.swagger(),
  );
}
