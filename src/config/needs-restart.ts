// Which changes of the configuration a running daemon cannot take in a reload: old and new processes work side by side for a
// while, so they must share the data directory, and a port that both listen on. Pure.

import type { Config } from './options.ts';

/** One sentence about the first of them; null = a reload can bring this configuration into force. */
export function needsRestart(old: Config, next: Config): string | null {
  if (old.dataDir !== next.dataDir) return `dataDir was changed from ${old.dataDir} to ${next.dataDir}`;
  // Which servers they are the registry says; `redis` only whether there are any.
  if ((old.redis.length === 0) !== (next.redis.length === 0))
    return 'redis was changed: the jobs would be in another store';
  if (old['mysql.url'] !== next['mysql.url']) return 'mysql.url was changed';
  if (old.secretKeyFile !== next.secretKeyFile)
    return `secretKeyFile was changed from ${old.secretKeyFile || 'none'} to ${next.secretKeyFile || 'none'}`;
  const [oldHost, nextHost] = [old['server.host'], next['server.host']];
  const isSamePort = old['server.port'] === next['server.port'];
  if (oldHost !== nextHost && isSamePort && (wildcards.has(oldHost) || wildcards.has(nextHost)))
    return `server.host was changed from ${oldHost} to ${nextHost} on the same port, which both would need at once`;
  return null;
}

/** The kernel gives a port of all addresses to nobody who wants it of one, and the other way round. */
const wildcards: ReadonlySet<string> = new Set(['0.0.0.0', '::']);
