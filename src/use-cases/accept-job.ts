// accept-job.ts turns a push request and its topic into the job to store, and a failed push outcome into an
// error.
// Invariants: dq rejects every invalid push before it calls the store. It reads a body and never rewrites it:
// big integers, duplicate keys and spacing reach the receiver unchanged.

import { isUtf8 } from 'node:buffer';
import { v7 } from 'uuid';
import type { Config } from '../config/options.ts';
import { formatDuration, formatInstant, parseDuration, parseInstant } from '../core/duration.ts';
import { DqError, FieldErrors, invalidField, restoring } from '../core/errors.ts';
import { extensionOf, type JobOptions } from '../core/extension.ts';
import { refusesId } from '../core/job-id.ts';
import { skipBlank } from '../core/json-span.ts';
import { hasByteOrderMark, isJsonType } from '../core/json-text.ts';
import { limits } from '../core/limits.ts';
import { backoffJson, parseBackoff } from '../core/topic/backoff.ts';
import { readNumber, readWindow } from '../core/topic/field-kinds.ts';
import { refuseNoPause } from '../core/topic/settings.ts';
import type { PlainTopic } from '../core/topic/topic.ts';
import { readTraceContext } from '../core/trace-context.ts';
import type { PushJob, PushMode, PushOutcome, When } from '../ports/job-store.ts';
import { storeFailed } from '../ports/store-error.ts';
import { processLocal, randomFill, wallNow } from '../runtime/time.ts';
import { useCaseLimits } from './limits.ts';

/** A push as the request wrote it. */
export interface PushRequest {
  readonly id: string | undefined;
  readonly delay: string | undefined;
  readonly at: string | undefined;
  readonly mode: string | undefined;
  /** a duration, in place of the topic's window */
  readonly idempotency?: string | undefined;
  /** the times come from a query, where the + before an offset is decoded to a space */
  readonly inQuery: boolean;
  /** of the request; null = not given, and not sent on */
  readonly contentType: string | null;
  readonly body: Buffer;
  /** the caller confirms the body, even if it looks like a mistake */
  readonly isLiteral: boolean;
  /** the body was found to be JSON */
  readonly isCheckedJson?: boolean;
  /** of a job of a pull topic: its own lease */
  readonly lease?: string | undefined;
  /** in place of the topic's */
  readonly maxAttempts?: string | undefined;
  /** as JSON, as of a topic */
  readonly backoff?: unknown;
  /** an instant, or a duration from the push */
  readonly deadline?: string | undefined;
  /** headers or members; an invalid one counts as absent */
  readonly traceparent?: string | undefined;
  readonly tracestate?: string | readonly string[] | undefined;
  /** of the protocol that brings it; default: limits.delayMsMax */
  readonly delayMsMax?: number;
  /** of an imported job: what it went through in the system that it comes from */
  readonly acceptedAt?: string | undefined;
  readonly failures?: string | undefined;
}

/** Whether the push gives a past of the job, which only an import does. */
export function isImport({ acceptedAt, failures }: PushRequest): boolean {
  return acceptedAt !== undefined || failures !== undefined;
}

/** What a body is judged by, beside its topic. */
export interface ContentTerms {
  /** epoch ms; bounds `at` and `deadline` */
  readonly nowMs: number;
  /** limits.bodyBytes */
  readonly bodyBytesMax: number;
}

/** `nowMs`: for a caller that has already read the storage clock. */
export function pushTerms(
  role: {
    readonly clock: { now(): number };
    readonly config: Pick<Config, 'limits.bodyBytes'>;
  },
  nowMs = role.clock.now(),
): ContentTerms {
  return { nowMs, bodyBytesMax: role.config['limits.bodyBytes'] };
}

/** Returns the job of a valid request; throws DqError for an invalid one. */
export function acceptJob(request: PushRequest, topic: PlainTopic, terms: ContentTerms): PushJob {
  const { nowMs } = terms;
  const id = request.id ?? newJobId();
  if (request.id !== undefined) {
    const wrong = refusesId(id);
    if (wrong !== null) throw invalidField('id', wrong);
  }
  if (topic.state === 'offline')
    throw new DqError('topic_offline', `topic ${topic.topic} is offline and accepts no jobs; resume it`);
  const when = readWhen(request, nowMs) ?? { delayMs: topic.delayMs };
  const mode = readMode(request.mode);
  checkContent(request, topic, terms);
  const past = isImport(request) ? readPast(request) : noPast;
  // Not spread from other objects: V8 makes slow ones of that, and each push has one.
  return {
    topic: topic.topic,
    id,
    when,
    mode,
    windowMs: readPushWindow(request, topic),
    priority: topic.priority,
    contentType: request.contentType,
    body: request.body,
    extension: readOptions(request, topic, when, nowMs),
    acceptedAt: past.acceptedAt,
    failures: past.failures,
    anotherId: request.id === undefined ? newJobId : undefined,
  };
}

/** undefined: without a window. No job has ended under an id that dq makes. Throws DqError. */
function readPushWindow({ id, idempotency }: PushRequest, topic: PlainTopic): number | undefined {
  if (idempotency === undefined) return id === undefined ? undefined : topic.idempotencyMs || undefined;
  const errors = new FieldErrors();
  const asked = readWindow(idempotency, 'idempotency', errors, Number.POSITIVE_INFINITY) ?? 0;
  errors.throwIfAny();
  if (id === undefined && asked !== 0)
    throw invalidField('idempotency', 'needs an id; dq recognises a repeat by it');
  // Not bounded by history.retention: a producer does not fail when an operator lowers that, and a dead
  // letter is kept for dead.retention. Stores have 6 bytes for it.
  return Math.min(asked, limits.delayMsMax) || undefined;
}

/** null: without options. Throws DqError. */
function readOptions(request: PushRequest, topic: PlainTopic, when: When, nowMs: number): Buffer | null {
  const { lease, traceparent, tracestate } = request;
  const own = jobOptions(request, topic, when, nowMs);
  if (own === noOptions && lease === undefined && traceparent === undefined) return null;
  return extensionOf({
    ...own,
    leaseMs: lease === undefined ? undefined : readLease(lease, topic),
    trace: readTraceContext(traceparent, tracestate) ?? undefined,
  });
}

const noOptions: JobOptions = {};

/** The options that a push and an edit can give, without members for absent ones. Throws DqError. */
export function jobOptions(
  {
    maxAttempts,
    backoff,
    deadline,
    inQuery,
  }: Pick<PushRequest, 'maxAttempts' | 'backoff' | 'deadline' | 'inQuery'>,
  topic: PlainTopic,
  when: When,
  nowMs: number,
): JobOptions {
  if (maxAttempts === undefined && backoff === undefined && deadline === undefined) return noOptions;
  const errors = new FieldErrors();
  const waits = backoff === undefined ? undefined : parseBackoff(backoff, 'backoff', errors);
  if (waits !== undefined) refuseNoPause(waits, topic, errors);
  const attempts = maxAttempts === undefined ? undefined : readAttempts(maxAttempts, errors);
  errors.throwIfAny();
  return {
    ...(attempts === undefined ? {} : { maxAttempts: attempts }),
    ...(waits === undefined ? {} : { backoff: waits }),
    ...(deadline === undefined ? {} : { deadline: readDeadline(deadline, inQuery, when, nowMs) }),
  };
}

/** The `backoff` of a request that has it as a text. Throws DqError. */
export function readBackoff(text: string): unknown {
  try {
    return backoffJson(text);
  } catch {
    throw invalidField('backoff', 'must be 2n+1, waits such as 15s,3m,1h, or valid JSON');
  }
}

const readAttempts = (text: string, errors: FieldErrors): number | undefined =>
  readNumber(/^\d{1,9}$/.test(text) ? Number(text) : text, 'maxAttempts', errors, 1, limits.attemptsMax);

/** Returns epoch ms. Throws DqError. */
function readDeadline(text: string, inQuery: boolean, when: When, nowMs: number): number {
  const duration = parseDuration(text);
  const instant = duration.ok ? duration : parseInstant(text, inQuery);
  if (!instant.ok)
    throw invalidField(
      'deadline',
      'must be a duration such as 2h, RFC 3339 with an offset, or epoch milliseconds',
    );
  const deadline = duration.ok ? nowMs + duration.value : instant.value;
  if (deadline - nowMs > limits.delayMsMax) throw invalidField('deadline', 'must be at most 3650d from now');
  const due = 'at' in when ? Math.max(when.at, nowMs) : nowMs + when.delayMs;
  if (deadline > due) return deadline;
  throw invalidField(
    'deadline',
    `must be later than the first attempt, which is due at ${formatInstant(due)}`,
  );
}

function readLease(lease: string, { topic, delivery }: PlainTopic): number {
  if (delivery !== 'pull') throw invalidField('lease', `topic ${topic} is not pulled; leave it out`);
  const parsed = parseDuration(lease);
  if (!parsed.ok) throw invalidField('lease', parsed.message);
  const { pullLeaseMsMin: min, pullLeaseMsMax: max } = limits;
  if (parsed.value >= min && parsed.value <= max) return parsed.value;
  throw invalidField('lease', `must be from ${formatDuration(min)} to ${formatDuration(max)}`);
}

const noPast: Pick<PushJob, 'acceptedAt' | 'failures'> = {};

function readPast({ acceptedAt, failures }: PushRequest): Pick<PushJob, 'acceptedAt' | 'failures'> {
  const at = acceptedAt === undefined ? undefined : parseInstant(acceptedAt);
  if (at?.ok === false) throw invalidField('acceptedAt', at.message);
  if (at !== undefined && at.value < 0)
    throw invalidField('acceptedAt', 'must be 1970 or later; leave it out');
  const failed = failures === undefined ? undefined : Number(failures);
  if (failed !== undefined && (!/^\d{1,5}$/.test(failures ?? '') || failed > limits.failuresMax))
    throw invalidField('failures', `must be a whole number from 0 to ${limits.failuresMax}`);
  return { acceptedAt: at?.value, failures: failed };
}

/** null when neither is given. Throws DqError invalid. */
export function readWhen(
  {
    delay,
    at,
    inQuery,
    delayMsMax = limits.delayMsMax,
  }: Partial<Pick<PushRequest, 'delay' | 'at' | 'delayMsMax'>> & Pick<PushRequest, 'inQuery'>,
  nowMs: number,
): When | null {
  if (delay !== undefined) {
    if (at !== undefined) throw invalidField('at', 'give delay or at, not both');
    const parsed = parseDuration(delay);
    if (!parsed.ok) throw invalidField('delay', parsed.message);
    if (parsed.value > delayMsMax) throw invalidField('delay', 'must be at most 3650d');
    return { delayMs: parsed.value };
  }
  if (at === undefined) return null;
  const parsed = parseInstant(at, inQuery);
  if (!parsed.ok) throw invalidField('at', parsed.message);
  if (parsed.value - nowMs > limits.delayMsMax) throw invalidField('at', 'must be at most 3650d from now');
  return { at: parsed.value };
}

function readMode(mode: string | undefined): PushMode {
  if (mode === undefined) return 'replace';
  if (mode === 'replace' || mode === 'keep' || mode === 'reject') return mode;
  throw invalidField('mode', 'must be "replace", "keep" or "reject"');
}

/** A later callback sends it as a header. */
const contentTypePattern = /^[\x21-\x7e][\x20-\x7e]*$/;

/** Whether dq and the topic accept the body and its type. Throws DqError. */
export function checkContent(
  {
    contentType,
    body,
    isLiteral,
    isCheckedJson,
  }: Pick<PushRequest, 'contentType' | 'body' | 'isLiteral' | 'isCheckedJson'>,
  topic: Pick<PlainTopic, 'topic' | 'format'>,
  { nowMs, bodyBytesMax }: ContentTerms,
): void {
  if (body.length > bodyBytesMax) {
    const message = `larger than ${bodyBytesMax} bytes (limits.bodyBytes)`;
    throw new DqError('body_too_large', `body: ${message}`, { errors: [{ field: 'body', message }] });
  }
  if (
    contentType !== null &&
    (contentType.length > useCaseLimits.contentTypeMax || !contentTypePattern.test(contentType))
  )
    throw invalidField(
      'content-type',
      `must be at most ${useCaseLimits.contentTypeMax} visible ASCII characters`,
    );
  let value: unknown;
  if (topic.format === 'form') value = readFormJob(body, topic);
  else if (isCheckedJson === true && isLiteral) return;
  else if (isJsonType(contentType))
    value = parseJson(body, 'the content type is application/json, but the body is');
  else {
    if (!isLiteral && contentType !== null) rejectMislabelledJson(contentType, body);
    return;
  }
  if (!isLiteral) rejectBatchItem(value, topic.topic, nowMs);
}

/** Rejects what curl sends with -d and without -H. Form encoders percent-encode both brackets, so no form
 *  begins with one. */
function rejectMislabelledJson(contentType: string, body: Buffer): void {
  if (!/^application\/x-www-form-urlencoded *(;|$)/i.test(contentType)) return;
  const first = body[skipBlank(body, 0)];
  if (first !== 0x7b && first !== 0x5b) return;
  const message =
    "the body looks like JSON, but the type is application/x-www-form-urlencoded; send -H 'content-type: application/json', or literal=true in the query";
  throw new DqError('unsupported_media_type', `content-type: ${message}`, {
    errors: [{ field: 'content-type', message }],
  });
}

/** Members of an item of a batch; read-batch.ts reads a few more. */
export const batchMembers: ReadonlySet<string> = new Set([
  'topic',
  'id',
  'delay',
  'at',
  'mode',
  'idempotency',
  'body',
  'contentType',
  'lease',
  'maxAttempts',
  'backoff',
  'deadline',
]);

/** Rejects an item of POST /v1/jobs that was pushed as a body: its delay would have no effect, and the
 *  receiver would get the whole item. Messages of producers can have `body`, `id`, `mode` or `contentType`
 *  members too. So dq rejects only objects that have `body` and no member that an item lacks, with a
 *  `delay` that is a duration or a number, an `at` in the future, or this topic as `topic`. */
function rejectBatchItem(value: unknown, topic: string, nowMs: number): void {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, 'body')) return;
  const item = value as Readonly<Record<string, unknown>>;
  if (!Object.keys(item).every((name) => batchMembers.has(name))) return;
  const { delay, at } = item;
  const time = at === undefined ? null : parseInstant(at);
  const isItem =
    item['topic'] === topic ||
    typeof delay === 'number' ||
    (typeof delay === 'string' && (parseDuration(delay).ok || /^\d+$/.test(delay))) ||
    (time?.ok === true && time.value > nowMs);
  if (!isItem) return;
  throw invalidField(
    'body',
    'looks like an item of a batch; give delay, at, id and mode in the query (?delay=30s) and only its body as the request body, or push it with POST /v1/jobs. To deliver it as it is, add literal=true to the query',
  );
}

/** Ignores the content type, which dq does not send on: the callback has that of a form. */
function readFormJob(body: Buffer, topic: Pick<PlainTopic, 'topic'>): unknown {
  const value = parseJson(
    body,
    `topic ${topic.topic} has format "form" and needs a JSON object, but the body is`,
  );
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value;
  throw invalidField(
    'body',
    `must be a JSON object such as {"order":4711}: topic ${topic.topic} has format "form", and dq sends the members as fields`,
  );
}

/** `intro` begins the error message. */
function parseJson(body: Buffer, intro: string): unknown {
  if (body.length === 0) throw malformed(`${intro} empty`);
  if (!isUtf8(body)) throw malformed(`${intro} not valid UTF-8`);
  if (hasByteOrderMark(body))
    throw malformed(`${intro} not JSON: it begins with a byte order mark (EF BB BF); send it without`);
  try {
    return JSON.parse(body.toString('utf8'));
  } catch (error) {
    throw malformed(`${intro} not JSON: ${(error as Error).message}`);
  }
}

function malformed(message: string): DqError {
  const position = /at position (\d+)/.exec(message)?.[1];
  const error = { field: 'body', message, ...(position === undefined ? {} : { position: Number(position) }) };
  return new DqError('malformed_json', message, { errors: [error] });
}

/** The push succeeded: the id has its job, or had it within the window of the push. */
export type AcceptedPush = Extract<PushOutcome, { readonly kind: 'stored' | 'kept' | 'ended' }>;

export function isAccepted(outcome: PushOutcome): outcome is AcceptedPush {
  return outcome.kind === 'stored' || outcome.kind === 'kept' || outcome.kind === 'ended';
}

/** The error of a failed push. For an unknown outcome it has the job's id, so the caller can push the same
 *  id again. */
export function pushRejection(outcome: Exclude<PushOutcome, AcceptedPush>, job: PushJob): DqError {
  switch (outcome.kind) {
    case 'job_exists':
      return new DqError(
        'job_exists',
        `a job with this id is live (${outcome.state}); push with another mode or id`,
      );
    case 'not_stored':
      if (outcome.code === 'restoring') return restoring();
      return storeFailed('not_stored', 'the job was not stored', outcome, 'push it again');
    case 'unknown':
      return new DqError(
        'unknown',
        `the job may or may not be stored (${outcome.code}); pushing it again with its id is safe`,
        { extra: { id: outcome.id ?? job.id } },
      );
  }
}

const idBytes = 16;
const poolBytes = 256 * idBytes;
/** Random bytes for 256 ids: one draw per id cost 5 µs of the 30 µs of a push, this costs 0.3 µs. */
const idPool = processLocal(() => ({ bytes: Buffer.allocUnsafe(poolBytes), used: poolBytes }));

/** A UUIDv7, so that ids sort by time. */
export function newJobId(): string {
  const pool = idPool();
  if (pool.used === poolBytes) {
    randomFill(pool.bytes);
    pool.used = 0;
  }
  const random = pool.bytes.subarray(pool.used, pool.used + idBytes);
  pool.used += idBytes;
  return v7({ random, msecs: wallNow() });
}
