// json-text.ts reads JSON from outside: its byte order mark, its members, and its bounds where dq parses it
// and writes it again. Depth: JSON.stringify recurses, and fails with a RangeError where JSON.parse does not.
// Number of values: JSON.parse of 4 MiB blocks a process for 5 ms where it reads some long texts, and for up
// to 800 ms where it makes a million lists or objects. Bodies of jobs are never written again, and have no
// such bounds.

import { isUtf8 } from 'node:buffer';
import { membersOf, type Span } from './json-span.ts';
import { limits } from './limits.ts';

const quote = 0x22;
const backslash = 0x5c;
const comma = 0x2c;
const colon = 0x3a;

/** The sentence of a rejection; null: within the bounds. Of any text: the bounds come before the parser. */
export function beyondBounds(json: string): string | null {
  let depth = 0;
  let values = 0;
  let isText = false;
  for (let at = 0; at < json.length; at++) {
    const character = json.charCodeAt(at);
    if (isText) {
      if (character === backslash) at += 1;
      else if (character === quote) isText = false;
    } else if (character === quote) isText = true;
    else if (character === comma || character === colon) values += 1;
    // [ and {
    else if (character === 0x5b || character === 0x7b) {
      values += 1;
      depth += 1;
      if (depth > limits.jsonDepthMax)
        return `is nested deeper than ${limits.jsonDepthMax} levels; send less`;
      // ] and }
    } else if (character === 0x5d || character === 0x7d) depth -= 1;
    if (values > limits.jsonValuesMax) return `has more than ${limits.jsonValuesMax} values; send less`;
  }
  return null;
}

/** Whether the text begins with the byte order mark of UTF-8, as files of programs on Windows do. JSON does
 *  not allow it. Where dq reads the text, it skips the mark. It never removes the mark from the body of a
 *  job: the receiver gets the pushed bytes, so the push is rejected with the name of the mark. */
export function hasByteOrderMark(bytes: Uint8Array): boolean {
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf;
}

export function withoutByteOrderMark(bytes: Buffer): Buffer {
  return hasByteOrderMark(bytes) ? bytes.subarray(3) : bytes;
}

/** Whether the media type is exactly application/json, with any parameters: a body of application/json-seq or
 *  application/problem+json is opaque. */
export function isJsonType(contentType: string | null | undefined): boolean {
  if (contentType === 'application/json') return true;
  return contentType?.split(';', 1)[0]?.trim().toLowerCase() === 'application/json';
}

/** A member of a JSON object by its decoded name. */
interface NamedMember {
  readonly name: string;
  /** from the name to the end of the value */
  readonly span: Span;
  readonly value: Span;
}

/** All members of a text that is one JSON object in UTF-8, in order and with repeated names; null for any
 *  other text. */
export function namedMembers(text: Buffer): readonly NamedMember[] | null {
  const members = isUtf8(text) ? membersOf(text, Number.POSITIVE_INFINITY) : null;
  if (members === null || 'mistakeAt' in members) return null;
  return members.map(({ name, value }) => ({
    name: JSON.parse(text.toString('utf8', name.from, name.to)) as string,
    span: { from: name.from, to: value.to },
    value,
  }));
}
