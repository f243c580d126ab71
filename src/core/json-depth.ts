// Bounds how deep JSON from outside is nested, where dq parses it and writes it again: JSON.stringify
// recurses, and fails with a RangeError where JSON.parse does not. Bodies of jobs are never written again,
// and have no such bound.

import { limits } from './limits.ts';

/** The sentence of a rejection; null: at most limits.jsonDepthMax levels. Of valid JSON. */
export function tooDeep(json: string): string | null {
  let depth = 0;
  let isText = false;
  for (let at = 0; at < json.length; at++) {
    const character = json[at];
    if (isText) {
      if (character === '\\') at += 1;
      else if (character === '"') isText = false;
    } else if (character === '"') isText = true;
    else if (character === '[' || character === '{') {
      depth += 1;
      if (depth > limits.jsonDepthMax)
        return `is nested deeper than ${limits.jsonDepthMax} levels; send less`;
    } else if (character === ']' || character === '}') depth -= 1;
  }
  return null;
}
