// Names a worker in the process table.

import type { RoleName } from './messages.ts';

/** As `ps` shows it. Roles with one process have no number. */
export function titleOf(role: RoleName, index: number): string {
  return role === 'store' || role === 'upkeep' ? `dq-${role}` : `dq-${role}-${index}`;
}
