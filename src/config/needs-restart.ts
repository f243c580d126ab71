// Names changes that need a restart instead of a reload. During a reload, old and new processes run
// together: they must share the data directory, and a port that both listen on. Pure.

import { type Config, consolePortOf, type OptionName } from './options.ts';

/** Options whose change a reload rejects; `redis` only where it begins or ends. */
export const restartOptions: ReadonlySet<OptionName> = new Set<OptionName>([
  'dataDir',
  'redis',
  'mysql.url',
  'secretKeyFile',
]);

/** One sentence about the first such change; null = a reload suffices. */
export function needsRestart(old: Config, next: Config): string | null {
  if (old.dataDir !== next.dataDir) return `dataDir was changed from ${old.dataDir} to ${next.dataDir}`;
  // The registry decides which servers are shards; `redis` decides only whether there are any.
  if ((old.redis.length === 0) !== (next.redis.length === 0))
    return 'redis was changed: the jobs would be in another store';
  if (old['mysql.url'] !== next['mysql.url']) return 'mysql.url was changed';
  if (old.secretKeyFile !== next.secretKeyFile)
    return `secretKeyFile was changed from ${old.secretKeyFile || 'none'} to ${next.secretKeyFile || 'none'}`;
  for (const part of ['server', 'console'] as const) {
    if (part === 'console' && !(old['console.enabled'] && next['console.enabled'])) continue;
    const [oldHost, nextHost] = [old[`${part}.host`], next[`${part}.host`]];
    const isSamePort = old[`${part}.port`] === next[`${part}.port`];
    if (oldHost !== nextHost && isSamePort && (wildcards.has(oldHost) || wildcards.has(nextHost)))
      return `${part}.host was changed from ${oldHost} to ${nextHost} on the same port, which both would need at once`;
  }
  // node:cluster gives both roles the same socket: pushes would reach the old console until it has left.
  if (isPort(next['server.port'], consoleOf(old)))
    return `server.port was changed to ${next['server.port']}, which the console uses`;
  if (old['server.port'] !== next['server.port'] && isPort(old['server.port'], consoleOf(next)))
    return `console.port was changed to ${old['server.port']}, which the servers use`;
  return null;
}

const consoleOf = (config: Config): number => (config['console.enabled'] ? consolePortOf(config) : 0);

/** 0: the port is not known yet. */
function isPort(port: number, other: number): boolean {
  return port !== 0 && port === other;
}

/** Two processes cannot share a port when one listens on all addresses and the other on one. */
const wildcards: ReadonlySet<string> = new Set(['0.0.0.0', '::']);
