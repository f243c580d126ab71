// Who can reach the API, and whether that is safe: on an address of this machine alone anybody is served while no access token
// exists; where other machines get there, only if somebody said --no-auth. The start and every request are judged by the same
// words.

import { isLoopback } from '../config/cross-checks.ts';
import type { Config } from '../config/options.ts';
import type { Registry } from '../ports/registry.ts';
import { StartImpossible } from '../runtime/start-impossible.ts';

/** Whether callers without a token are served while none exists. */
export function servesStrangers(config: Config): boolean {
  return isLoopback(config['server.host']) || config.noAuth;
}

/** Rejects with StartImpossible when nobody but this machine's command line could be served. */
export async function checkExposure(config: Config, registry: Pick<Registry, 'tokens'>): Promise<void> {
  if (servesStrangers(config)) return;
  const { tokens } = await registry.tokens(-1);
  if (tokens?.length !== 0) return;
  throw new StartImpossible(
    'configuration',
    `server.host: ${config['server.host']} can be reached from other machines and no access token exists; make one while dq is stopped (dq token add me --scope admin --data-dir ${config.dataDir}), or add --no-auth to accept requests without a token`,
  );
}
