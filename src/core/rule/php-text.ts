// Compares text as PHP 8 does: numeric text, order of numbers, numbers as text. All work is linear in the
// length of the texts: they come from untrusted replies.

/** Blanks around a number exactly as in PHP: no NUL, no NBSP. */
const numericPattern =
  /^[ \t\n\r\v\f]*(?:([+-]?\d+)|[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)[ \t\n\r\v\f]*$/;

export interface NumericText {
  readonly value: number;
  /** digits and sign of an integer: integers of any size compare exactly; null for other numbers */
  readonly integer: string | null;
}

/** null for text that PHP does not read as a number: "", "abc", "200abc", "0x1A", "1e", ".". */
export function numericText(text: string): NumericText | null {
  const match = numericPattern.exec(text);
  if (match === null) return null;
  // The pattern already limits the blanks; Number() reads "1.", ".5" and "+1".
  return { value: Number(text), integer: match[1] ?? null };
}

/** Negative, 0 or positive. Texts that are both numbers compare as numbers, all others by their UTF-8
 *  bytes. */
export function compareTexts(a: string, b: string): number {
  const x = numericText(a);
  const y = x === null ? null : numericText(b);
  if (x === null || y === null) return compareBytes(a, b);
  if (x.integer !== null && y.integer !== null) return compareIntegers(x.integer, y.integer);
  // 1e999 and 1e1000 are both infinite; PHP then compares the text.
  if (x.value === y.value && !Number.isFinite(x.value)) return compareBytes(a, b);
  return compareNumbers(x.value, y.value);
}

export function compareNumbers(a: number, b: number): number {
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
export function compareBytes(a: string, b: string): number {
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
