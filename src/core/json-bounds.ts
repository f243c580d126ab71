// Bounds JSON from outside where dq parses it and writes it again. Depth: JSON.stringify recurses, and fails
// with a RangeError where JSON.parse does not. Number of values: JSON.parse of 4 MiB blocks a process for
// 5 ms where it reads some long texts, and for up to 800 ms where it makes a million lists or objects. Bodies
// of jobs are never written again, and have no such bounds.

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
