// POST /v1/jobs: many pushes in one request. Each item goes through the same queue as a single push, in the
// order of the batch, a bounded number at a time; one reply holds all results. A rejected item does not
// affect the others.

import type { FastifyRequest } from 'fastify';
import { type BatchResultJson, batchBody, pushBatchSchema } from '../../contract/api/push.ts';
import { catalogue, DqError } from '../../core/errors.ts';
import { grants } from '../../core/token.ts';
import { topicNamePattern } from '../../core/topic/fields.ts';
import type { PushJob, PushOutcome } from '../../ports/job-store.ts';
import { monotonicNow } from '../../runtime/time.ts';
import { acceptJob, isImport, pushTerms } from '../../use-cases/accept-job.ts';
import { topicNotFound } from '../../use-cases/change-topic.ts';
import { lookUpTopics } from '../../use-cases/find-topics.ts';
import type { PushTicket } from '../../use-cases/push-queue.ts';
import { type BatchFormat, type BatchPush, ofItem, readBatch } from '../../use-cases/read-batch.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { type BodyBudget, takeOverBody } from '../http/body-budget.ts';
import { problemOf } from '../http/problem.ts';
import { bodyReader } from '../http/read-body.ts';
import { rejectEncoding, traceOf } from '../http/request-head.ts';
import { logRequest } from '../http/request-log.ts';
import { errorFor, mayTouch, needs, rightsOf, topicRejection } from '../http/route-access.ts';
import { finishPush, type PushReply, rejectionOf } from './push-result.ts';

/** Needs a scope of its own, in which the body is a Buffer. `budget`: for the bodies of unfinished
 *  batches. */
export function batchRoute(api: Api, context: ApiContext, budget: BodyBudget): void {
  const { config } = context.role;
  api.removeAllContentTypeParsers();
  const limit = { bytes: config['limits.batchBytes'], option: 'limits.batchBytes' };
  api.addContentTypeParser('*', bodyReader(budget, limit));
  api.post(
    '/v1/jobs',
    {
      schema: pushBatchSchema,
      config: { ...needs('push', 'handler'), requestLog: true, bodyContent: batchBody },
    },
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
          role: context.role,
          items,
          jobOf: (item) => jobOf(context, request, item, lookUpError),
          accepted: ({ status, members }) => `{"status":${status},${members}}`,
          rejected: (error) => problemOf(errorFor(request.raw, error)).bytes.toString(),
          placed: ofItem,
        });
        context.pushes.addBatch(() => batch.next());
        const { accepted, results } = await batch.settled;
        // JSON already: PushBatch has collected the texts of the results.
        const json: unknown = `{"accepted":${accepted},"failed":${results.length - accepted},"results":[${results.join(',')}]}`;
        return answer.header('content-type', 'application/json; charset=utf-8').send(json as BatchResultJson);
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
    const isTraced = push.traceparent === undefined && request.headers['traceparent'] !== undefined;
    const traced = isTraced ? { ...push, ...traceOf(request.headers) } : push;
    return acceptJob(traced, topic, pushTerms(role));
  } catch (error) {
    if (error instanceof DqError) return error;
    role.log.error('unhandled error in an item of a batch', error);
    return new DqError('not_stored', 'dq failed at this item; its error log has the cause');
  }
}

type Accepted = Extract<PushReply, { readonly ok: true }>;

interface PushBatchOptions<R> {
  readonly role: ApiContext['role'];
  /** an error: an unreadable item, and its place is in the error */
  readonly items: readonly (BatchPush | DqError)[];
  /** Called as late as possible, so the current topic decides. Never throws. */
  readonly jobOf: (item: BatchPush) => PushJob | DqError;
  readonly accepted: (reply: Accepted) => R;
  readonly rejected: (error: DqError) => R;
  /** Adds the place of the item to the error of a readable one. */
  readonly placed?: (error: DqError, index: number) => DqError;
  /** protocol of the caller; absent: the HTTP API */
  readonly via?: string;
}

interface BatchResults<R> {
  readonly accepted: number;
  readonly results: readonly R[];
}

/** Supplies the pushes of one batch one by one and collects their results, in the order of the batch. Knows
 *  no format: the protocol of the caller makes the results. */
export class PushBatch<R> {
  /** after the last result */
  readonly settled: Promise<BatchResults<R>>;
  readonly #options: PushBatchOptions<R>;
  readonly #results: R[];
  readonly #since = monotonicNow();
  #at = 0;
  #open: number;
  #accepted = 0;
  #settle: (results: BatchResults<R>) => void = () => {};

  constructor(options: PushBatchOptions<R>) {
    this.#options = options;
    this.#open = options.items.length;
    this.#results = new Array<R>(options.items.length);
    this.settled = new Promise((resolve) => {
      this.#settle = resolve;
    });
    if (this.#open === 0) this.#finish();
  }

  /** The next valid push; records the results of invalid items before it. null at the end. */
  next(): PushTicket | null {
    for (;;) {
      const index = this.#at;
      const item = this.#options.items[index];
      if (item === undefined) return null;
      this.#at += 1;
      if (item instanceof DqError) {
        this.#reject(index, item, null);
        continue;
      }
      const { jobOf, placed } = this.#options;
      const job = jobOf(item);
      if (!(job instanceof DqError)) return { job, settle: (outcome) => this.#complete(index, job, outcome) };
      this.#reject(index, placed?.(job, index) ?? job, item);
    }
  }

  /** `item`: null for an unreadable one. */
  #reject(index: number, error: DqError, item: BatchPush | null): void {
    const { role, rejected, via } = this.#options;
    role.metrics.count('dq_pushes_total', 1, rejectionOf(error.code));
    logRequest(role.log, {
      method: 'POST',
      topic: item?.topic ?? null,
      id: item?.request.id ?? null,
      status: catalogue[error.code].status,
      code: error.code,
      version: null,
      dueAt: null,
      bytes: item?.request.body.length ?? 0,
      ms: null,
      ...(via === undefined ? {} : { via, reason: error.message }),
    });
    this.#record(index, rejected(error));
  }

  #complete(index: number, job: PushJob, outcome: PushOutcome): void {
    const { role, accepted, rejected, placed, via } = this.#options;
    const reply = finishPush({ role }, job, outcome, this.#since, via);
    if (reply.ok) {
      this.#accepted += 1;
      this.#record(index, accepted(reply));
    } else this.#record(index, rejected(placed?.(reply.error, index) ?? reply.error));
  }

  #record(index: number, result: R): void {
    this.#results[index] = result;
    this.#open -= 1;
    if (this.#open === 0) this.#finish();
  }

  #finish(): void {
    this.#settle({ accepted: this.#accepted, results: this.#results });
  }
}
