// schema.ts holds the pieces of which the contract of the HTTP API is made. Each file beside it describes one
// resource: the schema of each route gives the route its types, its validation and its part of /openapi.json,
// and the types of replies (ReplyOf) are those of the console and the command line. JSON.stringify writes
// replies, not a serializer: the tests compare every reply with its schema (test/support/described.ts).
//
// A schema with a `title` is a named schema: openapi.ts moves it to components.schemas and refers to it.
// Invariant: this folder imports core alone. Programs that only read replies import types from it, so that
// TypeBox stays out of the console's bundle.

import { type Static, type TSchema, type TSchemaOptions, Type } from 'typebox';
import { catalogue } from '../../core/errors.ts';
import { attemptReasons, deadReasons, jobStates } from '../../core/job.ts';
import { statusFilterPattern } from '../../core/survey.ts';
import { contractLimits } from './limits.ts';

type Frozen<T> = T extends readonly (infer Item)[]
  ? readonly Frozen<Item>[]
  : T extends object
    ? { readonly [K in keyof T]: Frozen<T[K]> }
    : T;

/** The JSON that a schema describes, as its readers get it: `XJson` is that of the schema `X`. */
export type JsonOf<S extends TSchema> = Frozen<Static<S>>;

/** The JSON of the reply 200 of a route. */
export type ReplyOf<R extends { readonly response: { readonly 200: Described<TSchema> } }> = JsonOf<
  R['response'][200]['content']['application/json']['schema']
>;

/** The JSON of a page of such items. */
export interface PageOf<Item> {
  readonly items: readonly Item[];
  readonly nextCursor: string | null;
  /** shards that did not answer */
  readonly missing?: readonly string[];
}

const codes = Object.keys(catalogue) as (keyof typeof catalogue)[];

/** Closed: dq rejects a parameter or member that is not named. */
export function closed<P extends Record<string, TSchema>>(properties: P, options: TSchemaOptions = {}) {
  return Type.Object(properties, { ...options, additionalProperties: false });
}

/** A member for each of the names. */
export const each = <Name extends string, T>(names: readonly Name[], memberOf: (name: Name) => T) =>
  Object.fromEntries(names.map((name) => [name, memberOf(name)])) as Record<Name, T>;

export const text = (description: string, example: string) =>
  Type.String({ description, examples: [example] });
export const texts = (description: string, example: readonly string[] = []) =>
  Type.Array(Type.String(), { description, examples: [example] });
export const count = (description: string, example = 0) =>
  Type.Integer({ minimum: 0, description, examples: [example] });
export const flag = (description: string, example = false) =>
  Type.Boolean({ description, examples: [example] });
export const textOrInteger = (description: string, example: string) =>
  Type.Unsafe<string | number>({ type: ['string', 'integer'], description, examples: [example] });
export const textOrNull = <T extends string = string>(
  description: string,
  example: NoInfer<T> | null = null,
) => Type.Unsafe<T | null>({ type: ['string', 'null'], description, examples: [example] });
export const countOrNull = (description: string, example: number | null = null) =>
  Type.Unsafe<number | null>({ type: ['integer', 'null'], description, examples: [example] });
export const numberOrNull = (description: string, example: number | null = null) =>
  Type.Unsafe<number | null>({ type: ['number', 'null'], description, examples: [example] });
/** `example`: null, where the schema shows its own. */
export const orNull = <S extends TSchema>(schema: S, description: string, example: unknown = null) =>
  Type.Union([schema, Type.Null()], { description, examples: [example] });
export const yes = Type.Unsafe<boolean>({ type: 'boolean', const: true, description: 'always true' });

export const TopicName = text('topic name', 'order.close');
export const JobId = text('job id, unique in its topic', '4711');
export const Version = Type.String({
  pattern: '^\\d+$',
  description: 'number of this push; every push, run, reschedule and requeue of the id makes a larger one',
  examples: ['1893456000000001'],
});
export const State = Type.Enum([...jobStates], { description: 'state of the job' });
export const DeadReason = Type.Enum([...deadReasons], { description: 'why the job became a dead letter' });
export const AttemptReason = Type.Enum([...attemptReasons], {
  title: 'AttemptReason',
  description: 'why an attempt failed',
});
export const attemptReasonOrNull = (description: string) => orNull(AttemptReason, description, 'status');
export const LastReason = attemptReasonOrNull('why the last attempt failed; null: none failed');
/** Filters of dead letters, by what their deaths and their last attempts say. */
export const deadMarks = {
  deadReason: Type.Optional(DeadReason),
  lastReason: Type.Optional(
    Type.Enum([...attemptReasons, 'none'], {
      description: 'why the last attempt failed; none: no attempt is stored',
      examples: ['status'],
    }),
  ),
  status: Type.Optional(
    Type.String({
      pattern: statusFilterPattern,
      description: 'an HTTP status of the last attempt such as 500, a class such as 5xx, or none',
      examples: ['5xx'],
    }),
  ),
};
export const FinishedAttempts = count('finished attempts', 3);
export const instant = (description: string) =>
  Type.String({
    format: 'date-time',
    description: `${description}; RFC 3339 with milliseconds, UTC`,
    examples: ['2030-01-01T08:00:00.000Z'],
  });
export const instantOrNull = (description: string) => textOrNull(description, '2030-01-01T08:00:00.000Z');
export const DueAt = instant('when the next attempt is due');
export const FirstDueAt = instantOrNull(
  'of a job with a failed attempt: when its first attempt since the push or the last requeue was due; null: that attempt is not kept',
);
export const CreatedAt = instant('when dq accepted the job');
/** Of a job that waits. */
export const dueJob = { id: JobId, dueAt: DueAt, firstDueAt: Type.Optional(FirstDueAt) };

/** What a dead letter and its alert say about the job. */
export const death = {
  topic: TopicName,
  id: JobId,
  version: Version,
  deadAt: instant('when the job died'),
  deadReason: DeadReason,
  attempt: FinishedAttempts,
  lastReason: LastReason,
  status: countOrNull('HTTP status of the last attempt', 500),
  replyExcerpt: text('start of the reply to the last attempt', 'internal error'),
  detail: text('the failure of a last attempt without a whole reply', 'connect ECONNREFUSED 10.0.0.8:80'),
};

export const traceparent = (description: string) =>
  Type.Optional(text(description, '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'));
export const tracestate = Type.Optional(text('with traceparent', 'vendor=value'));

/** A query is text; the handlers read durations, times and numbers from it. */
export const durationText = (description: string) =>
  Type.Optional(text(`${description}: a duration such as 30s, 10m, 1h30m, or 0`, '30m'));
export const instantText = (description: string) =>
  Type.Optional(
    text(`${description}: RFC 3339 with an offset, or epoch milliseconds`, '2030-01-01T08:00:00+08:00'),
  );

/** Which dead letters a query names, whatever their cause; with deadMarks every filter of them. */
export const deadTimes = {
  topic: Type.Optional(text('only jobs of this topic', 'order.close')),
  since: instantText('died then or later'),
  until: instantText('died before'),
};

/** The same in a JSON body. */
export const instantValue = (description: string) =>
  Type.Optional(
    textOrInteger(
      `${description}: RFC 3339 with an offset, or epoch milliseconds`,
      '2030-01-01T08:00:00+08:00',
    ),
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

export type ProblemJson = JsonOf<typeof Problem>;

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

interface Described<S extends TSchema> {
  readonly description: string;
  readonly content: { readonly 'application/json': { readonly schema: S } };
}

export function reply<S extends TSchema>(description: string, schema: S): Described<S> {
  return { description, content: { 'application/json': { schema } } };
}

/** `what`: the items */
export const limitParam = (what: string, max: number, byDefault: number = contractLimits.pageItems) =>
  Type.Optional(
    Type.String({
      description: `${what}, 1–${max}`,
      default: String(byDefault),
      examples: ['20'],
    }),
  );
export const pagingParams = {
  limit: limitParam('items of a page', contractLimits.pageItemsMax),
  cursor: Type.Optional(text('nextCursor of the previous page', 'b3JkZXIuY2xvc2U')),
};

export const Missing = Type.Optional(
  texts(
    'shards that did not answer, and `jobs.db` whose jobs have not all moved to Redis: what they hold is not included; absent when nothing is missing',
    ['s2'],
  ),
);

export const countedAt = instant('when the jobs were counted; the answer is kept for a while');
export const NextCursor = textOrNull('cursor of the next page; null on the last page', 'b3JkZXIuY2xvc2U');

/** `more`: further members of the page */
export const pageOf = <S extends TSchema, M extends Record<string, TSchema> = Record<never, never>>(
  item: S,
  more: M = {} as M,
) => closed({ items: Type.Array(item), nextCursor: NextCursor, missing: Missing, ...more });
