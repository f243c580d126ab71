// read-body.ts reads a request body into one Buffer, within its own limit and the server's body budget.
// Fastify's reader bounds each body, not their sum.
// Invariant: exactly one call of `done`; after a rejection nothing of the body is kept.

import type { IncomingMessage } from 'node:http';
import type { FastifyRequest } from 'fastify';
import { DqError } from '../../core/errors.ts';
import { clientOf } from '../../core/token.ts';
import { apiLimits } from '../limits.ts';
import { type BodyBudget, finishBody, releaseBody } from './body-budget.ts';
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
