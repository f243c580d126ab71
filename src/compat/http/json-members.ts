// json-members.ts reads the members of a JSON object as the protocols of other queues declare them: text, and
// whole numbers, whose digits it keeps. Pure.

import { isUtf8 } from 'node:buffer';
import { mistakeIn } from '../../core/json-span.ts';
import { namedMembers } from '../../core/json-text.ts';

/** JSON of each member by name; of a repeated name the last one, and null is absent. null: not a JSON
 *  object. */
export function jsonMembers(body: Buffer, nameOf = (name: string) => name): Map<string, string> | null {
  const members = namedMembers(body);
  if (members === null) return null;
  const found = new Map<string, string>();
  for (const { name, value } of members) {
    const json = body.toString('utf8', value.from, value.to);
    if (json !== 'null') found.set(nameOf(name), json);
  }
  return found;
}

/** Of JSON text; null for any other value. */
export function textOf(json: string): string | null {
  return json.startsWith('"') ? JSON.parse(json) : null;
}

/** A body as JSON has it: bytes that are not UTF-8 are base64. */
export function bodyText(body: Buffer): { readonly body: string; readonly encoding?: 'base64' } {
  return isUtf8(body) ? { body: body.toString() } : { body: body.toString('base64'), encoding: 'base64' };
}

/** The job's body for a text: JSON where the text is JSON. */
export function textBody(text: string): { readonly contentType: string; readonly body: Buffer } {
  const body = Buffer.from(text);
  return { contentType: mistakeIn(body) === null ? 'application/json' : 'text/plain; charset=utf-8', body };
}

export const wholeNumber = /^-?\d{1,18}$/;
