// message.ts reads the JSON that clients of sdmq and mykit-delay push, and writes it in one order. Pure.

import { DqError } from '../../core/errors.ts';
import { jsonMembers, textOf, wholeNumber } from '../http/json-members.ts';

/** In the order in which dq writes them. */
const kinds = {
  topic: 'text',
  subtopic: 'text',
  id: 'text',
  bizKey: 'text',
  delay: 'number',
  ttl: 'number',
  body: 'text',
  createTime: 'number',
  status: 'number',
  extendData: 'text',
} as const;
type Name = keyof typeof kinds;
const names = Object.keys(kinds) as Name[];

/** Absent members are undefined. Numbers are digits: they can be larger than a double counts. */
export type Message = { readonly [N in Name]?: string };

/** Numbers may be written as text, and text as numbers. Throws DqError. */
export function readMessage(json: Buffer): Message {
  const given = jsonMembers(json);
  if (given === null) throw new DqError('malformed_json', 'body: must be a JSON object');
  const message: { [N in Name]?: string } = {};
  for (const name of names) {
    const value = given.get(name);
    if (value === undefined) continue;
    const isNumber = /^-?\d/.test(value);
    const text = isNumber ? value : textOf(value);
    if (text === null || (kinds[name] === 'number' && !wholeNumber.test(text)))
      throw new DqError('malformed_json', `${name}: must be ${kinds[name] === 'text' ? 'text' : 'a number'}`);
    message[name] = text;
  }
  return message;
}

/** `encoding`: of the body; default: text. */
export function writeMessage(message: Message, encoding?: 'base64'): string {
  const members = names.flatMap((name) => {
    const value = message[name];
    if (value === undefined) return [];
    // JSON has no leading zeros.
    return [`"${name}":${kinds[name] === 'text' ? JSON.stringify(value) : BigInt(value)}`];
  });
  if (encoding !== undefined) members.push(`"encoding":"${encoding}"`);
  return `{${members.join(',')}}`;
}
