// Compares two values of a reply or rule as PHP 8 does: existing retry rules were written for PHP. Accepts
// every pair of JSON values, never throws, never recurses; the work is linear in the values.
// Deliberate differences: lists and objects are never in order; every number is a double. JavaScript puts
// members named like indexes ("0", "12") first in an object, so `===` cannot see their place in the reply.

import { compareBytes, compareNumbers, compareTexts, numberText, numericText } from './php-text.ts';

/** An array in PHP: a JSON list or object. */
export type Container = readonly unknown[] | Readonly<Record<string, unknown>>;

export function isContainer(value: unknown): value is Container {
  return typeof value === 'object' && value !== null;
}

const canonicalIndex = /^(?:0|[1-9]\d*)$/;

/** A member of a parsed reply: own members only, never the prototype (JSON.parse makes an own `__proto__`).
 *  undefined when absent: JSON itself has no undefined. A list has its indexes only, not `length`. */
export function memberOf(value: unknown, key: string): unknown {
  if (!isContainer(value)) return undefined;
  if (Array.isArray(value)) return canonicalIndex.test(key) ? value[Number(key)] : undefined;
  return Object.hasOwn(value, key) ? (value as Readonly<Record<string, unknown>>)[key] : undefined;
}

/** PHP's (bool): null, false, 0, -0, "", "0", [] and {} are false. */
export function isTruthy(value: unknown): boolean {
  if (isContainer(value)) return Object.keys(value).length > 0;
  return value !== null && value !== false && value !== 0 && value !== '' && value !== '0';
}

/** `==` */
export function looselyEqual(a: unknown, b: unknown): boolean {
  return isContainer(a) && isContainer(b) ? sameMembers(a, b, 'loosely') : leavesEqual(a, b);
}

/** `===`; a list and an object with the same members are the same array to PHP. */
export function identical(a: unknown, b: unknown): boolean {
  return isContainer(a) && isContainer(b) ? sameMembers(a, b, 'identical') : a === b;
}

/** Negative, 0 or positive, for `< <= > >=`; null with a list or object: then none of the operators holds. */
export function compareOrder(a: unknown, b: unknown): number | null {
  return isContainer(a) || isContainer(b) ? null : compareScalars(a, b);
}

/** `==` of two values that are not both containers. */
function leavesEqual(a: unknown, b: unknown): boolean {
  if (isBoolOrNull(a) || isBoolOrNull(b) || !(isContainer(a) || isContainer(b))) {
    return compareScalars(a, b) === 0;
  }
  return false;
}

/** Uses stacks, not recursion: a reply of 64 KiB can be 30,000 lists deep. */
function sameMembers(a: Container, b: Container, how: 'loosely' | 'identical'): boolean {
  const lefts: unknown[] = [a];
  const rights: unknown[] = [b];
  while (lefts.length > 0) {
    const left = lefts.pop();
    const right = rights.pop();
    if (!isContainer(left) || !isContainer(right)) {
      if (how === 'loosely' ? !leavesEqual(left, right) : left !== right) return false;
      continue;
    }
    if (Array.isArray(left) && Array.isArray(right)) {
      // Lists of one length have the same keys; making these as text costs five times the work.
      if (left.length !== right.length) return false;
      for (let i = left.length - 1; i >= 0; i--) {
        lefts.push(left[i]);
        rights.push(right[i]);
      }
      continue;
    }
    const keys = Object.keys(left);
    const others = Object.keys(right);
    if (keys.length !== others.length) return false;
    for (const [index, key] of keys.entries()) {
      const other = memberOf(right, key);
      if (other === undefined || (how === 'identical' && others[index] !== key)) return false;
      lefts.push(memberOf(left, key));
      rights.push(other);
    }
  }
  return true;
}

function isBoolOrNull(value: unknown): boolean {
  return value === null || typeof value === 'boolean';
}

/** At most one of both may be a container, and only with a bool or null. */
function compareScalars(a: unknown, b: unknown): number {
  if (a === null && typeof b === 'string') return compareBytes('', b);
  if (b === null && typeof a === 'string') return compareBytes(a, '');
  if (isBoolOrNull(a) || isBoolOrNull(b)) return Number(isTruthy(a)) - Number(isTruthy(b));
  if (typeof a === 'number') return typeof b === 'number' ? compareNumbers(a, b) : numberToText(a, String(b));
  if (typeof b === 'number') return -numberToText(b, String(a));
  return compareTexts(String(a), String(b));
}

function numberToText(n: number, text: string): number {
  const numeric = numericText(text);
  return numeric === null ? compareBytes(numberText(n), text) : compareNumbers(n, numeric.value);
}
