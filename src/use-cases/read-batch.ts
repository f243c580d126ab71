// read-batch.ts parses the bytes of a batch into one push, or one error, per item. Knows no topic and stores
// nothing.
// Invariants: a body is a slice of the request, never a re-serialized value. A mistake in an item affects
// only that item; an unparsable batch is rejected as a whole. The event loop turns after every
// batchStepBytes, and no value is made of an item that is larger than any job.

import { isUtf8 } from 'node:buffer';
import { DqError, FieldErrors, invalidField } from '../core/errors.ts';
import { elementSteps, type MemberSpan, membersOf, skipBlank } from '../core/json-span.ts';
import { withoutByteOrderMark } from '../core/json-text.ts';
import { limits } from '../core/limits.ts';
import { unknownName } from '../core/suggest.ts';
import { turn } from '../runtime/time.ts';
import { batchMembers, isJson, type PushRequest } from './accept-job.ts';
import { useCaseLimits } from './limits.ts';

export type BatchFormat = 'json' | 'ndjson';

/** A readable item; its topic is not checked yet. */
export interface BatchPush {
  readonly topic: string;
  readonly request: PushRequest;
}

/** A push or an error per item, in order. Skips a byte order mark. Rejects with DqError for an unparsable
 *  batch. */
export async function readBatch(
  bytes: Buffer,
  format: BatchFormat,
  bodyBytesMax: number,
): Promise<readonly (BatchPush | DqError)[]> {
  const text = withoutByteOrderMark(bytes);
  const texts = format === 'json' ? await listItems(text) : lines(text);
  if (texts.length > limits.batchItemsMax)
    throw invalidField('items', `must be at most ${limits.batchItemsMax}; send several batches`);
  const items: (BatchPush | DqError)[] = [];
  let read = 0;
  for (const item of texts) {
    if (read > useCaseLimits.batchStepBytes) {
      await turn();
      read = 0;
    }
    read += item.length;
    items.push(readItem(item, items.length, bodyBytesMax));
  }
  return items;
}

/** The error of an item with its place in the batch: `delay` becomes `items[3].delay`. */
export function ofItem(error: DqError, index: number): DqError {
  const errors = error.errors.map(({ field, ...rest }) => ({
    // In a batch the content type is a field, not a header.
    field: `items[${index}].${field === 'content-type' ? 'contentType' : field}`,
    ...rest,
  }));
  const [first] = errors;
  const detail = first === undefined ? error.message : `${first.field}: ${first.message}`;
  const { code, extra, namingServer, cause } = error;
  return new DqError(code, detail, { errors, extra: { ...extra }, namingServer, cause });
}

async function listItems(bytes: Buffer): Promise<readonly Buffer[]> {
  if (!isUtf8(bytes)) throw new DqError('malformed_json', 'body: not valid UTF-8');
  const steps = elementSteps(bytes, limits.batchItemsMax, useCaseLimits.batchStepBytes);
  let step = steps.next();
  for (; step.done !== true; step = steps.next()) await turn();
  const spans = step.value;
  if (spans === null)
    throw invalidField(
      'body',
      'must be a JSON list of jobs, such as [{"topic":"order.close","body":{}}]; POST /v1/topics/TOPIC/jobs takes one job',
    );
  if ('mistakeAt' in spans) throw malformed('body', bytes, spans.mistakeAt);
  return spans.map(({ from, to }) => bytes.subarray(from, to));
}

/** Ignores blank lines. */
function lines(bytes: Buffer): readonly Buffer[] {
  const found: Buffer[] = [];
  let at = skipBlank(bytes, 0);
  while (at < bytes.length && found.length <= limits.batchItemsMax) {
    const newline = bytes.indexOf(0x0a, at);
    const end = newline < 0 ? bytes.length : newline;
    found.push(bytes.subarray(at, end));
    at = skipBlank(bytes, end);
  }
  return found;
}

function readItem(text: Buffer, index: number, bodyBytesMax: number): BatchPush | DqError {
  const field = `items[${index}]`;
  const { itemBytesMore, escapeBytes } = useCaseLimits;
  const most = bodyBytesMax * escapeBytes + itemBytesMore;
  if (text.length > most)
    return new DqError(
      'body_too_large',
      `${field}: has ${text.length} bytes, and an item has at most ${most}, because its body has at most ${bodyBytesMax} (limits.bodyBytes); send less, or raise the option`,
    );
  // A list was checked as a whole; of lines, only this one is wrong.
  if (!isUtf8(text))
    return new DqError('malformed_json', `${field}: not valid UTF-8`, {
      errors: [{ field, message: 'not valid UTF-8' }],
    });
  const members = membersOf(text, memberNames.size);
  if (members === null) return invalidField(field, 'must be a JSON object');
  if ('mistakeAt' in members) return malformed(field, text, members.mistakeAt);
  const more = bytesBesideBody(text, members);
  if (more > itemBytesMore)
    return invalidField(
      field,
      `has ${more} bytes beside its body; at most ${itemBytesMore} are allowed: send shorter values`,
    );
  const errors = new FieldErrors();
  const item = new Item(text, members, errors, memberNames);
  const push = readPush(item, errors);
  const error = errors.error();
  if (error !== null) return ofItem(error, index);
  if (push === null) throw new Error('item of a batch without a push and without an error');
  return push;
}

/** What an edit gives; absent: it stays. */
export interface EditRequest
  extends Pick<PushRequest, 'delay' | 'at' | 'maxAttempts' | 'backoff' | 'deadline'> {
  readonly body: Buffer | undefined;
  readonly contentType: string | undefined;
  readonly requeue: boolean;
  readonly newWebhookId: boolean;
}

const editMembers: ReadonlySet<string> = new Set(
  'body contentType delay at maxAttempts backoff deadline requeue newWebhookId'.split(' '),
);

/** Reads an edit; its body as in an item of a batch. `stored`: content type of the job. Throws DqError. */
export function readEdit(bytes: Buffer, stored: string | null): EditRequest {
  const text = withoutByteOrderMark(bytes);
  if (!isUtf8(text)) throw new DqError('malformed_json', 'body: not valid UTF-8');
  const members = membersOf(text, editMembers.size);
  if (members === null) throw invalidField('body', 'must be a JSON object such as {"body":{"order":4711}}');
  if ('mistakeAt' in members) throw malformed('body', text, members.mistakeAt);
  const errors = new FieldErrors();
  const item = new Item(text, members, errors, editMembers);
  const contentType = item.text('contentType');
  const request = {
    contentType,
    delay: item.textOrNumber('delay'),
    at: item.textOrNumber('at'),
    maxAttempts: item.textOrNumber('maxAttempts'),
    backoff: item.json('backoff'),
    deadline: item.textOrNumber('deadline'),
    body: isJson(contentType ?? stored ?? '') ? item.bytes('body') : item.textBytes('body'),
    requeue: item.flag('requeue'),
    newWebhookId: item.flag('newWebhookId'),
  };
  errors.throwIfAny();
  return request;
}

function bytesBesideBody(text: Buffer, members: readonly MemberSpan[]): number {
  // A repeated body is a mistake.
  const body = members.find(
    ({ name: { from, to } }) => to - from <= bodyNameBytesMax && decode(text.subarray(from, to)) === 'body',
  );
  return text.length - (body === undefined ? 0 : body.value.to - body.value.from);
}

/** with its quotes, and every character escaped */
const bodyNameBytesMax = 2 + 4 * useCaseLimits.escapeBytes;

const memberNames: ReadonlySet<string> = new Set([
  ...batchMembers,
  'traceparent',
  'tracestate',
  // Of an imported job
  'acceptedAt',
  'failures',
]);

/** null only with an error. */
function readPush(item: Item, errors: FieldErrors): BatchPush | null {
  const topic = item.text('topic');
  if (topic === undefined && !item.has('topic')) errors.reject('topic', 'is required');
  const request = {
    id: item.text('id'),
    delay: item.textOrNumber('delay'),
    at: item.textOrNumber('at'),
    mode: item.text('mode'),
    idempotency: item.textOrNumber('idempotency'),
    contentType: item.text('contentType') ?? 'application/json',
    lease: item.textOrNumber('lease'),
    maxAttempts: item.textOrNumber('maxAttempts'),
    backoff: item.json('backoff'),
    deadline: item.textOrNumber('deadline'),
    traceparent: item.text('traceparent'),
    tracestate: item.text('tracestate'),
    acceptedAt: item.textOrNumber('acceptedAt'),
    failures: item.textOrNumber('failures'),
    inQuery: false,
    isLiteral: true,
  };
  const body = isJson(request.contentType) ? item.bytes('body') : item.textBytes('body');
  if (body === undefined && !item.has('body')) errors.reject('body', 'is required');
  return topic === undefined || body === undefined ? null : { topic, request: { ...request, body } };
}

/** The members of one item by name. Rejects unknown, repeated and mistyped members. */
class Item {
  readonly #text: Buffer;
  readonly #values = new Map<string, Buffer>();
  readonly #errors: FieldErrors;

  constructor(text: Buffer, members: readonly MemberSpan[], errors: FieldErrors, names: ReadonlySet<string>) {
    this.#text = text;
    this.#errors = errors;
    for (const { name: span, value } of members) {
      const name = decode(text.subarray(span.from, span.to));
      if (!names.has(name))
        errors.reject(name, unknownName('field', name, [...names], 'GET /openapi.json lists them'));
      else if (this.#values.has(name)) errors.reject(name, 'given twice; give it once');
      else this.#values.set(name, this.#text.subarray(value.from, value.to));
    }
  }

  has(name: string): boolean {
    return this.#values.has(name);
  }

  /** the characters of the request */
  bytes(name: string): Buffer | undefined {
    return this.#values.get(name);
  }

  text(name: string): string | undefined {
    const value = this.#values.get(name);
    if (value === undefined) return undefined;
    return isText(value) ? decode(value) : this.#errors.reject(name, 'must be a string');
  }

  /** A number as written: the duration parser must see `1e3` and `1.5`. */
  textOrNumber(name: string): string | undefined {
    const value = this.#values.get(name);
    if (value === undefined) return undefined;
    if (isText(value)) return decode(value);
    const first = value[0] ?? 0;
    if (first === 0x2d || (first >= 0x30 && first <= 0x39)) return value.toString('latin1');
    return this.#errors.reject(name, 'must be a string or a whole number');
  }

  json(name: string): unknown {
    const value = this.#values.get(name);
    return value === undefined ? undefined : JSON.parse(value.toString());
  }

  flag(name: string): boolean {
    const value = this.#values.get(name)?.toString('latin1');
    if (value !== undefined && value !== 'true' && value !== 'false')
      this.#errors.reject(name, 'must be true or false');
    return value === 'true';
  }

  textBytes(name: string): Buffer | undefined {
    const value = this.#values.get(name);
    if (value === undefined) return undefined;
    if (!isText(value))
      return this.#errors.reject(name, 'must be a string, because contentType is not application/json');
    const text = decode(value);
    // A lone surrogate has no UTF-8 form; dq would deliver another character.
    if (/\p{Cs}/u.test(text)) return this.#errors.reject(name, 'must be well-formed Unicode');
    return Buffer.from(text);
  }
}

function isText(value: Buffer): boolean {
  return value[0] === 0x22;
}

function decode(quoted: Buffer): string {
  const text = quoted.toString('utf8');
  return text.includes('\\') ? (JSON.parse(text) as string) : text.slice(1, -1);
}

/** `position`: characters from 0, as editors count. */
function malformed(field: string, text: Buffer, at: number): DqError {
  const position = text.toString('utf8', 0, at).length;
  const message = at < text.length ? 'not JSON from here on' : 'JSON breaks off here';
  return new DqError('malformed_json', `${field}: ${message} (position ${position})`, {
    errors: [{ field, message, position }],
  });
}
