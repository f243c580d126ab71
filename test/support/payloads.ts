// Bodies that break careless queues: numbers beyond a double, repeated keys, NUL, emoji, deep nesting,
// bytes that are not text.
import { createHash } from 'node:crypto';

export interface Payload {
  readonly contentType: string;
  readonly body: Buffer;
}

const json = (text: string): Payload => ({ contentType: 'application/json', body: Buffer.from(text) });

/** One of nine shapes, each different for each n, between 0 bytes and about 200 KiB. */
export function payload(n: number): Payload {
  switch (n % 9) {
    case 0:
      return json(`{"order":${n},"big":9007199254740993${n},"e":1e999,"minus":-0,"tenth":0.1000}`);
    case 1:
      return json(`{"k":1,"k":${n},"k":null, "spaced" :  [ 1 ,2 ] }`);
    case 2:
      return json(`{"nul":"\\u0000${n}","sep":"\u2028\u2029"}`);
    case 3:
      return json(`{"note":"订单${n} 👩‍👩‍👧‍👦 ﷽"}`);
    case 4:
      return json(`${'['.repeat(100)}${n}${']'.repeat(100)}`);
    case 5:
      return { contentType: 'application/octet-stream', body: binary(n, 3_000) };
    case 6:
      return { contentType: 'text/plain; charset=gbk', body: binary(n, 200) };
    case 7:
      return json(JSON.stringify({ n, filler: 'x'.repeat(n % 7 === 0 ? 200_000 : 2_000) }));
    default:
      return {
        contentType: 'application/x-nothing',
        body: n % 2 === 0 ? Buffer.alloc(0) : Buffer.from([0, n % 256]),
      };
  }
}

function binary(seed: number, length: number): Buffer {
  const bytes = Buffer.alloc(length);
  let state = seed + 1;
  for (let i = 0; i < length; i++) {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    bytes[i] = state >> 16;
  }
  return bytes;
}

export function sha256(body: Buffer): string {
  return createHash('sha256').update(body).digest('hex');
}
