// Compares two values of a reply or rule as PHP 8 does: existing retry rules were written for PHP. Accepts
// every pair of JSON values, never throws, never recurses; the work is linear in the values.
// Deliberate differences: lists and objects are never in order; every number is a double. JavaScript puts
// members named like indexes ("0", "12") first in an object, so `===` cannot see their place in the reply.

/** An array in PHP: a JSON list or object. */
type Container = readonly unknown[] | Readonly<Record<string, unknown>>;

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

// Texts and numbers. They come from untrusted replies, so all work is linear in their length.

/** Blanks around a number exactly as in PHP: no NUL, no NBSP. */
const numericPattern =
  /^[ \t\n\r\v\f]*(?:([+-]?\d+)|[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)[ \t\n\r\v\f]*$/;

interface NumericText {
  readonly value: number;
  /** digits and sign of an integer: integers of any size compare exactly; null for other numbers */
  readonly integer: string | null;
}

/** null for text that PHP does not read as a number: "", "abc", "200abc", "0x1A", "1e", ".". */
function numericText(text: string): NumericText | null {
  const match = numericPattern.exec(text);
  if (match === null) return null;
  // The pattern already limits the blanks; Number() reads "1.", ".5" and "+1".
  return { value: Number(text), integer: match[1] ?? null };
}

/** Negative, 0 or positive. Texts that are both numbers compare as numbers, all others by their UTF-8
 *  bytes. */
function compareTexts(a: string, b: string): number {
  const x = numericText(a);
  const y = x === null ? null : numericText(b);
  if (x === null || y === null) return compareBytes(a, b);
  if (x.integer !== null && y.integer !== null) return compareIntegers(x.integer, y.integer);
  // 1e999 and 1e1000 are both infinite; PHP then compares the text.
  if (x.value === y.value && !Number.isFinite(x.value)) return compareBytes(a, b);
  return compareNumbers(x.value, y.value);
}

function compareNumbers(a: number, b: number): number {
  return a === b ? 0 : a < b ? -1 : 1;
}

/** Compares digits: parsing a BigInt of 64 KiB is not linear. */
function compareIntegers(a: string, b: string): number {
  const [x, y] = [significantDigits(a), significantDigits(b)];
  if (x.negative !== y.negative) return x.negative ? -1 : 1;
  const larger = x.digits.length - y.digits.length || compareBytes(x.digits, y.digits);
  return x.negative ? -larger : larger;
}

function significantDigits(integer: string): { readonly negative: boolean; readonly digits: string } {
  const digits = integer.replace(/^[+-]?0*/, '');
  return { negative: integer.startsWith('-') && digits !== '', digits };
}

/** Compares by UTF-8 bytes, which is the order of the code points. UTF-16 units differ from it between
 *  surrogates and U+E000–U+FFFF. */
function compareBytes(a: string, b: string): number {
  const end = Math.min(a.length, b.length);
  for (let i = 0; i < end; i++) {
    const x = a.charCodeAt(i);
    const y = b.charCodeAt(i);
    if (x !== y) return codePointRank(x) - codePointRank(y);
  }
  return a.length - b.length;
}

/** Surrogates encode code points above all single units. */
function codePointRank(unit: number): number {
  return unit >= 0xd800 && unit <= 0xdfff ? unit + 0x10000 : unit;
}

/** PHP's `precision` */
const floatDigits = 14;

/** A number as PHP writes it to compare it with non-numeric text. Whole numbers below 10^15 like PHP
 *  integers, all others like PHP floats: 14 digits, with an exponent where these do not reach the point, and
 *  below 10^-4. (PHP writes 1e15 as 1.0E+15 and 1000000000000000 in full; as doubles they are the same.) */
export function numberText(n: number): string {
  if (Object.is(n, -0)) return '-0';
  if (!Number.isFinite(n)) return n > 0 ? 'INF' : '-INF';
  if (Number.isInteger(n) && Math.abs(n) < 1e15) return String(n);
  const sign = n < 0 ? '-' : '';
  const { digits, exponent } = roundHalfEven(Math.abs(n));
  if (exponent < -4 || exponent >= floatDigits) {
    const power = `${exponent < 0 ? '-' : '+'}${Math.abs(exponent)}`;
    return `${sign}${digits[0]}.${digits.slice(1) || '0'}E${power}`;
  }
  if (exponent < 0) return `${sign}0.${'0'.repeat(-exponent - 1)}${digits}`;
  const whole = digits.slice(0, exponent + 1).padEnd(exponent + 1, '0');
  const fraction = digits.slice(exponent + 1);
  return sign + (fraction === '' ? whole : `${whole}.${fraction}`);
}

/** n = d.ddd × 10^exponent with at most 14 digits, without trailing zeros. PHP rounds a tie to the even
 *  digit, toPrecision rounds it up; 100 places are all digits of a tied double. */
function roundHalfEven(n: number): { readonly digits: string; readonly exponent: number } {
  const [mantissa = '', power = '0'] = n.toExponential(100).split('e');
  const exact = mantissa.replace('.', '');
  const rest = exact.slice(floatDigits).replace(/0+$/, '');
  const kept = BigInt(exact.slice(0, floatDigits));
  const up = rest === '5' ? kept % 2n === 1n : rest > '5';
  const rounded = String(up ? kept + 1n : kept);
  // 9.99…9 became 10.0…0
  const carried = rounded.length > floatDigits ? 1 : 0;
  return { digits: rounded.replace(/0+$/, ''), exponent: Number(power) + carried };
}
