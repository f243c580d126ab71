// The upkeep role: the agents that keep an instance healthy, in one process. Starts and ends them and hands them what the
// master says; what each does is its own file's. Invariants: an agent that fails is its own affair, none waits for another; incidents are
// known to one process at a time, because two would find and mail the same trouble twice.

import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { limits } from '../core/limits.ts';
import { type AgainTimes, MailCircuitBreaker } from '../mail/mail-circuit-breaker.ts';
import { openMailSender } from '../mail/smtp-sender.ts';
import { givenUp, IncidentFiles } from '../process/incident-files.ts';
import type { Role, RoleContext } from '../process/role.ts';
import { StatFiles } from '../process/stat-files.ts';
import type { Service } from '../runtime/service.ts';
import type { AlertSource } from './alerts/alert-source.ts';
import { Incidents } from './alerts/incidents.ts';
import { Mailer } from './alerts/mailer.ts';
import { OutboxAlerts } from './alerts/outbox-alerts.ts';
import { HealthChecker, type HealthTimes } from './health-checker.ts';
import { Janitor } from './janitor.ts';
import { upkeepLimits } from './limits.ts';
import { Recoverer } from './recoverer.ts';
import { RemovalWatch } from './removal-watch.ts';
import { ShardClearer } from './shard-clearer.ts';
import { StatsRecorder } from './stats-recorder.ts';
import { StoreMetrics } from './store-metrics.ts';

export interface UpkeepTimes {
  readonly mailAgain: AgainTimes;
  readonly alertPollMs: number;
  readonly deathPollMs: number;
  readonly alertClaimMs: number;
  readonly health: HealthTimes;
}

const usualTimes: UpkeepTimes = {
  mailAgain: { min: upkeepLimits.mailAgainMsMin, max: upkeepLimits.mailAgainMsMax },
  alertPollMs: upkeepLimits.alertPollMs,
  deathPollMs: upkeepLimits.deathPollMs,
  alertClaimMs: upkeepLimits.alertClaimMs,
  health: {
    everyMs: upkeepLimits.healthEveryMs,
    afterMs: upkeepLimits.incidentAfterMs,
    lateMs: upkeepLimits.lateMs,
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
  readonly #mailerOfIncidents: Mailer;
  /** in the order of their start */
  readonly #agents: readonly Service[];
  /** those that know incidents; begun when no other upkeep is at work */
  readonly #soleAgents: readonly Service[];
  #isSole = false;
  #gaveUp: Promise<void> | null = null;

  constructor(ctx: RoleContext, times: UpkeepTimes) {
    const { config, log, metrics, store, topics } = ctx;
    const writer = { host: hostname(), version: ctx.version };
    const recoverer = new Recoverer(ctx);
    const kept = new StatFiles(config.dataDir, config['mysql.url'] !== '');
    const recorder = new StatsRecorder(ctx.registry, log, kept);
    const incidents = new Incidents(new IncidentFiles(config.dataDir), log, writer);
    const storeMetrics = new StoreMetrics(topics, metrics);
    const health = new HealthChecker({
      admin: store.admin,
      partitions: () => store.jobs.partitions().length,
      topics,
      incidents,
      log,
      metrics: storeMetrics,
      times: times.health,
    });
    const gate = new MailCircuitBreaker(openMailSender(config), log, times.mailAgain);
    const outbox = new OutboxAlerts(store.alerts, topics, writer, times.alertClaimMs);
    const mailerOf = (source: AlertSource, pollMs: number, perHour: number | null) =>
      new Mailer({ source, gate, config, log, metrics, pollMs, perHour });
    const mailerOfDeaths = mailerOf(outbox, times.deathPollMs, upkeepLimits.mailsPerHourMax);
    this.#ctx = ctx;
    this.#incidents = incidents;
    this.#mailerOfIncidents = mailerOf(incidents, times.alertPollMs, null);
    const removals = new RemovalWatch({ registry: ctx.registry, topics, log });
    this.#agents = [recoverer, recorder, new Janitor(ctx), mailerOfDeaths, removals];
    const settler = ctx.shards && new ShardClearer({ registry: ctx.registry, ...ctx.shards }, log);
    this.#soleAgents = [health, this.#mailerOfIncidents, ...(settler === undefined ? [] : [settler])];
    ctx.link.onMessage((message) => {
      if (message.kind === 'owner_dead') recoverer.ownerDied(message.incarnation);
      else if (message.kind === 'living') recoverer.onlyTheseLive(message.incarnations);
      else if (message.kind === 'counters') {
        recorder.add(message.deltas);
        storeMetrics.counted(message.deltas);
        if (message.deltas.some(({ name }) => name === 'dead')) mailerOfDeaths.wakeSoon();
      }
      // Told again at every further death.
      else if (message.kind === 'crash_loop' && this.#isSole)
        health.crashed(message.role, message.how ?? 'died too often', message.reason);
      // Else the master keeps it.
      else if (message.kind === 'gave_up' && this.#isSole) this.#gaveUp ??= health.gaveUp(message.reason);
    });
  }

  inFlight(): number {
    return 0;
  }

  async start(): Promise<void> {
    for (const agent of this.#agents) await agent.start();
    if (!this.#ctx.takesOver) await this.takeOver();
  }

  async takeOver(): Promise<void> {
    await this.#incidents
      .load()
      .catch((error: unknown) => this.#ctx.log.error('earlier incidents cannot be read', error));
    this.#isSole = true;
    for (const agent of this.#soleAgents) await agent.start();
  }

  async drain(deadlineMs: number): Promise<void> {
    if (this.#gaveUp !== null) await this.#tellOfTheEnd(this.#gaveUp, deadlineMs / 2);
    await Promise.all([...this.#agents, ...this.#soleAgents].map((agent) => agent.drain(deadlineMs)));
    // The next dq-upkeep reads the incidents from here on; the master reports a crash loop again at the next death.
    this.#isSole = false;
    await this.#incidents.flush();
  }

  /** Once this process has ended nobody mails it before the next start, and nobody may come to make one. */
  async #tellOfTheEnd(begun: Promise<void>, deadlineMs: number): Promise<void> {
    const end = performance.now() + deadlineMs;
    await begun;
    this.#mailerOfIncidents.wake();
    while (this.#incidents.isOwed(givenUp) && performance.now() < end) await sleep(20);
  }
}
