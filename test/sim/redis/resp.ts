// The protocol of Redis, as far as a simulated world speaks it: commands of clients, replies of the real
// server (version 3, with messages between the replies) and replies to clients (version 2).

/** A string is a simple one, a Buffer a bulk string. */
export type Reply = number | string | Buffer | null | readonly Reply[] | ReplyError;

/** An error reply: its first word is the code. */
export class ReplyError {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

export type Arg = string | number | Buffer;

/** The whole pieces at the beginning of `bytes`, and the number of their bytes. */
export interface Parsed<T> {
  readonly pieces: readonly T[];
  readonly length: number;
}

const lineFeed = 10;
const codes = {
  plus: 43,
  minus: 45,
  colon: 58,
  dollar: 36,
  star: 42,
  underscore: 95,
  angle: 62,
  percent: 37,
} as const;

export function commandBytes(args: readonly Arg[]): Buffer {
  const parts: Buffer[] = [Buffer.from(`*${args.length}\r\n`)];
  for (const arg of args) {
    const bytes = Buffer.isBuffer(arg) ? arg : Buffer.from(String(arg));
    parts.push(Buffer.from(`$${bytes.length}\r\n`), bytes, Buffer.from('\r\n'));
  }
  return Buffer.concat(parts);
}

/** For a client that speaks version 2. */
export function replyBytes(reply: Reply): Buffer {
  const parts: Buffer[] = [];
  writeReply(reply, parts);
  return Buffer.concat(parts);
}

function writeReply(reply: Reply, parts: Buffer[]): void {
  const line = (text: string) => parts.push(Buffer.from(`${text}\r\n`));
  if (reply === null) line('$-1');
  else if (typeof reply === 'number') line(`:${reply}`);
  else if (typeof reply === 'string') line(`+${reply}`);
  else if (reply instanceof ReplyError) line(`-${reply.text}`);
  else if (Buffer.isBuffer(reply)) {
    line(`$${reply.length}`);
    parts.push(reply, Buffer.from('\r\n'));
  } else {
    line(`*${(reply as readonly Reply[]).length}`);
    for (const item of reply as readonly Reply[]) writeReply(item, parts);
  }
}

/** Commands that a client has sent. */
export function readCommands(bytes: Buffer): Parsed<readonly Buffer[]> {
  const { pieces, length } = readReplies(bytes);
  return { pieces: pieces.map(({ reply }) => reply as readonly Buffer[]), length };
}

export interface ReceivedReply {
  readonly reply: Reply;
  /** a message of a subscription, which answers no command */
  readonly isPush: boolean;
}

export function readReplies(bytes: Buffer): Parsed<ReceivedReply> {
  const pieces: ReceivedReply[] = [];
  const reader = new Reader(bytes);
  for (;;) {
    const start = reader.at;
    const isPush = bytes[start] === codes.angle;
    const reply = start < bytes.length ? reader.read() : incomplete;
    if (reply === incomplete) return { pieces, length: start };
    pieces.push({ reply, isPush });
  }
}

const incomplete = Symbol('incomplete');

class Reader {
  readonly #bytes: Buffer;
  at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  read(): Reply | typeof incomplete {
    const code = this.#bytes[this.at];
    const end = this.#bytes.indexOf(lineFeed, this.at);
    if (end < 0) return incomplete;
    const text = this.#bytes.toString('latin1', this.at + 1, end - 1);
    this.at = end + 1;
    switch (code) {
      case codes.colon:
        return Number(text);
      case codes.plus:
        return text;
      case codes.minus:
        return new ReplyError(text);
      case codes.underscore:
        return null;
      case codes.dollar:
        return this.#bulk(Number(text));
      case codes.star:
      case codes.angle:
        return this.#array(Number(text));
      case codes.percent:
        return this.#array(2 * Number(text));
      default:
        throw new Error(`a reply begins with ${code}`);
    }
  }

  #bulk(length: number): Buffer | null | typeof incomplete {
    if (length < 0) return null;
    const start = this.at;
    this.at += length + 2;
    if (this.at > this.#bytes.length) return incomplete;
    return this.#bytes.subarray(start, start + length);
  }

  #array(length: number): Reply | typeof incomplete {
    if (length < 0) return null;
    const items: Reply[] = [];
    while (items.length < length) {
      const item = this.at < this.#bytes.length ? this.read() : incomplete;
      if (item === incomplete) return incomplete;
      items.push(item);
    }
    return items;
  }
}
