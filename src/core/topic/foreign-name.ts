// Names of topics in other systems, as topics of dq. Pure.
// Invariant: different names stay different.

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
