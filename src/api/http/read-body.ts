// Reads the body of a request into one Buffer, as far as its limit and the server's room go. Instead of Fastify's own reader, which
// bounds one body and not all of them.
// Invariant: exactly one answer to `done`; after a refusal nothing of the body is kept.

import type { IncomingMessage } from 'node:http';
import type { FastifyRequest } from 'fastify';
import { DqError } from '../../core/errors.ts';
import { apiLimits } from '../limits.ts';
import { type BodyBudget, leaveRoom } from './body-budget.ts';

export interface BodyLimit {
  readonly bytes: number;
  /** the option that says so; null for a number of ours */
  readonly option: string | null;
}

type Done = (error: Error | null, body?: Buffer) => void;

/** As a content type parser: the body is its bytes. */
export function bodyReader(room: BodyBudget, limit: BodyLimit) {
  return (request: FastifyRequest, stream: IncomingMessage, done: Done): void => {
    readBody(request.raw, stream, room, limit, done);
  };
}

/** `request`: whose body it is; `stream`: where it comes from. */
export function readBody(
  request: IncomingMessage,
  stream: IncomingMessage,
  room: BodyBudget,
  limit: BodyLimit,
  done: Done,
): void {
  // Digits, or Node would have refused the request; NaN for chunks.
  const length = Number(request.headers['content-length']);
  if (length > limit.bytes) {
    done(tooLarge(limit));
    return;
  }
  // What comes in one piece is finished with it, and waits for no room.
  if (length > apiLimits.socketReadBytes && length > room.free) {
    done(noRoom());
    return;
  }
  const chunks: Buffer[] = [];
  let received = 0;
  const end = (error: Error | null) => {
    stream.off('data', onData);
    stream.off('end', onEnd);
    stream.off('error', onError);
    if (error === null) {
      // Always a copy: a chunk may be a view of a far larger buffer.
      done(null, Buffer.concat(chunks, received));
      return;
    }
    leaveRoom(request);
    done(error);
  };
  const onData = (chunk: Buffer) => {
    received += chunk.length;
    if (received > limit.bytes) end(tooLarge(limit));
    else if (chunk.length !== length && !room.take(request, chunk.length)) end(noRoom());
    else chunks.push(chunk);
  };
  const onEnd = () => end(null);
  const onError = (cause: Error) =>
    end(new DqError('invalid', 'the request broke off or its length is not what it said', { cause }));
  stream.on('data', onData);
  stream.on('end', onEnd);
  stream.on('error', onError);
}

function tooLarge({ bytes, option }: BodyLimit): DqError {
  const name = option === null ? '' : ` (${option})`;
  return new DqError('body_too_large', `the body is larger than ${bytes} bytes${name}`);
}

function noRoom(): DqError {
  return new DqError(
    'not_stored',
    'too many large bodies are arriving at once; nothing of this one was kept, send it again',
  );
}
