// What the server is configured to survive, as one sentence, and what of its configuration is dangerous. Reads; never sets.

import type { StoreHealth } from '../../../ports/job-store.ts';

export interface ServerSettings {
  readonly appendonly?: string | undefined;
  readonly appendfsync?: string | undefined;
  readonly save?: string | undefined;
  readonly maxmemoryPolicy?: string | undefined;
  readonly maxmemory?: string | undefined;
}

export const settingNames = ['appendonly', 'appendfsync', 'save', 'maxmemory', 'maxmemory-policy'] as const;

/** From the answer to CONFIG GET: names and values in turn. */
export function readSettings(flat: readonly string[]): ServerSettings {
  const value = (name: (typeof settingNames)[number]) => {
    const at = flat.indexOf(name);
    return at < 0 ? undefined : flat[at + 1];
  };
  return {
    appendonly: value('appendonly'),
    appendfsync: value('appendfsync'),
    save: value('save'),
    maxmemory: value('maxmemory'),
    maxmemoryPolicy: value('maxmemory-policy'),
  };
}

/** null: the server does not tell (CONFIG is forbidden, or it is away). */
export function durabilityOf(settings: ServerSettings | null): Pick<StoreHealth, 'durability' | 'warnings'> {
  if (settings === null)
    return { durability: 'Redis, of unknown durability: its configuration cannot be read', warnings: [] };
  const warnings: string[] = [];
  const { maxmemoryPolicy, maxmemory = '0', appendonly, appendfsync } = settings;
  if (maxmemoryPolicy !== 'noeviction' && maxmemoryPolicy !== undefined)
    warnings.push(
      maxmemory === '0'
        ? `maxmemory-policy is ${maxmemoryPolicy}: with a maxmemory, Redis would throw jobs away; set noeviction`
        : `maxmemory-policy is ${maxmemoryPolicy}: Redis throws jobs away when it is full; set noeviction`,
    );
  if (appendonly !== 'yes') {
    const snapshots = settings.save !== '';
    if (!snapshots)
      warnings.push(
        'Redis keeps its data in memory alone: a restart of it loses every job; set appendonly yes',
      );
    return {
      durability: !snapshots
        ? 'Redis in memory alone, without append-only file and snapshots: a restart of Redis loses every job'
        : 'Redis without an append-only file: a restart of Redis loses what came since its last snapshot',
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
  warnings.push(
    `appendfsync is ${appendfsync ?? 'unknown'}: a power cut loses what the system had not written`,
  );
  return {
    durability: `Redis, appendfsync ${appendfsync ?? 'unknown'}: a power cut loses what the system had not written`,
    warnings,
  };
}
