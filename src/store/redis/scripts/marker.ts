// The marker of a Redis as text (layout.md): which registry owns it. Written and compared by ownership.ts;
// also read by `dq doctor` and the start checks.

/** Number of the layout in layout.md. dq rejects a server with another number. */
export const layout = 1;

export interface Marker {
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
