// The TypeBox schemas that several routes share. A route's schemas give its types, what is validated, and its page in
// /openapi.json; replies are described by them and written by JSON.stringify, so nothing is dropped from a reply in silence.

import { type TSchema, Type } from 'typebox';
import { catalogue } from '../../core/errors.ts';

const codes = Object.keys(catalogue) as (keyof typeof catalogue)[];

export const Problem = Type.Object(
  {
    title: Type.String(),
    status: Type.Integer(),
    detail: Type.String(),
    code: Type.Enum(codes),
    errors: Type.Array(
      Type.Object({
        field: Type.String({ description: 'as the caller wrote it' }),
        message: Type.String(),
        position: Type.Optional(Type.Integer({ description: 'characters from 0' })),
      }),
    ),
  },
  { description: 'RFC 9457' },
);

/** The refusals of a route, by status; every route can answer 400, 401, 403 and is at the mercy of the client's HTTP. */
export function problems(...statuses: readonly number[]): Record<number, object> {
  const all = [...new Set([400, 401, 403, ...statuses])].sort((a, b) => a - b);
  return Object.fromEntries(all.map((status) => [status, problemReply(status)]));
}

function problemReply(status: number): object {
  const names = codes.filter((code) => catalogue[code].status === status);
  return {
    description: names.join(' · '),
    ...(status === 503 ? { headers: { 'Retry-After': { type: 'string', enum: ['1'] } } } : {}),
    content: { 'application/problem+json': { schema: Problem } },
  };
}

export function reply(description: string, schema: TSchema): object {
  return { description, content: { 'application/json': { schema } } };
}

/** Closed: a parameter or member that is not named is refused. */
export function closed<P extends Record<string, TSchema>>(properties: P) {
  return Type.Object(properties, { additionalProperties: false });
}

/** `type`: of JSON Schema. */
export const nullable = (type: string, more: { readonly description?: string } = {}) =>
  Type.Unsafe<unknown>({ type: [type, 'null'], ...more });

export const Instant = Type.String({ format: 'date-time', description: 'RFC 3339 with milliseconds, UTC' });
export const StateName = Type.Enum(['delayed', 'ready', 'reserved', 'dead']);
export const VersionText = Type.String({ pattern: '^\\d+$' });

/** Queries are text; the handlers read instants and numbers out of it. */
export const durationText = (description: string) =>
  Type.Optional(Type.String({ description: `${description}: a duration such as 30s, 10m, 1h30m, or 0` }));
export const instantText = (description: string) =>
  Type.Optional(
    Type.String({ description: `${description}: RFC 3339 with an offset, or epoch milliseconds` }),
  );
export const topicParam = { topic: Type.String({ description: 'name of the topic' }) };
export const jobParams = {
  ...topicParam,
  id: Type.String({ description: 'percent-encoded; 1–256 bytes of UTF-8' }),
};
