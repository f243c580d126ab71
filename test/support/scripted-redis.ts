// A RESP server that answers chosen commands with given replies: the errors of managed servers and proxies,
// which no Redis here sends. Other commands go to a real Redis, one after the other.

import { proxying } from './listening.ts';

export interface ScriptedRedis {
  readonly port: number;
  readonly url: string;
  /** connections accepted so far */
  connections(): number;
  /** The reply in RESP (`-ERR x\r\n`), or null: as the real server. `command`: its name in capital letters,
   *  then its arguments. `connection` counts from 1. */
  answer(script: (command: readonly string[], connection: number) => string | null): void;
  /** From now on new connections lead there; open ones stay with their server. */
  leadTo(port: number): void;
}

export async function startScriptedRedis(upstreamPort: number): Promise<ScriptedRedis> {
  let script: (command: readonly string[], connection: number) => string | null = () => null;
  let target = upstreamPort;
  let connections = 0;
  const port = await proxying(
    () => target,
    (client, upstream) => {
      connections += 1;
      const number = connections;
      let asked = Buffer.alloc(0);
      let answered = Buffer.alloc(0);
      let isWaiting = false;
      let isSubscribed = false;
      const next = () => {
        while (!isWaiting) {
          const end = endOf(asked, 0);
          if (end < 0) return;
          const bytes = asked.subarray(0, end);
          asked = asked.subarray(end);
          const command = commandIn(bytes);
          const reply = script(command, number);
          if (reply !== null) client.write(reply);
          else {
            isWaiting = true;
            isSubscribed ||= command[0] === 'SUBSCRIBE';
            upstream.write(bytes);
          }
        }
      };
      client.on('data', (bytes) => {
        asked = Buffer.concat([asked, bytes]);
        if (isSubscribed) {
          upstream.write(asked);
          asked = Buffer.alloc(0);
        } else next();
      });
      upstream.on('data', (bytes) => {
        if (isSubscribed) return void client.write(bytes);
        answered = Buffer.concat([answered, bytes]);
        const end = endOf(answered, 0);
        if (end < 0) return;
        client.write(answered.subarray(0, end));
        answered = answered.subarray(end);
        isWaiting = false;
        next();
      });
    },
  );
  return {
    port,
    url: `redis://127.0.0.1:${port}`,
    connections: () => connections,
    answer: (next) => {
      script = next;
    },
    leadTo: (next) => {
      target = next;
    },
  };
}

/** The end of the RESP value at `from`; -1 = incomplete. */
function endOf(bytes: Buffer, from: number): number {
  const line = bytes.indexOf('\r\n', from);
  if (line < 0) return -1;
  const kind = String.fromCharCode(bytes[from] ?? 0);
  const n = Number(bytes.toString('latin1', from + 1, line));
  if (kind === '$') {
    const end = line + 2 + (n < 0 ? 0 : n + 2);
    return end <= bytes.length ? end : -1;
  }
  let end = line + 2;
  if (kind === '*') for (let i = 0; i < n && end >= 0; i += 1) end = endOf(bytes, end);
  return end;
}

/** A request is an array of strings. */
function commandIn(bytes: Buffer): readonly string[] {
  const words: string[] = [];
  for (let at = bytes.indexOf('\r\n') + 2; at < bytes.length; ) {
    const line = bytes.indexOf('\r\n', at);
    const end = line + 2 + Number(bytes.toString('latin1', at + 1, line));
    words.push(bytes.toString('latin1', line + 2, end));
    at = end + 2;
  }
  return words.map((word, n) => (n === 0 ? word.toUpperCase() : word));
}
