// form-body.ts turns a job's body into form fields for receivers written for php-delayqueue. Pure.
// Invariant: the output is plain ASCII in which `&`, `=` and `%` have their form meaning, for every pushed
// body.

import { namedMembers } from './named-members.ts';

/** Name → text, in the order of sending. */
export type FormFields = Map<string, string>;

/** The top-level members of a JSON object: text as it is, numbers and nested values as the pushed JSON, true
 *  as `1`, false and null empty. A repeated name keeps its first place and its last value, as in PHP's
 *  json_decode. Any other body has no fields: its topic had another format at the push. */
export function formFields(body: Buffer): FormFields {
  const fields: FormFields = new Map();
  for (const { name, value } of namedMembers(body) ?? [])
    fields.set(name, valueText(body.toString('utf8', value.from, value.to)));
  return fields;
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

/** `a=1&b=x%20y`, as php-delayqueue joins the results of PHP's rawurlencode. */
export function writeForm(fields: FormFields): string {
  return [...fields].map(([name, text]) => `${rawUrlEncode(name)}=${rawUrlEncode(text)}`).join('&');
}

/** RFC 3986: escapes all but A-Z a-z 0-9 - _ . ~. A lone surrogate, which JSON can write and UTF-8 cannot,
 *  becomes U+FFFD. */
function rawUrlEncode(text: string): string {
  return encodeURIComponent(Buffer.from(text).toString()).replace(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

/** Adds the fields to the query of `path`. A field replaces a parameter of the same name, as in
 *  php-delayqueue: receivers differ in which of two they read. Other parameters keep their spelling. */
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
