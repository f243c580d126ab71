// schemas.ts holds the TypeBox schemas that several routes share. A route's schemas give its types, its
// validation and its part of /openapi.json. JSON.stringify writes replies, not a serializer: a member that a
// schema forgot still leaves.
//
// A schema with a `title` is a named schema: openapi.ts moves it to components.schemas and refers to it.

import { type TSchema, type TSchemaOptions, Type } from 'typebox';
import { catalogue } from '../../core/errors.ts';

const codes = Object.keys(catalogue) as (keyof typeof catalogue)[];

/** Closed: dq rejects a parameter or member that is not named. */
export function closed<P extends Record<string, TSchema>>(properties: P, options: TSchemaOptions = {}) {
  return Type.Object(properties, { ...options, additionalProperties: false });
}

interface FieldOptions {
  readonly description?: string;
  readonly examples?: readonly unknown[];
}

/** `type`: of JSON Schema. */
export const nullable = (type: string, options: FieldOptions = {}) =>
  Type.Unsafe<unknown>({ type: [type, 'null'], ...options });

export const text = (description: string, example: string) =>
  Type.String({ description, examples: [example] });
export const count = (description: string, example = 0) =>
  Type.Integer({ minimum: 0, description, examples: [example] });
export const yes = Type.Literal(true, { description: 'always true' });

export const TopicName = text('topic name', 'order.close');
export const JobId = text('job id, unique in its topic', '4711');
export const Version = Type.String({
  pattern: '^\\d+$',
  description: 'number of this push; every push, run, reschedule and requeue of the id makes a larger one',
  examples: ['1893456000000001'],
});
export const State = Type.Enum(['delayed', 'ready', 'reserved', 'dead'], { description: 'state of the job' });
export const DeadReason = Type.Enum(
  ['attempts_exhausted', 'gone', 'no_retry', 'poison', 'nacked', 'expired'],
  {
    description: 'why no attempt follows',
  },
);
export const FinishedAttempts = count('finished attempts', 3);
export const instant = (description: string) =>
  Type.String({
    format: 'date-time',
    description: `${description}; RFC 3339 with milliseconds, UTC`,
    examples: ['2030-01-01T08:00:00.000Z'],
  });
export const DueAt = instant('when the next attempt is due');
export const CreatedAt = instant('when dq accepted the job');

/** A query is text; the handlers read durations, times and numbers from it. */
export const durationText = (description: string) =>
  Type.Optional(text(`${description}: a duration such as 30s, 10m, 1h30m, or 0`, '30m'));
export const instantText = (description: string) =>
  Type.Optional(
    text(`${description}: RFC 3339 with an offset, or epoch milliseconds`, '2030-01-01T08:00:00+08:00'),
  );
export const topicParam = { topic: TopicName };
export const jobParams = {
  ...topicParam,
  id: text('job id, percent-encoded; 1–256 bytes of UTF-8', '4711'),
};

export const FieldProblem = Type.Object({
  field: text('name as the caller wrote it', 'items[3].delay'),
  message: text('what is wrong with it and what is right', 'give delay or at, not both'),
  position: Type.Optional(count('where in the text; characters from 0', 17)),
});
export const Problem = Type.Object(
  {
    title: text('what the code means', 'No such topic'),
    status: Type.Integer({ description: 'HTTP status', examples: [404] }),
    detail: text('what is wrong and what to do', 'there is no topic "order.clse"; did you mean order.close?'),
    code: Type.Enum(codes, { description: 'stable; decide by it, not by the texts' }),
    errors: Type.Array(FieldProblem, {
      description: 'each wrong field; empty where no single field is wrong',
    }),
  },
  {
    title: 'Problem',
    description: 'RFC 9457. Some codes have further members, such as the id of an unknown push',
  },
);

/** The problem replies of a route, by status. Every route can answer 400, 401 and 403. */
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
