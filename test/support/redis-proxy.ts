// A proxy between a client and its Redis that acts as a bad network: delays everything, or loses hints.

import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { onTestFinished } from 'vitest';

export interface RedisProxy {
  readonly url: string;
  /** Delays each piece of data, in order; called for each. */
  delay(ms: () => number): void;
  /** Messages of subscriptions never arrive. */
  loseHints(): void;
}

export async function startRedisProxy(redisPort: number): Promise<RedisProxy> {
  const open = new Set<Socket>();
  let delayMs: (() => number) | null = null;
  let losesHints = false;

  const pass = (from: Socket, to: Socket, onBytes: (bytes: Buffer) => boolean) => {
    // Never before earlier data: two timers of the same millisecond may fire in any order.
    let earlier = Promise.resolve();
    from.on('data', (bytes: Buffer) => {
      if (!onBytes(bytes)) return;
      if (delayMs === null) return void to.write(bytes);
      const waited = sleep(delayMs());
      earlier = earlier.then(() => waited).then(() => void to.write(bytes));
    });
  };
  const server = createServer((client) => {
    const upstream = connect(redisPort, '127.0.0.1');
    const end = () => {
      client.destroy();
      upstream.destroy();
    };
    for (const socket of [client, upstream]) {
      open.add(socket);
      // Tests end connections on purpose.
      socket.on('error', () => {});
      socket.on('close', () => {
        open.delete(socket);
        end();
      });
    }
    pass(client, upstream, () => true);
    pass(upstream, client, (bytes) => !losesHints || !bytes.includes('\r\nmessage\r\n'));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(async () => {
    for (const socket of open) socket.destroy();
    await new Promise<void>((resolve) => server.close(() => resolve()));
  });
  return {
    url: `redis://127.0.0.1:${(server.address() as AddressInfo).port}`,
    delay(ms) {
      delayMs = ms;
    },
    loseHints() {
      losesHints = true;
    },
  };
}
