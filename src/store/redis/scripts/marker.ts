// The marker of a Redis as text (layout.md): which registry owns it. Written and compared by ownership.ts;
// also read by `dq doctor` and the start checks.

/** Number of the layout in layout.md. dq rejects a server with a higher number. */
export const layout = 2;
/** The layout before: nothing is rewritten, only the marker. Instances of that version then reject the
 *  server, because they cannot read what this one writes. */
const layoutBefore = 1;

export interface Marker {
  readonly shardId: string;
  readonly registryId: string;
  readonly buckets: number;
}

export function markerText({ shardId, registryId, buckets }: Marker): string {
  return `dq ${layout} shard ${shardId} registry ${registryId} buckets ${buckets}`;
}

/** Of this layout or the one before. A string: why the marker is unusable, as the end of a sentence about the
 *  server. */
export function readMarker(text: string): Marker | string {
  const [, version, shardId, registryId, buckets] =
    /^dq (\d+) shard ([0-9a-f]+) registry (\S+) buckets (\d+)$/.exec(text) ?? [];
  if (shardId === undefined || registryId === undefined) return 'it holds keys of another program';
  if (Number(version) > layout)
    return `its layout is ${version}, this version knows ${layout}: use a newer dq`;
  return { shardId, registryId, buckets: Number(buckets) };
}

/** Whether an earlier version wrote this marker. */
export const isOfLayoutBefore = (text: string): boolean => text.startsWith(`dq ${layoutBefore} `);

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
