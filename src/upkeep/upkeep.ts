// The upkeep role: the agents that keep an instance healthy, in one process. Starts and ends them; what each does is its own
// file's. Invariant: an agent that fails is its own affair; no agent waits for another.

import type { Service } from '../core/service.ts';
import type { Role, RoleContext } from '../process/role.ts';

export function createUpkeep(ctx: RoleContext): Role {
  return new Upkeep(agentsOf(ctx));
}

/** In the order of their start. */
function agentsOf(_ctx: RoleContext): readonly Service[] {
  return [];
}

class Upkeep implements Role {
  readonly name = 'upkeep';
  readonly url = null;
  readonly #agents: readonly Service[];

  constructor(agents: readonly Service[]) {
    this.#agents = agents;
  }

  inFlight(): number {
    return 0;
  }

  async start(): Promise<void> {
    for (const agent of this.#agents) await agent.start();
  }

  async drain(deadlineMs: number): Promise<void> {
    await Promise.all(this.#agents.map((agent) => agent.drain(deadlineMs)));
  }
}
