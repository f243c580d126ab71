// The mark of a Redis as text (layout.md): who may use it. Written and compared by shard.ts, read by whoever only wants to know.

/** Of layout.md; another one is another number, and nobody works on a server with a higher one. */
export const layout = 1;

export interface Marker {
  readonly shardId: string;
  readonly registryId: string;
  readonly buckets: number;
}

export function markerText({ shardId, registryId, buckets }: Marker): string {
  return `dq ${layout} shard ${shardId} registry ${registryId} buckets ${buckets}`;
}

/** Or why it is none to work with: the end of a sentence about the server. */
export function readMarker(text: string): Marker | string {
  const [, its, shardId, registryId, buckets] =
    /^dq (\d+) shard ([0-9a-f]+) registry (\S+) buckets (\d+)$/.exec(text) ?? [];
  if (shardId === undefined || registryId === undefined) return 'it holds keys of something else';
  if (Number(its) !== layout) return `its layout is ${its}, this version knows ${layout}`;
  return { shardId, registryId, buckets: Number(buckets) };
}

/** Why a server with this marker is not ours: the end of a sentence about it; null = it is. `shardId`: null = any */
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

/** The end of the same sentence. */
export function ofAnotherRegistry(theirs: string, ours: string): string {
  return `it belongs to the registry ${theirs}, and this one is ${ours}: instances on one Redis share one MySQL (mysql.url); otherwise give this instance a Redis of its own`;
}
