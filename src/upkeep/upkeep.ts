// The upkeep role: the agents that keep an instance healthy, in one process. Starts and ends them and hands them what the
// master says; what each does is its own file's. Invariant: an agent that fails is its own affair; none waits for another.

import { hostname } from 'node:os';
import { limits } from '../core/limits.ts';
import type { Service } from '../core/service.ts';
import { openMailSender } from '../mail/smtp-sender.ts';
import { IncidentFiles } from '../process/incident-files.ts';
import type { Role, RoleContext } from '../process/role.ts';
import { HealthChecker, type HealthTimes } from './health-checker.ts';
import { Incidents } from './incidents.ts';
import { Janitor } from './janitor.ts';
import { type AgainTimes, MailGate } from './mail-gate.ts';
import { Mailer } from './mailer.ts';
import { OutboxAlerts } from './outbox-alerts.ts';
import { Recoverer } from './recoverer.ts';
import { StatsRecorder } from './stats-recorder.ts';

export interface UpkeepTimes {
  readonly mailAgain: AgainTimes;
  readonly alertPollMs: number;
  readonly alertClaimMs: number;
  readonly health: HealthTimes;
}

const usualTimes: UpkeepTimes = {
  mailAgain: { min: limits.mailAgainMsMin, max: limits.mailAgainMsMax },
  alertPollMs: limits.alertPollMs,
  alertClaimMs: limits.alertClaimMs,
  health: {
    everyMs: limits.healthEveryMs,
    afterMs: limits.incidentAfterMs,
    lateMs: limits.lateMs,
    crashWindowMs: limits.crashLoopWindowMs,
  },
};

/** `times`: for tests that cannot wait for the limits. */
export function createUpkeep(ctx: RoleContext, times: Partial<UpkeepTimes> = {}): Role {
  return new Upkeep(ctx, { ...usualTimes, ...times });
}

class Upkeep implements Role {
  readonly name = 'upkeep';
  readonly url = null;
  readonly #ctx: RoleContext;
  readonly #incidents: Incidents;
  /** in the order of their start */
  readonly #agents: readonly Service[];

  constructor(ctx: RoleContext, times: UpkeepTimes) {
    const { config, log, store, topics } = ctx;
    const writer = { host: hostname(), version: ctx.version };
    const recoverer = new Recoverer(ctx);
    const recorder = new StatsRecorder(ctx.registry, log);
    const incidents = new Incidents(new IncidentFiles(config.dataDir), log, writer);
    const health = new HealthChecker({ admin: store.admin, topics, incidents, log, times: times.health });
    const gate = new MailGate(openMailSender(config), log, times.mailAgain);
    const outbox = new OutboxAlerts(store.alerts, topics, writer, times.alertClaimMs);
    const mailers = [outbox, incidents].map(
      (source) => new Mailer({ source, gate, config, log, pollMs: times.alertPollMs }),
    );
    this.#ctx = ctx;
    this.#incidents = incidents;
    this.#agents = [recoverer, recorder, new Janitor(ctx), health, ...mailers];
    ctx.link.onMessage((message) => {
      if (message.kind === 'owner_dead') recoverer.ownerDied(message.incarnation);
      else if (message.kind === 'living') recoverer.onlyTheseLive(message.incarnations);
      else if (message.kind === 'counters') recorder.add(message.deltas);
      else if (message.kind === 'crash_loop') health.crashed(message.role, message.reason);
    });
  }

  inFlight(): number {
    return 0;
  }

  async start(): Promise<void> {
    await this.#incidents
      .load()
      .catch((error: unknown) => this.#ctx.log.error('earlier incidents cannot be read', error));
    for (const agent of this.#agents) await agent.start();
  }

  async drain(deadlineMs: number): Promise<void> {
    await Promise.all(this.#agents.map((agent) => agent.drain(deadlineMs)));
    await this.#incidents.flush();
  }
}
