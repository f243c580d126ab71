// read-body.ts reads a request body into one Buffer, within its own limit and the server's body budget.
// Fastify's reader bounds each body, not their sum. Parses it for every route but the pushes: JSON where the
// route declares a body, no body elsewhere.
// Invariant: exactly one call of `done`; after a rejection nothing of the body is kept.

import type { IncomingMessage } from 'node:http';
import type { FastifyRequest } from 'fastify';
import { DqError } from '../../core/errors.ts';
import { beyondBounds, isJsonType } from '../../core/json-text.ts';
import { clientOf } from '../../core/token.ts';
import { apiLimits } from '../limits.ts';
import { type BodyBudget, finishBody, releaseBody } from './body-budget.ts';
import { rejectEncoding } from './request-head.ts';
import { callerOf } from './route-access.ts';

export interface BodyLimit {
  readonly bytes: number;
  /** option that sets it; null for a fixed limit */
  readonly option: string | null;
}

type Done = (error: Error | null, body?: Buffer) => void;

/** A content type parser whose result is the body's bytes. */
export function bodyReader(budget: BodyBudget, limit: BodyLimit) {
  return (request: FastifyRequest, stream: IncomingMessage, done: Done): void =>
    readBody(request.raw, stream, budget, limit, done);
}

/** `request`: the owner of the body; `stream`: its source. Errors: DqError body_too_large, not_stored,
 *  invalid. */
export function readBody(
  request: IncomingMessage,
  stream: IncomingMessage,
  budget: BodyBudget,
  limit: BodyLimit,
  done: Done,
): void {
  // Digits, or Node would have rejected the request; NaN for chunks.
  const length = Number(request.headers['content-length']);
  if (length > limit.bytes) {
    done(tooLarge(limit));
    return;
  }
  // A body that arrives in one piece needs no budget.
  const client = clientOf(callerOf(request), request.socket.remoteAddress);
  if (length > apiLimits.socketReadBytes && !budget.fits(length, client)) {
    done(budgetUsedUp());
    return;
  }
  const chunks: Buffer[] = [];
  let received = 0;
  const end = (error: Error | null) => {
    stream.off('data', onData);
    stream.off('end', onEnd);
    stream.off('error', onError);
    if (error === null) {
      finishBody(request);
      // Always a copy: a chunk may be a view of a far larger buffer.
      done(null, Buffer.concat(chunks, received));
      return;
    }
    releaseBody(request);
    done(error);
  };
  const owner = { client, giveWay: () => end(budgetUsedUp()) };
  const onData = (chunk: Buffer) => {
    received += chunk.length;
    if (received > limit.bytes) end(tooLarge(limit));
    else if (chunk.length !== length && !budget.take(request, chunk.length, owner)) end(budgetUsedUp());
    else chunks.push(chunk);
  };
  const onEnd = () => end(null);
  const onError = (cause: Error) => end(incompleteBody(cause));
  stream.on('data', onData);
  stream.on('end', onEnd);
  stream.on('error', onError);
}

export function incompleteBody(cause?: unknown): DqError {
  return new DqError('invalid', 'body: incomplete, or not of its content-length; send the request again', {
    cause,
  });
}

function tooLarge({ bytes, option }: BodyLimit): DqError {
  const name = option === null ? '' : ` (${option})`;
  return new DqError('body_too_large', `body: larger than ${bytes} bytes${name}`);
}

export function budgetUsedUp(): DqError {
  return new DqError(
    'not_stored',
    'body: too many large bodies are arriving; nothing was stored, send the request again',
  );
}

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
  if (type !== undefined && !isJsonType(type))
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
