// POST /v1/jobs: many pushes in one request. Each goes the way of a push of its own, through the same queue and in the order
// of the batch, but only so many at once; their outcomes come together in one reply. One that is refused says nothing about its
// neighbours.

import type { FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { catalogue, DqError } from '../../core/errors.ts';
import { limits } from '../../core/limits.ts';
import { topicNamePattern } from '../../core/topic/fields.ts';
import type { PushJob, PushOutcome } from '../../ports/job-store.ts';
import { acceptJob } from '../../use-cases/accept-job.ts';
import { BatchFeeder } from '../../use-cases/batch-feeder.ts';
import { topicNotFound } from '../../use-cases/change-topic.ts';
import type { PushTicket } from '../../use-cases/push-queue.ts';
import { type BatchFormat, type BatchPush, ofItem, readBatch } from '../../use-cases/read-batch.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { type BodyBudget, keepRoom } from '../http/body-budget.ts';
import { problemOf } from '../http/problem.ts';
import { bodyReader } from '../http/read-body.ts';
import { logRequest } from '../http/request-log.ts';
import { mayTouch, topicRefusal } from '../http/route-access.ts';
import { closed, Problem, problems, reply } from '../http/schemas.ts';
import { concludePush, PushReply, refusalOf } from './conclude-push.ts';

const textOrInteger = (description: string) =>
  Type.Optional(Type.Unsafe<unknown>({ type: ['string', 'integer'], description }));

const BatchItem = closed({
  topic: Type.String(),
  id: Type.Optional(Type.String({ description: '1–256 bytes of UTF-8; made when not given' })),
  delay: textOrInteger('until it is due: a duration such as "30s", "10m", "1h30m"; of numbers 0 alone'),
  at: textOrInteger('when it is due: RFC 3339 with an offset, or epoch milliseconds'),
  mode: Type.Optional(Type.Enum(['replace', 'keep', 'reject'], { description: 'when the id is live' })),
  body: Type.Unknown({
    description:
      'any JSON value, delivered as the very characters it has here; where contentType is another than application/json, a string whose text is delivered',
  }),
  contentType: Type.Optional(Type.String({ description: 'application/json when not given' })),
});

const schema = {
  operationId: 'pushBatch',
  tags: ['jobs'],
  summary: `Push up to ${limits.batchItemsMax} jobs, in order; each is answered by itself`,
  response: {
    200: reply(
      'every item, in order, with the status and the members of a single push’s reply or problem',
      closed({
        accepted: Type.Integer(),
        failed: Type.Integer(),
        results: Type.Array(
          Type.Union([Type.Object({ status: Type.Integer(), ...PushReply.properties }), Problem]),
        ),
      }),
    ),
    ...problems(413, 415, 503),
  },
};

const bodyContent = {
  description: `a list of jobs, or one a line; at most ${limits.batchItemsMax} and limits.batchBytes`,
  content: {
    'application/json': { schema: Type.Array(BatchItem, { maxItems: limits.batchItemsMax }) },
    'application/x-ndjson': { schema: Type.String({ description: 'one of those objects a line' }) },
  },
};

/** In a scope of its own: the body is a Buffer here. `room`: for the bodies of unfinished batches. */
export function batchRoute(api: Api, context: ApiContext, room: BodyBudget): void {
  const { config } = context.role;
  const feeder = new BatchFeeder(context.pushes);
  api.removeAllContentTypeParsers();
  const limit = { bytes: config['limits.batchBytes'], option: 'limits.batchBytes' };
  api.addContentTypeParser('*', bodyReader(room, limit));
  api.post(
    '/v1/jobs',
    { schema, config: { access: { scope: 'push', topics: 'handler' }, requestLog: true, bodyContent } },
    async (request, answer) => {
      // Until all of it is stored, also when nobody waits for the answer any more: the bodies of its jobs are pieces of it.
      const leave = keepRoom(request.raw);
      try {
        const format = formatOf(request);
        const bytes = (request.body as Buffer | undefined) ?? Buffer.alloc(0);
        const items = readBatch(bytes, format, config['limits.bodyBytes']);
        const topicsUnknown = await learnTopics(context, items);
        const batch = new Batch(context, items, (item) => jobOf(context, request, item, topicsUnknown));
        feeder.add(() => batch.next());
        const results = await batch.settled;
        return answer.header('content-type', 'application/json; charset=utf-8').send(results);
      } finally {
        leave();
      }
    },
  );
}

function formatOf(request: FastifyRequest): BatchFormat {
  const { 'content-encoding': encoding, 'content-type': type } = request.headers;
  if (encoding !== undefined)
    throw new DqError('unsupported_media_type', 'content-encoding: send the batch plain');
  const media = type?.split(';', 1)[0]?.trim().toLowerCase();
  if (media === undefined || media === 'application/json') return 'json';
  if (media === 'application/x-ndjson') return 'ndjson';
  throw new DqError(
    'unsupported_media_type',
    "content-type: send -H 'content-type: application/json', or application/x-ndjson",
  );
}

/** A topic may be younger than this process's last look at the registry. One look for all of them: a batch can name a
 *  thousand that do not exist. Answers why the look failed, or null. */
async function learnTopics(
  { role: { topics } }: ApiContext,
  items: readonly (BatchPush | DqError)[],
): Promise<DqError | null> {
  if (items.every((item) => item instanceof DqError || topics.get(item.topic) !== undefined)) return null;
  try {
    await topics.refresh();
    return null;
  } catch (cause) {
    // However the question failed, the jobs of unknown topics were not stored.
    return new DqError('not_stored', 'the topic cannot be looked up now; push again', { cause });
  }
}

/** Never throws: it is called again and again, from wherever an earlier push was answered. */
function jobOf(
  { role: { topics, log, clock }, suggestion }: ApiContext,
  request: FastifyRequest,
  { topic: name, request: push }: BatchPush,
  unreachable: DqError | null,
): PushJob | DqError {
  const forbidden = topicRefusal(request, name);
  if (forbidden !== null) return forbidden;
  const topic = topics.get(name);
  if (topic === undefined)
    return unreachable !== null && topicNamePattern.test(name)
      ? unreachable
      : suggestion.added(topicNotFound(name), (near) => mayTouch(request, near));
  try {
    return acceptJob(push, topic, clock.now());
  } catch (error) {
    if (error instanceof DqError) return error;
    log.error('an item of a batch failed in a way nobody thought of', error);
    return new DqError('not_stored', 'dq failed at this item; its error log says how');
  }
}

/** Hands out its pushes one by one and gathers the results; `settled` is the reply's text once the last one is known. */
class Batch {
  readonly settled: Promise<string>;
  readonly #context: ApiContext;
  readonly #items: readonly (BatchPush | DqError)[];
  readonly #jobOf: (item: BatchPush) => PushJob | DqError;
  readonly #results: string[];
  readonly #since = performance.now();
  #at = 0;
  #open: number;
  #accepted = 0;
  #settle: (text: string) => void = () => {};

  constructor(
    context: ApiContext,
    items: readonly (BatchPush | DqError)[],
    toJob: (item: BatchPush) => PushJob | DqError,
  ) {
    this.#context = context;
    this.#items = items;
    this.#jobOf = toJob;
    this.#results = new Array<string>(items.length);
    this.#open = items.length;
    this.settled = new Promise((resolve) => {
      this.#settle = resolve;
    });
    if (items.length === 0) this.#finish();
  }

  /** The next item that is a push; those before it that are none have their results. null = there are no more. */
  next(): PushTicket | null {
    for (;;) {
      const index = this.#at;
      const item = this.#items[index];
      if (item === undefined) return null;
      this.#at += 1;
      if (item instanceof DqError) {
        this.#refuse(index, item, null);
        continue;
      }
      const job = this.#jobOf(item);
      if (!(job instanceof DqError)) return { job, settle: (outcome) => this.#conclude(index, job, outcome) };
      this.#refuse(index, ofItem(job, index), item);
    }
  }

  /** `item`: null when it could not be read */
  #refuse(index: number, error: DqError, item: BatchPush | null): void {
    this.#context.role.metrics.count('dq_pushes_total', 1, refusalOf(error.code));
    logRequest(this.#context.role.log, {
      method: 'POST',
      topic: item?.topic ?? null,
      id: item?.request.id ?? null,
      status: catalogue[error.code].status,
      code: error.code,
      version: null,
      dueAt: null,
      bytes: item?.request.body.length ?? 0,
      ms: null,
    });
    this.#result(index, problemOf(error).bytes.toString());
  }

  #conclude(index: number, job: PushJob, outcome: PushOutcome): void {
    const conclusion = concludePush(this.#context, job, outcome, this.#since);
    if (conclusion.ok) {
      this.#accepted += 1;
      this.#result(index, `{"status":${conclusion.status},${conclusion.members}}`);
    } else this.#result(index, problemOf(ofItem(conclusion.error, index)).bytes.toString());
  }

  #result(index: number, text: string): void {
    this.#results[index] = text;
    this.#open -= 1;
    if (this.#open === 0) this.#finish();
  }

  #finish(): void {
    const failed = this.#results.length - this.#accepted;
    this.#settle(`{"accepted":${this.#accepted},"failed":${failed},"results":[${this.#results.join(',')}]}`);
  }
}
