// Names a worker in the process table.

import type { RoleName } from './messages.ts';

const single: ReadonlySet<RoleName> = new Set(['store', 'upkeep', 'console']);

/** As `ps` shows it. Roles with one process have no number. */
export function titleOf(role: RoleName, index: number): string {
  return single.has(role) ? `dq-${role}` : `dq-${role}-${index}`;
}
