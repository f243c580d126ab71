// POST /v1/jobs: many pushes in one request. Each item goes through the same queue as a single push, in the
// order of the batch, a bounded number at a time; one reply holds all results. A rejected item does not
// affect the others.

import type { FastifyRequest } from 'fastify';
import { type TUnsafe, Type } from 'typebox';
import { DqError } from '../../core/errors.ts';
import { limits } from '../../core/limits.ts';
import { grants } from '../../core/token.ts';
import { topicFields, topicNamePattern } from '../../core/topic/fields.ts';
import type { PushJob } from '../../ports/job-store.ts';
import { acceptJob, isImport, pushTerms } from '../../use-cases/accept-job.ts';
import { topicNotFound } from '../../use-cases/change-topic.ts';
import { lookUpTopics } from '../../use-cases/find-topics.ts';
import { type BatchFormat, type BatchPush, ofItem, readBatch } from '../../use-cases/read-batch.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { type BodyBudget, takeOverBody } from '../http/body-budget.ts';
import { rejectEncoding } from '../http/content-encoding.ts';
import { problemOf } from '../http/problem.ts';
import { bodyReader } from '../http/read-body.ts';
import { errorFor, mayTouch, rightsOf, topicRejection } from '../http/route-access.ts';
import { closed, count, Problem, problems, reply, TopicName, text } from '../http/schemas.ts';
import { traceOf } from '../http/trace-headers.ts';
import { PushBatch } from './push-batch.ts';
import { BatchItemResult } from './push-result.ts';

const textOrInteger = (description: string, example: string): TUnsafe<unknown> =>
  Type.Unsafe<unknown>({ type: ['string', 'integer'], description, examples: [example] });

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
    traceparent: Type.Optional(
      text(
        'W3C trace context of the producer; default: the headers of the request. An invalid one counts as absent',
        '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
      ),
    ),
    tracestate: Type.Optional(text('with traceparent', 'vendor=value')),
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
    accepted: count('items stored or kept', 2),
    failed: count('items rejected', 1),
    results: Type.Array(Type.Union([BatchItemResult, Problem]), {
      description: 'one result per item, in the order of the request',
    }),
  },
  { title: 'BatchResult' },
);

const schema = {
  operationId: 'pushBatch',
  tags: ['jobs'],
  summary: `Push up to ${limits.batchItemsMax} jobs, in order; each item has its own result`,
  response: { 200: reply('the result of every item', BatchResult), ...problems(413, 415, 503) },
};

const bodyContent = {
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

/** Needs a scope of its own, in which the body is a Buffer. `budget`: for the bodies of unfinished
 *  batches. */
export function batchRoute(api: Api, context: ApiContext, budget: BodyBudget): void {
  const { config } = context.role;
  api.removeAllContentTypeParsers();
  const limit = { bytes: config['limits.batchBytes'], option: 'limits.batchBytes' };
  api.addContentTypeParser('*', bodyReader(budget, limit));
  api.post(
    '/v1/jobs',
    { schema, config: { access: { scope: 'push', topics: 'handler' }, requestLog: true, bodyContent } },
    async (request, answer) => {
      // Until all items are stored, even if the client leaves: the bodies of its jobs are slices of this
      // body.
      const release = takeOverBody(request.raw);
      try {
        const format = formatOf(request);
        const bytes = (request.body as Buffer | undefined) ?? Buffer.alloc(0);
        const items = await readBatch(bytes, format, config['limits.bodyBytes']);
        const lookUpError = await lookUpTopics(context.role.topics, items);
        const batch = new PushBatch<string>({
          ...{ role: context.role, items },
          jobOf: (item) => jobOf(context, request, item, lookUpError),
          accepted: ({ status, members }) => `{"status":${status},${members}}`,
          rejected: (error) => problemOf(errorFor(request.raw, error)).bytes.toString(),
          placed: ofItem,
        });
        context.pushes.addBatch(() => batch.next());
        const { accepted, results } = await batch.settled;
        const json = `{"accepted":${accepted},"failed":${results.length - accepted},"results":[${results.join(',')}]}`;
        return answer.header('content-type', 'application/json; charset=utf-8').send(json);
      } finally {
        release();
      }
    },
  );
}

function formatOf(request: FastifyRequest): BatchFormat {
  rejectEncoding(request.headers, 'batch');
  const { 'content-type': type } = request.headers;
  const media = type?.split(';', 1)[0]?.trim().toLowerCase();
  if (media === undefined || media === 'application/json') return 'json';
  if (media === 'application/x-ndjson') return 'ndjson';
  throw new DqError(
    'unsupported_media_type',
    "content-type: send -H 'content-type: application/json', or application/x-ndjson",
  );
}

/** Never throws: PushBatch.next calls it wherever an earlier push is answered. */
function jobOf(
  { role, suggestion }: ApiContext,
  request: FastifyRequest,
  { topic: name, request: push }: BatchPush,
  lookUpError: DqError | null,
): PushJob | DqError {
  const forbidden = topicRejection(request, name);
  if (forbidden !== null) return forbidden;
  if (isImport(push) && !grants(rightsOf(request), 'admin'))
    return new DqError('forbidden', 'acceptedAt, failures: the token lacks the scope admin; omit them');
  const topic = role.topics.get(name);
  if (topic === undefined)
    return lookUpError !== null && topicNamePattern.test(name)
      ? lookUpError
      : suggestion.added(topicNotFound(name), (near) => mayTouch(request, near));
  try {
    // A trace of the request is that of each item without one of its own.
    const trace = push.traceparent === undefined ? traceOf(request.headers) : {};
    return acceptJob({ ...push, ...trace }, topic, pushTerms(role));
  } catch (error) {
    if (error instanceof DqError) return error;
    role.log.error('unhandled error in an item of a batch', error);
    return new DqError('not_stored', 'dq failed at this item; its error log has the cause');
  }
}
