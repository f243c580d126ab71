// Names of topics in other systems, as topics of dq. Pure.
// Invariant: different names stay different, except that the encoded form of a name means this name too.

import { limits } from '../limits.ts';
import { topicNamePattern } from './fields.ts';

/** The name itself where dq allows it. Otherwise `x_` and the UTF-8 bytes of the name: every byte except
 *  A-Z a-z 0-9 . - becomes `_` and two hex digits. null: empty, or too long in this form. */
export function topicOfForeign(name: string): string | null {
  if (topicNamePattern.test(name)) return name;
  const bytes = [...Buffer.from(name)].map((byte) => {
    const character = String.fromCharCode(byte);
    return /[A-Za-z0-9.-]/.test(character) ? character : `_${byte.toString(16).padStart(2, '0')}`;
  });
  const encoded = `x_${bytes.join('')}`;
  return name === '' || encoded.length > limits.topicNameMax ? null : encoded;
}

/** The name in the other system. */
export function foreignOfTopic(topic: string): string {
  if (!topic.startsWith('x_')) return topic;
  const pieces = topic.slice(2).match(/_[0-9a-f]{2}|[^_]+|_/g) ?? [];
  const bytes = pieces.map((piece) =>
    /^_[0-9a-f]{2}$/.test(piece) ? Buffer.from(piece.slice(1), 'hex') : Buffer.from(piece),
  );
  const name = Buffer.concat(bytes).toString();
  return name !== topic && topicOfForeign(name) === topic ? name : topic;
}
