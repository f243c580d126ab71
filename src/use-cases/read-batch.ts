// read-batch.ts parses the bytes of a batch into one push, or one error, per item. Knows no topic and stores
// nothing.
// Invariants: a body is a slice of the request, never a re-serialized value. A mistake in an item affects
// only that item; an unparsable batch is rejected as a whole. The event loop turns after every
// batchStepBytes, and no value is made of an item that is larger than any job.

import { isUtf8 } from 'node:buffer';
import { DqError, FieldErrors, invalidField } from '../core/errors.ts';
import { elementSteps, type MemberSpan, membersOf, type Span, skipBlank } from '../core/json-span.ts';
import { isJsonType, withoutByteOrderMark } from '../core/json-text.ts';
import { limits } from '../core/limits.ts';
import { unknownName } from '../core/suggest.ts';
import { turn } from '../runtime/time.ts';
import { batchMembers, type PushRequest } from './accept-job.ts';
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
  const isList = format === 'json';
  const texts = isList ? await listItems(text) : lines(text);
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
    items.push(readItem(item, items.length, bodyBytesMax, isList));
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

/** `isUtf8Text`: checked already. */
function readItem(
  text: Buffer,
  index: number,
  bodyBytesMax: number,
  isUtf8Text: boolean,
): BatchPush | DqError {
  const { itemBytesMore, escapeBytes } = useCaseLimits;
  const most = bodyBytesMax * escapeBytes + itemBytesMore;
  if (text.length > most)
    return new DqError(
      'body_too_large',
      `items[${index}]: has ${text.length} bytes, and an item has at most ${most}, because its body has at most ${bodyBytesMax} (limits.bodyBytes); send less, or raise the option`,
    );
  // A list was checked as a whole; of lines, only this one is wrong.
  if (!isUtf8Text && !isUtf8(text)) {
    const field = `items[${index}]`;
    return new DqError('malformed_json', `${field}: not valid UTF-8`, {
      errors: [{ field, message: 'not valid UTF-8' }],
    });
  }
  const members = membersOf(text, memberNames.length);
  if (members === null) return invalidField(`items[${index}]`, 'must be a JSON object');
  if ('mistakeAt' in members) return malformed(`items[${index}]`, text, members.mistakeAt);
  const more = bytesBesideBody(text, members);
  if (more > itemBytesMore)
    return invalidField(
      `items[${index}]`,
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
interface EditRequest extends Pick<PushRequest, 'delay' | 'at' | 'maxAttempts' | 'backoff' | 'deadline'> {
  readonly body: Buffer | undefined;
  readonly contentType: string | undefined;
  readonly requeue: boolean;
  readonly newWebhookId: boolean;
}

const editMembers: readonly string[] =
  'body contentType delay at maxAttempts backoff deadline requeue newWebhookId'.split(' ');

/** Reads an edit; its body as in an item of a batch. `stored`: content type of the job. Throws DqError. */
export function readEdit(bytes: Buffer, stored: string | null): EditRequest {
  const text = withoutByteOrderMark(bytes);
  if (!isUtf8(text)) throw new DqError('malformed_json', 'body: not valid UTF-8');
  const members = membersOf(text, editMembers.length);
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
    body: isJsonType(contentType ?? stored) ? item.bytes('body') : item.textBytes('body'),
    requeue: item.flag('requeue'),
    newWebhookId: item.flag('newWebhookId'),
  };
  errors.throwIfAny();
  return request;
}

function bytesBesideBody(text: Buffer, members: readonly MemberSpan[]): number {
  // A repeated body is a mistake.
  const body = members.find(
    ({ name }) => name.to - name.from <= bodyNameBytesMax && nameIn(text, name, memberNames) === 'body',
  );
  return text.length - (body === undefined ? 0 : body.value.to - body.value.from);
}

/** with its quotes, and every character escaped */
const bodyNameBytesMax = 2 + 4 * useCaseLimits.escapeBytes;

const memberNames: readonly string[] = [
  ...batchMembers,
  'traceparent',
  'tracestate',
  // Of an imported job
  'acceptedAt',
  'failures',
];

/** null only with an error. */
function readPush(item: Item, errors: FieldErrors): BatchPush | null {
  const topic = item.text('topic');
  if (topic === undefined && !item.has('topic')) errors.reject('topic', 'is required');
  const id = item.text('id');
  const delay = item.textOrNumber('delay');
  const at = item.textOrNumber('at');
  const mode = item.text('mode');
  const idempotency = item.textOrNumber('idempotency');
  const contentType = item.text('contentType') ?? 'application/json';
  const lease = item.textOrNumber('lease');
  const maxAttempts = item.textOrNumber('maxAttempts');
  const backoff = item.json('backoff');
  const deadline = item.textOrNumber('deadline');
  const traceparent = item.text('traceparent');
  const tracestate = item.text('tracestate');
  const acceptedAt = item.textOrNumber('acceptedAt');
  const failures = item.textOrNumber('failures');
  const isCheckedJson = isJsonType(contentType);
  const body = isCheckedJson ? item.bytes('body') : item.textBytes('body');
  if (body === undefined && !item.has('body')) errors.reject('body', 'is required');
  if (topic === undefined || body === undefined) return null;
  return {
    topic,
    // Not spread from other objects: V8 makes slow ones of that.
    request: {
      id,
      delay,
      at,
      mode,
      idempotency,
      inQuery: false,
      contentType,
      body,
      isLiteral: true,
      isCheckedJson,
      lease,
      maxAttempts,
      backoff,
      deadline,
      traceparent,
      tracestate,
      acceptedAt,
      failures,
    },
  };
}

/** The members of one item by name. Rejects unknown, repeated and mistyped members. */
class Item {
  readonly #text: Buffer;
  readonly #values = new Map<string, Span>();
  readonly #errors: FieldErrors;

  constructor(text: Buffer, members: readonly MemberSpan[], errors: FieldErrors, names: readonly string[]) {
    this.#text = text;
    this.#errors = errors;
    for (const { name: span, value } of members) {
      const name = nameIn(text, span, names);
      if (!names.includes(name))
        errors.reject(name, unknownName('field', name, names, 'GET /openapi.json lists them'));
      else if (this.#values.has(name)) errors.reject(name, 'given twice; give it once');
      else this.#values.set(name, value);
    }
  }

  has(name: string): boolean {
    return this.#values.has(name);
  }

  /** the characters of the request */
  bytes(name: string): Buffer | undefined {
    const value = this.#values.get(name);
    return value === undefined ? undefined : this.#text.subarray(value.from, value.to);
  }

  text(name: string): string | undefined {
    const value = this.#values.get(name);
    if (value === undefined) return undefined;
    return this.#isText(value) ? decode(this.#text, value) : this.#errors.reject(name, 'must be a string');
  }

  /** A number as written: the duration parser must see `1e3` and `1.5`. */
  textOrNumber(name: string): string | undefined {
    const value = this.#values.get(name);
    if (value === undefined) return undefined;
    if (this.#isText(value)) return decode(this.#text, value);
    const first = this.#text[value.from] ?? 0;
    if (first === 0x2d || (first >= 0x30 && first <= 0x39))
      return this.#text.toString('latin1', value.from, value.to);
    return this.#errors.reject(name, 'must be a string or a whole number');
  }

  json(name: string): unknown {
    const value = this.bytes(name);
    return value === undefined ? undefined : JSON.parse(value.toString());
  }

  flag(name: string): boolean {
    const value = this.bytes(name)?.toString('latin1');
    if (value !== undefined && value !== 'true' && value !== 'false')
      this.#errors.reject(name, 'must be true or false');
    return value === 'true';
  }

  textBytes(name: string): Buffer | undefined {
    const value = this.#values.get(name);
    if (value === undefined) return undefined;
    if (!this.#isText(value))
      return this.#errors.reject(name, 'must be a string, because contentType is not application/json');
    const text = decode(this.#text, value);
    // A lone surrogate has no UTF-8 form; dq would deliver another character.
    if (/\p{Cs}/u.test(text)) return this.#errors.reject(name, 'must be well-formed Unicode');
    return Buffer.from(text);
  }

  #isText({ from }: Span): boolean {
    return this.#text[from] === 0x22;
  }
}

/** One of `names`, which are ASCII, or the name as it is written. Decoding each costs a fifth of an item. */
function nameIn(text: Buffer, span: Span, names: readonly string[]): string {
  for (const name of names) if (isName(text, span, name)) return name;
  return decode(text, span);
}

function isName(text: Buffer, { from, to }: Span, name: string): boolean {
  if (to - from !== name.length + 2) return false;
  for (let n = 0; n < name.length; n++) if (text[from + 1 + n] !== name.charCodeAt(n)) return false;
  return true;
}

/** `quoted`: with its quotes */
function decode(text: Buffer, quoted: Span): string {
  const inner = text.toString('utf8', quoted.from + 1, quoted.to - 1);
  return inner.includes('\\') ? (JSON.parse(`"${inner}"`) as string) : inner;
}

/** `position`: characters from 0, as editors count. */
function malformed(field: string, text: Buffer, at: number): DqError {
  const position = text.toString('utf8', 0, at).length;
  const message = at < text.length ? 'not JSON from here on' : 'JSON breaks off here';
  return new DqError('malformed_json', `${field}: ${message} (position ${position})`, {
    errors: [{ field, message, position }],
  });
}
