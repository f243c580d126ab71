// Names changes that need a restart instead of a reload. During a reload, old and new processes run
// together: they must share the data directory, and a port that both listen on. Pure.

import { type Config, compatPortOptions, compatPortsOf, consolePortOf, type OptionName } from './options.ts';

/** Options whose change a reload rejects; `redis` only where it begins or ends. */
export const restartOptions: ReadonlySet<OptionName> = new Set<OptionName>([
  'dataDir',
  'redis',
  'mysql.url',
  'secretKeyFile',
  'journal.mode',
  'journal.spoolBytes',
  'journal.retention',
]);

/** One sentence about the first such change, with what to do; null = a reload suffices. */
export function needsRestart(old: Config, next: Config): string | null {
  // A restart alone would begin with an empty directory.
  if (old.dataDir !== next.dataDir)
    return `dataDir was changed from ${old.dataDir} to ${next.dataDir}; dq moves no data: stop it, move the directory, and start it`;
  const change = changeOf(old, next);
  return change && `${change}: needs \`dq restart\``;
}

function changeOf(old: Config, next: Config): string | null {
  // The registry decides which servers are shards; `redis` decides only whether there are any.
  if ((old.redis.length === 0) !== (next.redis.length === 0))
    return 'redis was changed: the jobs would be in another store';
  if (old['mysql.url'] !== next['mysql.url']) return 'mysql.url was changed';
  if (old.secretKeyFile !== next.secretKeyFile)
    return `secretKeyFile was changed from ${old.secretKeyFile || 'none'} to ${next.secretKeyFile || 'none'}`;
  for (const name of ['journal.mode', 'journal.spoolBytes', 'journal.retention'] as const)
    if (old[name] !== next[name]) return `${name} was changed from ${old[name]} to ${next[name]}`;
  const [before, after] = [portsOf(old), portsOf(next)];
  for (const { name, hostName, port } of after) {
    const same = before.find((one) => one.name === name && one.port === port);
    const [oldHost, nextHost] = [old[hostName], next[hostName]];
    if (same !== undefined && oldHost !== nextHost && (wildcards.has(oldHost) || wildcards.has(nextHost)))
      return `${hostName} was changed from ${oldHost} to ${nextHost} on the same port, which both would need at once`;
  }
  // node:cluster gives both the same socket: requests would reach the old processes until they have left.
  for (const { name, port } of after) {
    const other = before.find((one) => one.name !== name && one.port === port && port !== 0);
    if (other !== undefined) return `${name} was changed to ${port}, which ${other.user} uses`;
  }
  return null;
}

interface Port {
  readonly name: OptionName;
  readonly hostName: 'server.host' | 'console.host' | 'compat.host';
  readonly user: string;
  /** 0: not known yet */
  readonly port: number;
}

function portsOf(config: Config): readonly Port[] {
  const ports: Port[] = [
    { name: 'server.port', hostName: 'server.host', user: 'the HTTP API', port: config['server.port'] },
  ];
  if (config['console.enabled'])
    ports.push({
      name: 'console.port',
      hostName: 'console.host',
      user: 'the console',
      port: consolePortOf(config),
    });
  for (const { protocol, port } of compatPortsOf(config)) {
    const name = compatPortOptions[protocol];
    ports.push({ name, hostName: 'compat.host', user: name, port });
  }
  return ports;
}

/** Two processes cannot share a port when one listens on all addresses and the other on one. */
const wildcards: ReadonlySet<string> = new Set(['0.0.0.0', '::']);
