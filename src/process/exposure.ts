// Judges whether the API may serve callers without a token while no access token exists: on a loopback
// address, or with --no-auth. The start and every request use the same rule.

import { isLoopback } from '../config/cross-checks.ts';
import type { Config } from '../config/options.ts';
import type { Registry } from '../ports/registry.ts';
import { StartImpossible } from '../runtime/start-impossible.ts';

/** Whether callers without a token are served while no token exists. */
export function servesStrangers(config: Config): boolean {
  return isLoopback(config['server.host']) || config.noAuth;
}

/** Rejects with StartImpossible where only this machine's command line could be served. */
export async function checkExposure(config: Config, registry: Pick<Registry, 'tokens'>): Promise<void> {
  if (servesStrangers(config)) return;
  const { tokens } = await registry.tokens(-1);
  if (tokens?.length !== 0) return;
  throw new StartImpossible(
    'configuration',
    `server.host: ${config['server.host']} can be reached from other machines and no access token exists; make one while dq is stopped (dq token add me --scope admin --data-dir ${config.dataDir}), or add --no-auth to accept requests without a token`,
  );
}
