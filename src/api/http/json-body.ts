// json-body.ts parses the body of every route but the pushes: JSON where the route declares a body, no body
// elsewhere.

import type { IncomingMessage } from 'node:http';
import type { FastifyRequest } from 'fastify';
import { DqError } from '../../core/errors.ts';
import { beyondBounds } from '../../core/json-text.ts';
import { apiLimits } from '../limits.ts';
import type { BodyBudget } from './body-budget.ts';
import { readBody } from './read-body.ts';
import { rejectEncoding } from './request-head.ts';

export const apiBodyLimit = { bytes: apiLimits.apiBodyBytesMax, option: null };

/** A content type parser whose result is the parsed JSON. */
export function jsonBodyReader(budget: BodyBudget) {
  return (
    request: FastifyRequest,
    stream: IncomingMessage,
    done: (error: Error | null, body?: unknown) => void,
  ): void => {
    readBody(request.raw, stream, budget, apiBodyLimit, (error, body) => {
      if (error !== null || body === undefined) {
        done(error);
        return;
      }
      try {
        done(null, parseBody(body, request));
      } catch (rejection) {
        done(rejection as Error);
      }
    });
  };
}

function parseBody(body: Buffer, request: FastifyRequest): unknown {
  const { schema, config } = request.routeOptions;
  if (schema?.body === undefined && config.jsonBody === undefined) {
    if (body.length === 0) return undefined;
    throw new DqError('invalid', 'body: this call takes none; send it without a body');
  }
  rejectEncoding(request.headers, 'body');
  const { 'content-type': type } = request.headers;
  if (type !== undefined && !/^application\/json *(;|$)/i.test(type))
    throw new DqError('unsupported_media_type', "content-type: send -H 'content-type: application/json'");
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(body);
  } catch (error) {
    throw notJson(error as Error);
  }
  const mistake = beyondBounds(text);
  if (mistake !== null) throw new DqError('malformed_json', `body: ${mistake}`);
  try {
    return JSON.parse(text);
  } catch (error) {
    throw notJson(error as Error);
  }
}

function notJson({ message }: Error): DqError {
  return new DqError('malformed_json', `body: not JSON: ${message}`);
}
