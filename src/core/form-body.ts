// A job's body as form fields, for receivers written for php-delayqueue (callback.md, "The request"). Pure.
// Invariant: what is written is plain ASCII in which `&`, `=` and `%` mean what they mean in forms, whatever was pushed.

import { isUtf8 } from 'node:buffer';
import { membersOf, type Span } from './json-span.ts';

/** Name → text, in the order of sending. */
export type FormFields = Map<string, string>;

/** The top-level members of a JSON object: text as it is, numbers and nested values as the JSON that was pushed, true `1`,
 *  false and null empty. A name that repeats keeps its first place and its last value, as PHP's json_decode has it. A body
 *  that is no JSON object has no fields: its topic had another format when it was pushed. */
export function formFields(body: Buffer): FormFields {
  const fields: FormFields = new Map();
  if (!isUtf8(body)) return fields;
  const members = membersOf(body, Number.POSITIVE_INFINITY);
  if (members === null || 'mistakeAt' in members) return fields;
  for (const { name, value } of members)
    fields.set(JSON.parse(textOf(body, name)), valueText(textOf(body, value)));
  return fields;
}

function textOf(body: Buffer, { from, to }: Span): string {
  return body.toString('utf8', from, to);
}

function valueText(json: string): string {
  switch (json[0]) {
    case '"':
      return JSON.parse(json);
    case 't':
      return '1';
    case 'f':
    case 'n':
      return '';
    default:
      return json;
  }
}

/** `a=1&b=x%20y`, as php-delayqueue joins what PHP's rawurlencode gave. */
export function writeForm(fields: FormFields): string {
  return [...fields].map(([name, text]) => `${rawUrlEncode(name)}=${rawUrlEncode(text)}`).join('&');
}

/** RFC 3986: all but A-Z a-z 0-9 - _ . ~ is escaped. Half a surrogate pair, which JSON can write and UTF-8 cannot, becomes
 *  U+FFFD. */
function rawUrlEncode(text: string): string {
  return encodeURIComponent(Buffer.from(text).toString()).replace(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

/** `path` with its query, the fields added. What the URL says already stays as it is written, but a parameter that a field
 *  names too: php-delayqueue sends the field instead, and receivers differ in which of two they read. */
export function addToQuery(path: string, fields: FormFields): string {
  const from = path.indexOf('?');
  if (from < 0) return `${path}?${writeForm(fields)}`;
  const kept = path
    .slice(from + 1)
    .split('&')
    .filter((piece) => piece !== '' && !fields.has(parameterName(piece)));
  return `${path.slice(0, from)}?${[...kept, writeForm(fields)].join('&')}`;
}

function parameterName(piece: string): string {
  const [entry] = new URLSearchParams(piece);
  return entry?.[0] ?? '';
}
