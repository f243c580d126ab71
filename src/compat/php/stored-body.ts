// stored-body.ts turns the body of a php-delayqueue request into the job's body. Pure. The bytes of an object
// stay unchanged; php-delayqueue decodes and encodes them.

import { invalidField } from '../../core/errors.ts';
import { elementsOf, membersOf } from '../../core/json-span.ts';
import type { PlainTopic } from '../../core/topic/topic.ts';

export interface StoredBody {
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
