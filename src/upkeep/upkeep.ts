// The upkeep role: the agents that keep an instance healthy, in one process. Starts and ends them and hands them what the
// master says; what each does is its own file's. Invariant: an agent that fails is its own affair; none waits for another.

import type { Service } from '../core/service.ts';
import type { Role, RoleContext } from '../process/role.ts';
import { Janitor } from './janitor.ts';
import { Recoverer } from './recoverer.ts';
import { StatsRecorder } from './stats-recorder.ts';

export function createUpkeep(ctx: RoleContext): Role {
  return new Upkeep(ctx);
}

class Upkeep implements Role {
  readonly name = 'upkeep';
  readonly url = null;
  /** in the order of their start */
  readonly #agents: readonly Service[];

  constructor(ctx: RoleContext) {
    const recoverer = new Recoverer(ctx);
    const recorder = new StatsRecorder(ctx.registry, ctx.log);
    this.#agents = [recoverer, recorder, new Janitor(ctx)];
    ctx.link.onMessage((message) => {
      if (message.kind === 'owner_dead') recoverer.ownerDied(message.incarnation);
      else if (message.kind === 'living') recoverer.onlyTheseLive(message.incarnations);
      else if (message.kind === 'counters') recorder.add(message.deltas);
    });
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
