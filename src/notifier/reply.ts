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

  headerNames(): readonly string[] {
    return Object.keys(this.#headers);
  }

  /** A repeated header is joined by commas, as in HTTP. */
  header(name: string): string | null {
    if (!Object.hasOwn(this.#headers, name)) return null;
    const value = this.#headers[name];
    return Array.isArray(value) ? value.join(', ') : (value ?? null);
  }
}
