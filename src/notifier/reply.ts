// Holds a callback's reply as the verdict reads it. It is untrusted text: never copied whole, never printed
// raw.

import type { IncomingHttpHeaders } from 'node:http';
import type { CallReply } from '../core/verdict.ts';

export class Reply implements CallReply {
  readonly kind = 'replied';
  readonly status: number;
  /** the body was longer than limits.replyBytesMax; the rest was dropped */
  readonly cut: boolean;
  readonly #headers: IncomingHttpHeaders;
  readonly #chunks: readonly Buffer[];
  #text: string | null = null;

  constructor(status: number, headers: IncomingHttpHeaders, chunks: readonly Buffer[], cut: boolean) {
    this.status = status;
    this.cut = cut;
    this.#headers = headers;
    this.#chunks = chunks;
  }

  get bytes(): number {
    let total = 0;
    for (const chunk of this.#chunks) total += chunk.length;
    return total;
  }

  /** Decoded as UTF-8 whatever the reply claims; invalid bytes become U+FFFD. Decoded only for rules and
   *  excerpts. */
  get text(): string {
    const [first] = this.#chunks;
    this.#text ??=
      first === undefined ? '' : (this.#chunks.length === 1 ? first : Buffer.concat(this.#chunks)).toString();
    return this.#text;
  }

  /** A repeated header is joined by commas, as in HTTP. */
  header(name: string): string | null {
    if (!Object.hasOwn(this.#headers, name)) return null;
    const value = this.#headers[name];
    return Array.isArray(value) ? value.join(', ') : (value ?? null);
  }
}

// C0, DEL and C1, the two line ends that JSON does not escape, marks of text direction, and single
// surrogates.
const unprintable =
  /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

/** The beginning of an untrusted text, safe for logs, mails and terminals: at most `charactersMax`
 *  characters, with unprintable ones written as \u and four digits. */
export function excerptOf(text: string, charactersMax: number): string {
  const escaped = text
    .slice(0, charactersMax)
    .replace(unprintable, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`);
  return escaped.slice(0, charactersMax);
}
