// Values as literals of a statement. The statements with up to 1,000 rows are written with them: placeholders
// took more processor time than the rest of the recorder.

/** Printable ASCII without quote and backslash: the same bytes in each character set and SQL mode. */
const plain = /^[ -&(-[\]-~]*$/;

export function bytesLiteral(bytes: Buffer): string {
  const text = bytes.toString('latin1');
  return plain.test(text) ? `'${text}'` : `x'${bytes.toString('hex')}'`;
}

/** For a column of bytes. */
export function textLiteral(text: string): string {
  return plain.test(text) ? `'${text}'` : `x'${Buffer.from(text).toString('hex')}'`;
}

/** For a column of characters. */
export function wordsLiteral(text: string): string {
  return plain.test(text) ? `'${text}'` : `_utf8mb4 x'${Buffer.from(text).toString('hex')}'`;
}

/** The number in so many bytes, as hexadecimal digits. At most 2^53. */
export function hexOf(number: number, bytes: number): string {
  return number.toString(16).padStart(2 * bytes, '0');
}
