// joined-roles decides which roles share a process, and runs them as one role. Small machines run the timer
// beside upkeep (`profile: small`): a process less.
// Invariant: the roles start, take over and drain together; the death of the process ends both, and its
// restart starts both.

import type { Config } from '../config/options.ts';
import type { RoleName } from './messages.ts';
import type { Role } from './role.ts';

/** The roles that run in the process of this role, besides it. */
export function joinedRoles(role: RoleName, config: Pick<Config, 'timer.workers'>): readonly 'timer'[] {
  return role === 'upkeep' && config['timer.workers'] === 0 ? ['timer'] : [];
}

/** `first` with further roles in its process; its name and URL are those of the process. */
export function joined(first: Role, others: readonly Role[]): Role {
  if (others.length === 0) return first;
  const all = [first, ...others];
  return {
    name: first.name,
    url: first.url,
    inFlight: () => all.reduce((sum, role) => sum + role.inFlight(), 0),
    async start() {
      for (const role of all) await role.start();
    },
    async takeOver() {
      for (const role of all) await role.takeOver?.();
    },
    async drain(deadlineMs, isLast) {
      await Promise.all(all.map((role) => role.drain(deadlineMs, isLast)));
    },
  };
}

const single: ReadonlySet<RoleName> = new Set(['store', 'upkeep', 'console']);

/** As `ps` shows it: `dq-upkeep+timer` where two roles share the process. Roles with one process have no
 *  number. */
export function titleOf(role: RoleName, index: number, config: Pick<Config, 'timer.workers'>): string {
  const name = `dq-${[role, ...joinedRoles(role, config)].join('+')}`;
  return single.has(role) ? name : `${name}-${index}`;
}
