// Holds a callback's reply as the verdict reads it. It is untrusted text: never copied whole, never printed
// raw.

import { isUtf8 } from 'node:buffer';
import type { IncomingHttpHeaders } from 'node:http';
import { TextDecoder } from 'node:util';
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

  /** Decoded as UTF-8, or in one of `charsets` that the reply declares; invalid bytes become U+FFFD. Decoded
   *  only for rules and excerpts. */
  get text(): string {
    this.#text ??= this.#decode();
    return this.#text;
  }

  #decode(): string {
    const [first] = this.#chunks;
    if (first === undefined) return '';
    const bytes = this.#chunks.length === 1 ? first : Buffer.concat(this.#chunks);
    return decoderFor(this.header('content-type'))?.decode(bytes) ?? bytes.toString();
  }

  headerNames(): readonly string[] {
    return Object.keys(this.#headers);
  }

  /** A repeated header is joined by commas, as in HTTP. Both clients decode headers as Latin 1. */
  header(name: string): string | null {
    if (!Object.hasOwn(this.#headers, name)) return null;
    const value = this.#headers[name];
    if (value === undefined) return null;
    return headerText(Array.isArray(value) ? value.join(', ') : value);
  }
}

/** Receivers write UTF-8, as people do who test a rule; HTTP once said Latin 1. */
function headerText(latin1: string): string {
  if (!/[\x80-\xff]/.test(latin1)) return latin1;
  const bytes = Buffer.from(latin1, 'latin1');
  return isUtf8(bytes) ? bytes.toString() : latin1;
}

/** Others, such as iso-8859-1, are often the default of a server whose scripts write UTF-8. Names as
 *  TextDecoder returns them: gb2312 is gbk. */
const charsets: ReadonlySet<string> = new Set(['gbk', 'gb18030', 'big5', 'shift_jis']);

function decoderFor(contentType: string | null): TextDecoder | null {
  const [, label] = /;[ \t]*charset="?([\w.:-]+)/i.exec(contentType ?? '') ?? [];
  if (label === undefined) return null;
  try {
    const decoder = new TextDecoder(label);
    return charsets.has(decoder.encoding) ? decoder : null;
  } catch {
    return null; // an unknown name, or a Node without that charset
  }
}
