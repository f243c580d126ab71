// A proxy between a daemon and its Redis that acts as a bad network: loses the answers of scripts that have
// run, delays everything, loses hints. Knows scripts by their digests, so the daemon must be built from the
// same source.

import { createHash } from 'node:crypto';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { onTestFinished } from 'vitest';
import { composeScripts, type ScriptName } from '../../src/store/redis/scripts/scripts.ts';

export interface RedisProxy {
  readonly url: string;
  /** Loses the next `times` answers to this script, with their connections. */
  loseAnswers(script: ScriptName, times: number): void;
  /** number of answers that it will still lose */
  toLose(): number;
  /** Delays each piece of data, in order; called for each. */
  delay(ms: () => number): void;
  /** Messages of subscriptions never arrive. */
  loseHints(): void;
  /** number of lost messages */
  hintsLost(): number;
}

/** A call contains this: the text when a connection runs the script first, then the digest. */
const signsOf = (script: ScriptName) => [
  `\n-- ${script}: `,
  createHash('sha1').update(composeScripts()[script]).digest('hex'),
];

export async function startRedisProxy(redisPort: number): Promise<RedisProxy> {
  const open = new Set<Socket>();
  let lost: { signs: readonly string[]; times: number } = { signs: [], times: 0 };
  let delayMs: (() => number) | null = null;
  let losesHints = false;
  let hints = 0;

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
    let cuts = false;
    pass(client, upstream, (bytes) => {
      if (lost.times > 0 && lost.signs.some((sign) => bytes.includes(sign))) {
        lost.times -= 1;
        cuts = true;
      }
      return true;
    });
    pass(upstream, client, (bytes) => {
      // The script has run.
      if (cuts) end();
      const isHint = losesHints && bytes.includes('\r\nmessage\r\n');
      if (isHint) hints += 1;
      return !cuts && !isHint;
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(async () => {
    for (const socket of open) socket.destroy();
    await new Promise<void>((resolve) => server.close(() => resolve()));
  });
  return {
    url: `redis://127.0.0.1:${(server.address() as AddressInfo).port}`,
    loseAnswers(script, times) {
      lost = { signs: signsOf(script), times };
    },
    toLose: () => lost.times,
    delay(ms) {
      delayMs = ms;
    },
    loseHints() {
      losesHints = true;
    },
    hintsLost: () => hints,
  };
}
