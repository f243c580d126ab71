// Describes in one sentence what the server's configuration survives, and warns of dangerous settings. Never
// changes one. The warnings name no loss: with a journal there is none (core/durability.ts).

import { inBatches } from '../../../core/lists.ts';
import type { StoreHealth } from '../../../ports/job-store.ts';
import type { ShardInfo } from '../../../ports/shard-servers.ts';

export const settingNames = ['appendonly', 'appendfsync', 'save', 'maxmemory', 'maxmemory-policy'] as const;
export type ServerSettings = Readonly<Partial<Record<(typeof settingNames)[number], string>>>;

/** `flat`: reply to CONFIG GET, names and values in turn */
export const readSettings = (flat: readonly string[]): ServerSettings =>
  Object.fromEntries(inBatches(flat, 2));

/** null: unreadable (CONFIG is denied, or the server is unavailable) */
export function redisDurabilityOf(
  settings: ServerSettings | null,
): Pick<StoreHealth, 'durability' | 'warnings'> {
  if (settings === null)
    return { durability: 'Redis, of unknown durability: its configuration cannot be read', warnings: [] };
  const warnings: string[] = [];
  const { 'maxmemory-policy': policy, maxmemory = '0', appendonly, appendfsync } = settings;
  if (policy !== 'noeviction' && policy !== undefined)
    warnings.push(
      maxmemory === '0'
        ? `maxmemory-policy is ${policy}: with a maxmemory, Redis would delete jobs; set noeviction`
        : `maxmemory-policy is ${policy}: Redis deletes jobs when it is full; set noeviction`,
    );
  if (appendonly !== 'yes') {
    const snapshots = settings.save !== '';
    if (!snapshots) warnings.push('Redis keeps its data only in memory; set appendonly yes');
    return {
      durability: !snapshots
        ? 'Redis in memory only, without append-only file and snapshots: a restart of Redis loses every job'
        : 'Redis without an append-only file: a restart of Redis loses all changes since its last snapshot',
      warnings,
    };
  }
  if (appendfsync === 'always')
    return {
      durability:
        'Redis, appendfsync always: survives kill -9 of Redis and a power cut; a failover may lose writes',
      warnings,
    };
  if (appendfsync === 'everysec')
    return {
      durability:
        'Redis, appendfsync everysec: kill -9 of Redis or a power cut loses up to 2 s; a failover may lose writes',
      warnings,
    };
  warnings.push(`appendfsync is ${appendfsync ?? 'unknown'}; set everysec or always`);
  return {
    durability: `Redis, appendfsync ${appendfsync ?? 'unknown'}: a power cut loses what the system had not written`,
    warnings,
  };
}

/** The same as a code. */
export function persistenceOf(settings: ServerSettings | null): ShardInfo['persistence'] {
  if (settings === null) return 'unknown';
  const { appendonly, appendfsync, save } = settings;
  if (appendonly !== 'yes') return save === '' ? 'memory' : 'snapshots';
  return appendfsync === 'always' || appendfsync === 'everysec' ? appendfsync : 'no';
}
