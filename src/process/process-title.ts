// Names a worker in the process table.

import type { Config } from '../config/options.ts';
import { joinedRoles } from './joined-roles.ts';
import type { RoleName } from './messages.ts';

const single: ReadonlySet<RoleName> = new Set(['store', 'upkeep', 'console']);

/** As `ps` shows it: `dq-upkeep+timer` where two roles share the process. Roles with one process have no
 *  number. */
export function titleOf(role: RoleName, index: number, config: Pick<Config, 'timer.workers'>): string {
  const name = `dq-${[role, ...joinedRoles(role, config)].join('+')}`;
  return single.has(role) ? name : `${name}-${index}`;
}
