// Pushes: one job, whose body is the body of the request, or a batch.

import { Type } from 'typebox';
import { heldReasons } from '../../core/capacity-reasons.ts';
import { endStates, jobStates } from '../../core/job.ts';
import { limits } from '../../core/limits.ts';
import { topicFields } from '../../core/topic/fields.ts';
import {
  closed,
  count,
  DueAt,
  durationText,
  flag,
  instant,
  instantText,
  JobId,
  type JsonOf,
  Problem,
  problems,
  reply,
  TopicName,
  text,
  textOrInteger,
  topicParam,
  traceparent,
  tracestate,
  Version,
} from './schema.ts';

const pushed = {
  topic: TopicName,
  id: JobId,
  version: Version,
  state: Type.Enum([...jobStates, ...endStates], {
    description: 'state of the job; within the window of an ended one its end',
  }),
  dueAt: DueAt,
  replaced: flag('the push replaced a live job of this id'),
  duplicate: flag('nothing was stored: mode keep, and a live job of this id, or the window of its last job'),
  inFlight: flag('an attempt of the replaced job is running'),
  held: Type.Optional(
    Type.Enum(heldReasons, { description: 'why dq calls no job of the topic; absent: it does' }),
  ),
  endedAt: Type.Optional(instant('of the last job, which ended or died within the window of the push')),
};

const windowText =
  'while the id has no live job, and its last one ended less than this time ago, the push stores nothing; default: idempotency of the topic';

const PushResult = Type.Object(pushed, { title: 'PushResult' });
export type PushResultJson = JsonOf<typeof PushResult>;

const BatchItemResult = Type.Object(
  {
    status: Type.Integer({ description: '201: new · 200: replaced, or nothing stored', examples: [201] }),
    ...pushed,
  },
  { title: 'BatchItemResult' },
);

export type PushQuery = JsonOf<typeof pushQuery>;
export const pushQuery = closed({
  id: Type.Optional(text('job id, 1–256 bytes of UTF-8; dq makes one when it is not given', '4711')),
  delay: durationText('time until the first attempt; default: delay of the topic'),
  at: instantText('when the first attempt is due'),
  mode: Type.Optional(
    Type.String({
      enum: ['replace', 'keep', 'reject'],
      default: 'replace',
      description: 'effect when the id is live: replace it, keep the live job, or reject the push',
    }),
  ),
  idempotency: durationText(windowText),
  lease: durationText('lease of this job, for a pull topic; default: that of the pull, or of the topic'),
  maxAttempts: Type.Optional(text('attempts of this job in all; default: that of the topic', '3')),
  backoff: Type.Optional(
    text('waits between attempts of this job, as `2n+1`, `15s,3m,1h`, or the JSON of a topic', '15s,3m,1h'),
  ),
  deadline: Type.Optional(
    text(
      'no attempt starts later; dq then buries the job as `expired`: a duration from now, or a time as of `at`',
      '2h',
    ),
  ),
  literal: Type.Optional(
    Type.Enum(['true'], {
      description: 'deliver the body as it is, even if it looks like an item of a batch',
    }),
  ),
});

export const pushSchema = {
  operationId: 'push',
  tags: ['jobs'],
  summary: 'Push a job; dq delivers the body byte for byte',
  params: closed(topicParam),
  querystring: pushQuery,
  response: {
    200: reply('replaced a live job, or stored nothing', PushResult),
    201: reply('a new job', PushResult),
    ...problems(404, 409, 413, 415, 503),
  },
};

/** JSON first: a client generator takes the first content type as its default. */
export const pushBody = {
  content: {
    'application/json': {
      schema: Type.Unknown({
        description: 'any JSON value; dq checks that it is JSON and never rewrites it',
        examples: [{ order: 4711 }],
      }),
    },
    'application/octet-stream': {
      schema: Type.String({ format: 'binary', description: 'any bytes, or none' }),
    },
    '*/*': { schema: Type.String({ format: 'binary', description: 'any bytes of any other content type' }) },
  },
};

const BatchItem = closed(
  {
    topic: TopicName,
    id: Type.Optional(text('job id, 1–256 bytes of UTF-8; dq makes one when it is not given', '4711')),
    delay: Type.Optional(
      textOrInteger('time until the first attempt: a duration such as 30s, 10m, 1h30m, or 0', '30m'),
    ),
    at: Type.Optional(
      textOrInteger(
        'when the first attempt is due: RFC 3339 with an offset, or epoch milliseconds',
        '2030-01-01T08:00:00+08:00',
      ),
    ),
    mode: Type.Optional(
      Type.Enum(['replace', 'keep', 'reject'], {
        default: 'replace',
        description: 'effect when the id is live: replace it, keep the live job, or reject the push',
      }),
    ),
    idempotency: Type.Optional(
      textOrInteger(`${windowText}. A duration such as 30s, 10m, 1h30m, or 0`, '10m'),
    ),
    body: Type.Unknown({
      description:
        'any JSON value; dq delivers exactly the characters of the request. With another contentType than application/json: a string, whose text dq delivers',
      examples: [{ order: 4711 }],
    }),
    contentType: Type.Optional(
      Type.String({
        default: 'application/json',
        description: 'content type of the body',
        examples: ['text/plain'],
      }),
    ),
    lease: Type.Optional(textOrInteger('lease of this job, for a pull topic', '5m')),
    maxAttempts: Type.Optional(textOrInteger('attempts of this job in all; default: that of the topic', '3')),
    backoff: Type.Optional(
      Type.Unsafe<unknown>({
        ...topicFields.backoff.schema,
        description: 'waits between attempts of this job; default: those of the topic',
        examples: [['15s', '3m', '1h']],
      }),
    ),
    deadline: Type.Optional(
      textOrInteger(
        'no attempt starts later; dq then buries the job as `expired`: a duration from now, or a time as of `at`',
        '2h',
      ),
    ),
    traceparent: traceparent(
      'W3C trace context of the producer; default: the headers of the request. An invalid one counts as absent',
    ),
    tracestate,
    acceptedAt: Type.Optional(
      textOrInteger(
        'of an imported job, scope `admin`: when the other system accepted it; a later moment becomes now',
        '2030-01-01T08:00:00+08:00',
      ),
    ),
    failures: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: limits.failuresMax,
        description: 'of an imported job, scope `admin`: its failed attempts in the other system',
        examples: [2],
      }),
    ),
  },
  { title: 'BatchItem' },
);

const BatchResult = closed(
  {
    accepted: count('items stored, or that needed no job', 2),
    failed: count('items rejected', 1),
    results: Type.Array(Type.Union([BatchItemResult, Problem]), {
      description: 'one result per item, in the order of the request',
    }),
  },
  { title: 'BatchResult' },
);
export type BatchResultJson = JsonOf<typeof BatchResult>;

export const pushBatchSchema = {
  operationId: 'pushBatch',
  tags: ['jobs'],
  summary: `Push up to ${limits.batchItemsMax} jobs, in order; each item has its own result`,
  response: { 200: reply('the result of every item', BatchResult), ...problems(413, 415, 503) },
};

export const batchBody = {
  content: {
    'application/json': {
      schema: Type.Array(BatchItem, {
        maxItems: limits.batchItemsMax,
        description: 'a list of jobs; the option limits.batchBytes bounds its size',
      }),
    },
    'application/x-ndjson': { schema: Type.String({ description: 'one item per line' }) },
  },
};
