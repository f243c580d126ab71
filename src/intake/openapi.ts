// /openapi.json, made from the schemas of the routes: what is described is what is validated.

import type { FastifyDynamicSwaggerOptions } from '@fastify/swagger';
import { Type } from 'typebox';
import type { Api } from './intake-context.ts';
import { problems, reply } from './schemas.ts';

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
      components: { securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } } },
      // Both are accepted: nobody needs a token while none exists.
      security: [{}, { bearer: [] }],
    },
    transformObject: (document) => {
      if (!('openapiObject' in document)) return document.swaggerObject;
      const push = document.openapiObject.paths?.['/v1/topics/{topic}/jobs']?.post;
      // An empty body is a job too.
      if (push?.requestBody !== undefined && 'required' in push.requestBody)
        push.requestBody.required = false;
      return document.openapiObject;
    },
    transform: ({ schema, url, route }) => {
      const { jsonBody, anyBody: any } = route.config ?? {};
      const body = any === true ? anyBody : jsonBody;
      return { schema: body === undefined ? schema : { ...schema, body }, url };
    },
  };
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
    },
    async () => api.swagger(),
  );
}
