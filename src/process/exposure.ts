// Judges who may be served while no access token exists. The API serves callers without a token on a loopback
// address, or with --no-auth; the console serves this machine only. The start and every request use the same
// rules.

import { isLoopback } from '../config/cross-checks.ts';
import type { Config } from '../config/options.ts';
import type { Registry } from '../ports/registry.ts';
import { StartImpossible } from '../runtime/service.ts';

/** Whether the API serves callers without a token while no token exists. */
export function servesStrangers(config: Config): boolean {
  return isLoopback(config['server.host']) || config.noAuth;
}

/** Whether the console serves this machine without a sign-in while no token exists. Not behind a proxy, which
 *  calls from this machine for others. */
export function servesThisMachine(config: Config): boolean {
  return isLoopback(config['console.host']) && config['console.publicUrl'] === '';
}

/** Rejects with StartImpossible where only this machine's command line could be served, and where the console
 *  would be open to others. */
export async function checkExposure(config: Config, registry: Pick<Registry, 'tokens'>): Promise<void> {
  const exposed = exposedOption(config);
  if (exposed === null) return;
  const { tokens } = await registry.tokens(-1);
  if (tokens?.length !== 0) return;
  const remedy = `make one while dq is stopped (dq token add me --scope admin --data-dir ${config.dataDir})`;
  const sentence = `${exposed}: ${config[exposed]} can be reached from other machines and no access token exists`;
  throw new StartImpossible(
    'configuration',
    exposed === 'server.host'
      ? `${sentence}; ${remedy}, or add --no-auth to accept requests without a token`
      : `${sentence}; ${remedy}, or leave the console on 127.0.0.1`,
  );
}

/** The address that requires a token; null = none does. */
function exposedOption(config: Config): 'server.host' | 'console.host' | null {
  if (!servesStrangers(config)) return 'server.host';
  // --no-auth does not open the console.
  return config['console.enabled'] && !isLoopback(config['console.host']) ? 'console.host' : null;
}
