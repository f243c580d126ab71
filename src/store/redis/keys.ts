// Names and fields of everything the store keeps (layout.md). User text is never part of a key name: `{` in it would move
// the key to another slot of a Cluster. Invariant: topic and id of a job decide its bucket, and bucket, topic number and id
// its field, for ever.

import { crc32 } from 'node:zlib';
import type { JobKey } from '../../core/job.ts';
import type { Partition } from '../job-store.ts';

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

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const asText = 0;
const asUuid = 1;

/** An id as it is stored: a tag and its bytes. A UUID takes 16 of them instead of 36, and only in the one spelling that it is
 *  read back in. */
export function tidOf(id: string): Buffer {
  if (uuid.test(id)) return Buffer.from(`0${asUuid}${id.replaceAll('-', '')}`, 'hex');
  const bytes = Buffer.allocUnsafe(1 + Buffer.byteLength(id));
  bytes[0] = asText;
  bytes.write(id, 1);
  return bytes;
}

export function idOf(tid: Buffer): string {
  if (tid[0] === asText) return tid.toString('utf8', 1);
  const hex = tid.toString('hex', 1);
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-');
}
