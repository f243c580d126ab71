// frames.ts cuts the bytes of a connection into frames: 4 digits, then as many bytes of JSON.
// Invariant: a connection holds at most one incomplete frame, and its bytes are joined twice at most.

import { compatLimits } from '../limits.ts';

const digits = 4;
const openObject = 0x7b;

export class FrameReader {
  /** of the incomplete frame */
  #pieces: Buffer[] = [];
  #length = 0;
  /** whole length of the incomplete frame with its digits; 0: not known yet */
  #needed = 0;

  /** Whether a frame has begun and is not complete. */
  get isWithin(): boolean {
    return this.#length > 0;
  }

  /** Calls `onFrame` for each complete frame, in order. Returns the mistake that ends the connection, or
   *  null. */
  read(chunk: Buffer, onFrame: (json: Buffer) => void): string | null {
    let rest = chunk;
    for (;;) {
      if (this.#needed === 0) {
        // At most four bytes wait here, and each new one is checked at once.
        const head = this.#length === 0 ? rest : Buffer.concat([...this.#pieces, rest]);
        this.#pieces = [];
        this.#length = 0;
        if (head.length === 0) return null;
        const mistake = mistakeIn(head);
        if (mistake !== null) return mistake;
        if (head.length <= digits) {
          this.#hold(head);
          return null;
        }
        this.#needed = digits + Number(head.toString('latin1', 0, digits));
        rest = head;
      }
      const missing = this.#needed - this.#length;
      if (rest.length < missing) {
        this.#hold(rest);
        return null;
      }
      const last = rest.subarray(0, missing);
      const frame = this.#length === 0 ? last : Buffer.concat([...this.#pieces, last]);
      rest = rest.subarray(missing);
      this.#pieces = [];
      this.#length = 0;
      this.#needed = 0;
      onFrame(frame.subarray(digits));
    }
  }

  #hold(piece: Buffer): void {
    if (piece.length === 0) return;
    this.#pieces.push(piece);
    this.#length += piece.length;
  }
}

/** Of the first five bytes, as far as they have arrived. */
function mistakeIn(head: Buffer): string | null {
  const end = Math.min(head.length, digits);
  for (let n = 0; n < end; n++) if (!isDigit(head[n])) return 'a frame begins with 4 digits';
  if (head.length >= digits && head.toString('latin1', 0, digits) === '0000') return 'a frame of no bytes';
  const first = head[digits];
  if (first === undefined || first === openObject) return null;
  return isDigit(first)
    ? `too long: a frame has at most ${compatLimits.frameBytesMax} bytes`
    : 'a frame holds a JSON object';
}

function isDigit(byte: number | undefined): boolean {
  return byte !== undefined && byte >= 0x30 && byte <= 0x39;
}

/** Null for text that needs more than four digits. */
export function frameOf(json: string): string | null {
  const bytes = Buffer.byteLength(json);
  return bytes > compatLimits.frameBytesMax ? null : String(bytes).padStart(digits, '0') + json;
}
