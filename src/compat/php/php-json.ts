// php-json.ts writes JSON as PHP's json_encode does: no blanks, `\/`, and \u escapes for all but ASCII. Java
// clients decode pieces of 4,096 bytes one by one, which cuts other characters apart. Pure.

import { type Span, skipBlank } from '../../core/json-span.ts';
import { namedMembers } from '../../core/json-text.ts';

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
