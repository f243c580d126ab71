// php-json.ts writes JSON as PHP's json_encode does: no blanks, `\/`, and \u escapes for all but ASCII. Java
// clients decode pieces of 4,096 bytes one by one, which cuts other characters apart. Makes the job's body of
// a request's body: the bytes of an object stay unchanged; php-delayqueue decodes and encodes them. Pure.

import { invalidField } from '../../core/errors.ts';
import { elementsOf, membersOf, type Span, skipBlank } from '../../core/json-span.ts';
import { namedMembers } from '../../core/json-text.ts';
import type { PlainTopic } from '../../core/topic/topic.ts';

/** `ascii`: escapes all but ASCII; otherwise UTF-8. */
export function phpString(text: string, ascii: boolean): string {
  return `"${text.replace(ascii ? notAscii : notUtf8, escaped)}"`;
}

const notAscii = /["\\/]|[^\x20-\x7f]/g;
/** UTF-8 has no lone surrogates. */
const notUtf8 = /["\\/\x00-\x1f]|\p{Cs}/gu;
const named: Readonly<Record<string, string>> = {
  '\b': '\\b',
  '\f': '\\f',
  '\n': '\\n',
  '\r': '\\r',
  '\t': '\\t',
};

function escaped(character: string): string {
  if (character === '"' || character === '\\' || character === '/') return `\\${character}`;
  return named[character] ?? `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

/** The members of a JSON object, name → JSON as PHP writes it, in order; numbers keep their text. A repeated
 *  name keeps its first place and its last value, as in PHP's json_decode. null: not a JSON object. */
export function phpMembers(json: Buffer, ascii: boolean): Map<string, string> | null {
  const members = namedMembers(json);
  return members && new Map(members.map(({ name, value }) => [name, rewritten(json, value, ascii)]));
}

/** `json`: checked. */
function rewritten(json: Buffer, { from, to }: Span, ascii: boolean): string {
  let text = '';
  let at = from;
  while (at < to) {
    const end = json[at] === quote ? endOfString(json, at) : endOfRest(json, at, to);
    const piece = json.toString('utf8', at, end);
    text += json[at] === quote ? phpString(JSON.parse(piece), ascii) : piece;
    at = skipBlank(json, end);
  }
  return text;
}

const quote = 0x22;
const backslash = 0x5c;

function endOfString(json: Buffer, from: number): number {
  let at = from + 1;
  while (json[at] !== quote) at += json[at] === backslash ? 2 : 1;
  return at + 1;
}

/** The next string, white space, or end. */
function endOfRest(json: Buffer, from: number, to: number): number {
  let at = from + 1;
  while (at < to && json[at] !== quote && skipBlank(json, at) === at) at += 1;
  return at;
}

interface StoredBody {
  readonly contentType: string;
  readonly body: Buffer;
}

const json = 'application/json';
const empty = Buffer.from('{}');

/** `value`: JSON of the member, checked; null = absent. Throws DqError. */
export function storedBody(value: Buffer | null, format: PlainTopic['format']): StoredBody {
  switch (value?.[0]) {
    case undefined:
    case 0x66: // false
    case 0x6e: // null
      return { contentType: json, body: empty };
    case 0x7b: // {
      return { contentType: json, body: value as Buffer };
    case 0x5b: // [
      return { contentType: json, body: objectOf(value as Buffer) };
    case 0x22: // "
      return ofText(value as Buffer, format);
    default:
      throw invalidField('body', 'must be an object, a list or text');
  }
}

/** PHP writes an array with the keys 0, 1, 2 … as a list: the members get these names. */
function objectOf(list: Buffer): Buffer {
  const elements = elementsOf(list, Number.POSITIVE_INFINITY);
  if (elements === null || 'mistakeAt' in elements) throw new Error('not a list');
  const pieces: Buffer[] = [];
  for (const [n, { from, to }] of elements.entries())
    pieces.push(Buffer.from(`${n === 0 ? '' : ','}"${n}":`), list.subarray(from, to));
  return Buffer.concat([Buffer.from('{'), ...pieces, Buffer.from('}')]);
}

function ofText(value: Buffer, format: PlainTopic['format']): StoredBody {
  const text: string = JSON.parse(value.toString('utf8'));
  if (text === '') return { contentType: json, body: empty };
  if (/\p{Cs}/u.test(text)) throw invalidField('body', 'must be well-formed Unicode');
  const body = Buffer.from(text);
  const members = membersOf(body, Number.POSITIVE_INFINITY);
  // Java clients write the object as text.
  if (members !== null && !('mistakeAt' in members)) return { contentType: json, body };
  if (format === 'raw') return { contentType: 'text/plain; charset=utf-8', body };
  return { contentType: json, body: Buffer.concat([Buffer.from('{"body":'), value, Buffer.from('}')]) };
}
