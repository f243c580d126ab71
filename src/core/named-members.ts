// namedMembers finds the members of a JSON object by their decoded names. Pure.

import { isUtf8 } from 'node:buffer';
import { membersOf, type Span } from './json-span.ts';

export interface NamedMember {
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
