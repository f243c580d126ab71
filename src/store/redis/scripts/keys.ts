// Names of keys and fields, and the text of the marker (layout.md). User text is never part of a key name:
// `{` in it would move the key to another slot of a Cluster. Invariant: topic and id of a job decide its
// bucket, and topic number and id its field, for ever.

import { crc32 } from 'node:zlib';
import type { JobKey } from '../../../core/job.ts';

/** A fixed part of one shard, counted from 0. A partition of the port is one of all buckets of all shards. */
export type Bucket = number;

/** Prefix of every key of a bucket; the braces keep the bucket in one slot of a Cluster. */
export const prefixOf = (bucket: Bucket): string => `{dq:${bucket}}`;

/** The keys that each script declares: the prefix, which never exists as a key, and one key that always does.
 *  While a slot moves to another node, Redis rejects several keys of which one is missing (TRYAGAIN). With
 *  only the prefix, a script ran on the new node on a partial bucket (seen: the bucket marked again, and jobs
 *  stored beside the others). */
export const keysOf = (prefix: string): readonly [prefix: string, numbers: string] => [prefix, `${prefix}:n`];

/** By topic and id: by topic alone, a busy one would fill one bucket. No topic contains a NUL. */
export function bucketOf({ topic, id }: JobKey, buckets: number): Bucket {
  return buckets === 1 ? 0 : crc32(`${topic}\0${id}`) % buckets;
}

const asText = 0;
const asUuid = 1;

/** Upper bound for a tag and an id. */
const tidBytesMax = (id: string): number => 1 + 3 * id.length;

/** Writes an id as stored: a tag and its bytes. A UUID in canonical spelling takes 16 bytes instead of 36.
 *  Returns the offset after it. */
function writeTid(bytes: Buffer, at: number, id: string): number {
  if (writeUuid(bytes, at + 1, id)) {
    bytes[at] = asUuid;
    return at + 17;
  }
  bytes[at] = asText;
  return at + 1 + bytes.write(id, at + 1);
}

/** Upper bound for writeKey. */
export const keyBytesMax = ({ topic, id }: JobKey): number => 3 + topic.length + tidBytesMax(id);

/** Writes topic, and tag and id, each after its length, as the scripts read them. Returns the offset after
 *  it. */
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

/** by character code: value of a lower-case hexadecimal digit; 255 = not a digit */
const digits = Uint8Array.from({ length: 128 }, (_, code) => {
  const value = '0123456789abcdef'.indexOf(String.fromCharCode(code));
  return value < 0 ? 255 : value;
});
const hyphen = 45;

/** False: not a canonical UUID; the bytes after `start` are then undefined. By hand: a pattern, a replacement
 *  and a Buffer took a twentieth of a push. */
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

/** Number of the layout in layout.md. dq rejects a server with another number. */
const layout = 1;

/** Which registry owns a Redis. Written and compared by ownership.ts; also read by `dq doctor` and the start
 *  checks. */
interface Marker {
  readonly shardId: string;
  readonly registryId: string;
  readonly buckets: number;
}

export function markerText({ shardId, registryId, buckets }: Marker): string {
  return `dq ${layout} shard ${shardId} registry ${registryId} buckets ${buckets}`;
}

/** A string: why the marker is unusable, as the end of a sentence about the server. */
export function readMarker(text: string): Marker | string {
  const [, version, shardId, registryId, buckets] =
    /^dq (\d+) shard ([0-9a-f]+) registry (\S+) buckets (\d+)$/.exec(text) ?? [];
  if (shardId === undefined || registryId === undefined) return 'it holds keys of another program';
  if (Number(version) !== layout)
    return `its layout is ${version}, this version knows ${layout}: use the dq that wrote it`;
  return { shardId, registryId, buckets: Number(buckets) };
}

/** Why a server with this marker is not ours, as the end of a sentence about it; null = it is ours.
 *  `shardId`: null = any */
export function whyForeign(
  text: string,
  ours: { readonly registryId: string; readonly buckets: number; readonly shardId: string | null },
): string | null {
  const read = readMarker(text);
  if (typeof read === 'string') return read;
  const { registryId, buckets, shardId } = ours;
  if (read.registryId !== registryId) return ofAnotherRegistry(read.registryId, registryId || 'new');
  if (read.buckets !== buckets) return `it has ${read.buckets} buckets, not ${buckets}`;
  return shardId !== null && read.shardId !== shardId ? `it is shard ${read.shardId}, not ${shardId}` : null;
}

/** One such reason. */
export function ofAnotherRegistry(theirs: string, ours: string): string {
  return `it belongs to the registry ${theirs}, and this one is ${ours}: instances on one Redis share one MySQL (mysql.url); otherwise give this instance a Redis of its own`;
}
