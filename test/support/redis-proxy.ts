// A proxy between a client and its Redis or MySQL that acts as a bad network: delays everything, or loses
// hints.

import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { proxying } from './listening.ts';

export interface RedisProxy {
  readonly port: number;
  /** for a Redis */
  readonly url: string;
  /** Delays each piece of data, in order; called for each. */
  delay(ms: () => number): void;
  /** Messages of subscriptions never arrive. */
  loseHints(): void;
}

export async function startRedisProxy(serverPort: number): Promise<RedisProxy> {
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
  const port = await proxying(
    () => serverPort,
    (client, upstream) => {
      pass(client, upstream, () => true);
      pass(upstream, client, (bytes) => !losesHints || !bytes.includes('\r\nmessage\r\n'));
    },
  );
  return {
    port,
    url: `redis://127.0.0.1:${port}`,
    delay(ms) {
      delayMs = ms;
    },
    loseHints() {
      losesHints = true;
    },
  };
}
