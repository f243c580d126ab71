// Reads a batch of pushes: from the bytes of one request to one push, or one refusal, for each of its items. Knows no topic and
// stores nothing. A body is the span that its item's text gives it, never a value that was written again.
//
// Invariant: what one item says decides about that item alone; only a text that is no batch at all refuses the whole.

import { isUtf8 } from 'node:buffer';
import { Complaints } from '../core/complaints.ts';
import { DqError, invalidField } from '../core/errors.ts';
import { elementsOf, type MemberSpan, membersOf, skipBlank } from '../core/json-span.ts';
import { limits } from '../core/limits.ts';
import { isJson, type PushRequest } from './accept-job.ts';

export type BatchFormat = 'json' | 'ndjson';

/** An item that can be read; whether its topic takes it is another question. */
export interface BatchPush {
  readonly topic: string;
  readonly request: PushRequest;
}

/** In order: a push, or why the item is none. Throws a DqError when the whole is refused. */
export function readBatch(
  bytes: Buffer,
  format: BatchFormat,
  bodyBytesMax: number,
): readonly (BatchPush | DqError)[] {
  const texts = format === 'json' ? listItems(bytes) : lines(bytes);
  if (texts.length > limits.batchItemsMax)
    throw invalidField('items', `must be at most ${limits.batchItemsMax}`);
  return texts.map((text, index) => readItem(text, index, bodyBytesMax));
}

/** A refusal of one item, as the whole batch says it: `delay` is `items[3].delay`. */
export function ofItem(error: DqError, index: number): DqError {
  const errors = error.errors.map(({ field, ...rest }) => ({
    // In a batch the content type is a member, not a header.
    field: `items[${index}].${field === 'content-type' ? 'contentType' : field}`,
    ...rest,
  }));
  const [first] = errors;
  const detail = first === undefined ? error.message : `${first.field}: ${first.message}`;
  return new DqError(error.code, detail, { errors, extra: { ...error.extra }, cause: error.cause });
}

function listItems(bytes: Buffer): readonly Buffer[] {
  if (!isUtf8(bytes)) throw new DqError('malformed_json', 'the batch is not valid UTF-8');
  const spans = elementsOf(bytes, limits.batchItemsMax);
  if (spans === null) throw invalidField('body', 'must be a JSON list of jobs');
  if ('mistakeAt' in spans) throw malformed('body', bytes, spans.mistakeAt);
  return spans.map(({ from, to }) => bytes.subarray(from, to));
}

/** Blank lines are no items. */
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
  // Known of a list already; a line that is none is the mistake of its item alone.
  if (!isUtf8(text))
    return new DqError('malformed_json', `${field}: is not valid UTF-8`, {
      errors: [{ field, message: 'is not valid UTF-8' }],
    });
  const members = membersOf(text, memberNames.size);
  if (members === null) return invalidField(field, 'must be a JSON object');
  if ('mistakeAt' in members) return malformed(field, text, members.mistakeAt);
  const complaints = new Complaints();
  const item = new Item(text, members, complaints);
  const push = readPush(item, complaints);
  const error = complaints.error();
  if (error !== null) return ofItem(error, index);
  if (push === null) throw new Error('an item of a batch is no push, and nobody has complained');
  if (push.request.body.length > bodyBytesMax)
    return new DqError(
      'body_too_large',
      `${field}: the body is larger than ${bodyBytesMax} bytes (limits.bodyBytes)`,
    );
  return push;
}

const memberNames = new Set(['topic', 'id', 'delay', 'at', 'mode', 'body', 'contentType']);

/** null only after a complaint. */
function readPush(item: Item, complaints: Complaints): BatchPush | null {
  const topic = item.text('topic');
  if (topic === undefined && !item.has('topic')) complaints.reject('topic', 'is needed');
  const id = item.text('id');
  const delay = item.textOrNumber('delay');
  const at = item.textOrNumber('at');
  const mode = item.text('mode');
  const contentType = item.text('contentType') ?? 'application/json';
  const body = isJson(contentType) ? item.bytes('body') : item.textBytes('body');
  if (body === undefined && !item.has('body')) complaints.reject('body', 'is needed');
  if (topic === undefined || body === undefined) return null;
  return { topic, request: { id, delay, at, mode, inQuery: false, contentType, body, isLiteral: true } };
}

/** The members of one item by name. Complains of what is unknown, repeated, or of another type than asked for. */
class Item {
  readonly #text: Buffer;
  readonly #values = new Map<string, Buffer>();
  readonly #complaints: Complaints;

  constructor(text: Buffer, members: readonly MemberSpan[], complaints: Complaints) {
    this.#text = text;
    this.#complaints = complaints;
    for (const { name: span, value } of members) {
      const name = decode(text.subarray(span.from, span.to));
      if (!memberNames.has(name)) complaints.reject(name, 'is no member of this object');
      else if (this.#values.has(name)) complaints.reject(name, 'is given twice');
      else this.#values.set(name, this.#text.subarray(value.from, value.to));
    }
  }

  has(name: string): boolean {
    return this.#values.has(name);
  }

  /** as it stands in the text */
  bytes(name: string): Buffer | undefined {
    return this.#values.get(name);
  }

  text(name: string): string | undefined {
    const value = this.#values.get(name);
    if (value === undefined) return undefined;
    return isText(value) ? decode(value) : this.#complaints.reject(name, 'must be a string');
  }

  /** A number as the characters it was written with: `1e3` and `1.5` are to be seen by whoever reads durations. */
  textOrNumber(name: string): string | undefined {
    const value = this.#values.get(name);
    if (value === undefined) return undefined;
    if (isText(value)) return decode(value);
    const first = value[0] ?? 0;
    if (first === 0x2d || (first >= 0x30 && first <= 0x39)) return value.toString('latin1');
    return this.#complaints.reject(name, 'must be a string or a whole number');
  }

  textBytes(name: string): Buffer | undefined {
    const value = this.#values.get(name);
    if (value === undefined) return undefined;
    if (!isText(value))
      return this.#complaints.reject(name, 'must be a string, because contentType is not application/json');
    const text = decode(value);
    // A lone surrogate has no UTF-8; it would be delivered as another character.
    if (/\p{Cs}/u.test(text)) return this.#complaints.reject(name, 'must be well-formed Unicode');
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

/** `position` counts characters, as an editor does. */
function malformed(field: string, text: Buffer, at: number): DqError {
  const position = text.toString('utf8', 0, at).length;
  const message = at < text.length ? 'is not JSON from here on' : 'is JSON that breaks off';
  return new DqError('malformed_json', `${field}: ${message} (position ${position})`, {
    errors: [{ field, message, position }],
  });
}
