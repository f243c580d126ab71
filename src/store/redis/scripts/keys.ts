// Names and fields of everything the store keeps (layout.md). User text is never part of a key name: `{` in it would move
// the key to another slot of a Cluster. Invariant: topic and id of a job decide its bucket, and bucket, topic number and id
// its field, for ever.

import { crc32 } from 'node:zlib';
import type { JobKey } from '../../../core/job.ts';
import type { Partition } from '../../../ports/job-store.ts';

/** What every key of a bucket begins with; the braces keep the bucket in one slot of a Cluster. */
export const prefixOf = (bucket: Partition): string => `{dq:${bucket}}`;

/** What a script on a bucket declares: where its keys begin, a key that never exists, and one that always does. A node refuses several
 *  of which one is missing (TRYAGAIN) while their slot is on its way to another node. Declaring only the first, a script was sent to the
 *  new node, and ran there on what had arrived of the bucket (seen: the bucket marked anew, and jobs stored beside the others). */
export const keysOf = (prefix: string): readonly [prefix: string, numbers: string] => [prefix, `${prefix}:n`];

/** By topic and id: by topic alone, a hot one would fill one bucket. No topic has a NUL in it. */
export function bucketOf({ topic, id }: JobKey, buckets: number): Partition {
  return buckets === 1 ? 0 : crc32(`${topic}\0${id}`) % buckets;
}

const asText = 0;
const asUuid = 1;

/** The most that a tag and an id take. */
const tidBytesMax = (id: string): number => 1 + 3 * id.length;

/** An id as it is stored: a tag and its bytes. A UUID takes 16 of them instead of 36, and only in the one spelling that it is
 *  read back in. Answers where it ends. */
function writeTid(bytes: Buffer, at: number, id: string): number {
  if (writeUuid(bytes, at + 1, id)) {
    bytes[at] = asUuid;
    return at + 17;
  }
  bytes[at] = asText;
  return at + 1 + bytes.write(id, at + 1);
}

/** At most what `writeKey` writes. */
export const keyBytesMax = ({ topic, id }: JobKey): number => 3 + topic.length + tidBytesMax(id);

/** Topic, and tag and id, each behind its length, as the scripts read them from a text of many jobs. Answers where it ends. */
export function writeKey(bytes: Buffer, start: number, { topic, id }: JobKey): number {
  let at = bytes.writeUInt8(topic.length, start);
  at += bytes.write(topic, at, 'latin1');
  const tidAt = at + 2;
  at = writeTid(bytes, tidAt, id);
  bytes.writeUInt16BE(at - tidAt, tidAt - 2);
  return at;
}

export function tidOf(id: string): Buffer {
  const bytes = Buffer.allocUnsafe(tidBytesMax(id));
  return bytes.subarray(0, writeTid(bytes, 0, id));
}

/** By the code of a character: the value of a digit in small letters; 255 of any other. */
const digits = Uint8Array.from({ length: 128 }, (_, code) => {
  const value = '0123456789abcdef'.indexOf(String.fromCharCode(code));
  return value < 0 ? 255 : value;
});
const hyphen = 45;

/** False where it is none; bytes from there on are anything then. By hand: a pattern, a replacement and a Buffer of each took a
 *  twentieth of a push. */
function writeUuid(bytes: Buffer, start: number, id: string): boolean {
  if (id.length !== 36) return false;
  let at = start;
  for (let i = 0; i < 36; i += 2) {
    if (i === 8 || i === 13 || i === 18 || i === 23) {
      if (id.charCodeAt(i) !== hyphen) return false;
      i += 1;
    }
    const high = digits[id.charCodeAt(i)] ?? 255;
    const low = digits[id.charCodeAt(i + 1)] ?? 255;
    if ((high | low) > 15) return false;
    bytes[at] = high * 16 + low;
    at += 1;
  }
  return true;
}

export function idOf(tid: Buffer): string {
  if (tid[0] === asText) return tid.toString('utf8', 1);
  const hex = tid.toString('hex', 1);
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-');
}
