// A consumer of one STOMP destination, written by hand: another implementation than dq's library.
import { connect } from 'node:net';
import { onTestFinished } from 'vitest';
import type { ActivemqServer } from '../../scripts/services/activemq.ts';
import { until } from './until.ts';

export interface StompMessage {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** `take` resolves with the next messages, at least one and at most `count`. */
export function stompConsumer(
  { port, user, password }: ActivemqServer,
  destination: string,
): { take(count: number): Promise<readonly StompMessage[]>; close(): void } {
  const socket = connect(port, '127.0.0.1');
  onTestFinished(() => void socket.destroy());
  socket.on('error', () => {});
  const messages: StompMessage[] = [];
  let data = Buffer.alloc(0);
  socket.on('data', (chunk) => {
    data = Buffer.concat([data, chunk]);
    for (let frame = nextFrame(); frame !== null; frame = nextFrame())
      if (frame.command === 'MESSAGE') messages.push(frame);
  });
  socket.write(`CONNECT\naccept-version:1.2\nhost:dq\nlogin:${user}\npasscode:${password}\n\n\0`);
  socket.write(`SUBSCRIBE\nid:0\ndestination:${destination}\nack:auto\n\n\0`);

  function nextFrame(): (StompMessage & { readonly command: string }) | null {
    while (data[0] === 10) data = data.subarray(1);
    const headEnd = data.indexOf('\n\n');
    if (headEnd < 0) return null;
    const [command = '', ...lines] = data.subarray(0, headEnd).toString().split('\n');
    const headers = Object.fromEntries(
      lines.map((line) => [line.slice(0, line.indexOf(':')), unescaped(line.slice(line.indexOf(':') + 1))]),
    );
    const bodyAt = headEnd + 2;
    const length = headers['content-length'];
    const bodyEnd = length === undefined ? data.indexOf(0, bodyAt) : bodyAt + Number(length);
    if (bodyEnd < 0 || bodyEnd >= data.length) return null;
    const body = data.subarray(bodyAt, bodyEnd).toString();
    data = data.subarray(bodyEnd + 1);
    return { command, headers, body };
  }

  return {
    close: () => void socket.destroy(),
    take: async (count) => {
      await until(`a message in ${destination}`, () => messages.length > 0);
      return messages.splice(0, count);
    },
  };
}

function unescaped(text: string): string {
  const of: Readonly<Record<string, string>> = { '\\c': ':', '\\n': '\n', '\\r': '\r', '\\\\': '\\' };
  return text.replace(/\\[cnr\\]/g, (pair) => of[pair] ?? pair);
}
