// A client of php-delayqueue's protocol for tests: writes raw bytes, reads frames.
import { EventEmitter, once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { onTestFinished } from 'vitest';
import { hungMs } from './until.ts';

export const succ = '0033{"code":1,"msg":"succ","data":[]}';
export const fail = '0033{"code":0,"msg":"fail","data":[]}';

/** The request as a client writes it; text stays as it is. */
export function frame(request: object | string): string {
  const json = typeof request === 'string' ? request : JSON.stringify(request);
  return String(Buffer.byteLength(json)).padStart(4, '0') + json;
}

export interface PhpClient {
  readonly socket: Socket;
  send(bytes: string | Buffer): void;
  /** the bytes so far */
  received(): string;
  /** Sends a frame, and resolves with the next frame of the other side. Rejects when that closes instead. */
  ask(request: object | string): Promise<string>;
  /** The next `n` frames. */
  replies(n: number): Promise<string[]>;
  /** Resolves with all bytes when the other side has closed; a reset adds `(reset)`. */
  closed(): Promise<string>;
}

export function phpClient(port: number): PhpClient {
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true, noDelay: true });
  const chunks: Buffer[] = [];
  const frames: string[] = [];
  let rest = Buffer.alloc(0);
  const events = new EventEmitter();
  socket.on('data', (chunk: Buffer) => {
    chunks.push(chunk);
    rest = Buffer.concat([rest, chunk]);
    for (;;) {
      const end = 4 + Number(rest.toString('latin1', 0, 4));
      if (rest.length < 4 || !(rest.length >= end)) break;
      frames.push(rest.toString('utf8', 0, end));
      rest = rest.subarray(end);
    }
    events.emit('change');
  });
  const received = () => String(Buffer.concat(chunks));
  let ended = null as string | null;
  socket.on('end', () => {
    socket.end();
    ended ??= received();
    events.emit('change');
  });
  socket.on('error', () => {
    ended ??= `${received()}(reset)`;
    events.emit('change');
  });
  onTestFinished(() => {
    socket.destroy();
  });
  const replies = async (n: number) => {
    const signal = AbortSignal.timeout(hungMs);
    while (frames.length < n && ended === null) await once(events, 'change', { signal });
    if (frames.length < n) throw new Error(`closed instead of ${n} replies, after ${ended}`);
    return frames.splice(0, n);
  };
  return {
    socket,
    send: (text) => void socket.write(text),
    received,
    async ask(request) {
      socket.write(frame(request));
      const [reply = ''] = await replies(1);
      return reply;
    },
    replies,
    async closed() {
      const signal = AbortSignal.timeout(hungMs);
      while (ended === null) await once(events, 'change', { signal });
      return ended;
    },
  };
}
