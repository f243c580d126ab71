// Reads the header If-Match: the revision or version that the caller has read (RFC 9110, 13.1.1).

import type { FastifyRequest } from 'fastify';
import { invalidField } from '../../core/errors.ts';

/** Null: any. `what`: for the message, such as `version of the job`. Throws DqError invalid. */
export function readIfMatch(request: FastifyRequest, what: string): number | null {
  const given = request.headers['if-match'];
  if (given === undefined || given === '*') return null;
  // Both numbers are safe integers; 16 digits hold the largest one.
  const digits = /^"?(\d{1,16})"?$/.exec(given)?.[1];
  if (digits === undefined) throw invalidField('if-match', `must be the ${what}, such as "17"`);
  return Number(digits);
}
