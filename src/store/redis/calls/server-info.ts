// Reads how a server is doing, for people: one INFO per node and the settings. Writes nothing.

import type { ShardInfo } from '../../../ports/shard-servers.ts';
import { StoreError } from '../../../ports/store-error.ts';
import { monotonicNow } from '../../../runtime/time.ts';
import { persistenceOf, redisDurabilityOf } from '../client/durability.ts';
import type { Shard } from '../shard/shard.ts';
import { settingsOf } from './admin.ts';
import { quarantineOf } from './quarantine.ts';

/** Rejects with StoreError when no node answers. */
export async function infoOf(shard: Shard): Promise<ShardInfo> {
  const from = monotonicNow();
  const infos = await shard.infos();
  const latencyMs = monotonicNow() - from;
  if (infos.length === 0) throw new StoreError({ kind: 'not_stored', code: 'redis_no_answer' });
  const settings = await settingsOf(shard);
  const { count } = await quarantineOf(shard);
  const maxBytes = sumOf(infos, 'maxmemory');
  return {
    version: fieldOf(infos[0] ?? '', 'valkey_version') ?? fieldOf(infos[0] ?? '', 'redis_version') ?? '?',
    usedBytes: sumOf(infos, 'used_memory'),
    maxBytes: maxBytes === 0 ? null : maxBytes,
    eviction: settings?.maxmemoryPolicy ?? fieldOf(infos[0] ?? '', 'maxmemory_policy'),
    persistence: persistenceOf(settings),
    ...redisDurabilityOf(settings),
    clients: sumOf(infos, 'connected_clients'),
    opsPerSecond: sumOf(infos, 'instantaneous_ops_per_sec'),
    latencyMs,
    nodes: infos.length,
    quarantined: count,
  };
}

function fieldOf(info: string, name: string): string | null {
  return new RegExp(`^${name}:(\\S+)`, 'm').exec(info)?.[1] ?? null;
}

function sumOf(infos: readonly string[], name: string): number {
  return infos.reduce((sum, info) => sum + Number(fieldOf(info, name) ?? 0), 0);
}
