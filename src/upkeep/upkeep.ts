// Runs the upkeep role: starts and drains the agents that keep an instance healthy and passes the master's
// messages to them.
// Invariants: an agent that fails or waits stops no other agent; one process at a time records incidents,
// because two would record and mail each of them twice.

import { hostname } from 'node:os';
import { givenUp, type Incident } from '../core/incident.ts';
import { limits } from '../core/limits.ts';
import { AlertChannels } from '../mail/alert-channels.ts';
import { HookSender } from '../mail/hook-sender.ts';
import { deadJobsMail, incidentsMail } from '../mail/mail-text.ts';
import {
  type BackoffTimes,
  MailCircuitBreaker,
  type MailSender,
  openMailSender,
} from '../mail/smtp-sender.ts';
import type { AlertEntry, StoreAdmin } from '../ports/job-store.ts';
import { IncidentFiles } from '../process/incident-files.ts';
import { answerQuestions, MasterQuestions } from '../process/master-questions.ts';
import type { ToWorker } from '../process/messages.ts';
import type { Role, RoleContext } from '../process/role.ts';
import { StatFiles } from '../process/stat-files.ts';
import { Agent } from '../runtime/loop.ts';
import type { Service } from '../runtime/service.ts';
import { monotonicNow, sleep, wallNow } from '../runtime/time.ts';
import type { Log } from '../telemetry/log.ts';
import { recordCleared, type Shards } from '../use-cases/change-shards.ts';
import { Incidents } from './alerts/incidents.ts';
import { type Alert, Mailer } from './alerts/mailer.ts';
import { AttemptRing } from './attempt-ring.ts';
import { FailureFile, FailureRows } from './failure-rows.ts';
import { HealthChecker, type HealthTimes, waitingIn } from './health-checker.ts';
import { Janitor, type LogFiles } from './janitor.ts';
import { type JournalAgents, journalAgents } from './journal-agents.ts';
import { upkeepLimits } from './limits.ts';
import { LivingProcesses } from './living-processes.ts';
import { isBehind, Mover } from './mover.ts';
import { Operations } from './operations/operations.ts';
import { Recoverer } from './recoverer.ts';
import { RemovalWatch } from './removal-watch.ts';
import { SeriesRecorder } from './series-recorder.ts';
import { StatsRecorder } from './stats-recorder.ts';
import { StoreMetrics } from './store-metrics.ts';
import { Ticker } from './ticker.ts';
import { TopicWatch, type WatchTimes } from './topic-watch.ts';

export interface UpkeepTimes {
  readonly mailBackoff: BackoffTimes;
  readonly alertPollMs: number;
  readonly deathPollMs: number;
  readonly alertClaimMs: number;
  readonly health: HealthTimes;
  readonly watch: WatchTimes;
}

/** What dq-upkeep reaches beside store and registry. */
export interface UpkeepSeams {
  /** null: no mail server */
  readonly mails: MailSender | null;
  readonly statFiles: Pick<StatFiles, keyof StatFiles>;
  readonly incidentFiles: Pick<IncidentFiles, keyof IncidentFiles>;
  readonly failureFile: Pick<FailureFile, keyof FailureFile>;
  readonly logFiles: LogFiles;
}

const usualTimes: UpkeepTimes = {
  mailBackoff: { min: upkeepLimits.mailAgainMsMin, max: upkeepLimits.mailAgainMsMax },
  alertPollMs: upkeepLimits.alertPollMs,
  deathPollMs: upkeepLimits.deathPollMs,
  alertClaimMs: upkeepLimits.alertClaimMs,
  health: {
    everyMs: upkeepLimits.healthEveryMs,
    afterMs: upkeepLimits.incidentAfterMs,
    lateMs: limits.lateMs,
    crashWindowMs: limits.crashLoopWindowMs,
  },
  watch: {
    everyMs: upkeepLimits.watchEveryMs,
    failingMs: upkeepLimits.failingMs,
    quietMs: upkeepLimits.quietMs,
    pausedMs: upkeepLimits.pausedMs,
    pausedEveryMs: upkeepLimits.pausedEveryMs,
  },
};

/** `seams`: shorter times in tests, and other files and mail servers than those of the configuration */
export function createUpkeep(ctx: RoleContext, seams: Partial<UpkeepTimes & UpkeepSeams> = {}): Role {
  return new Upkeep(ctx, { ...usualTimes, ...seams });
}

class Upkeep implements Role {
  readonly name = 'upkeep';
  readonly url = null;
  readonly #ctx: RoleContext;
  readonly #recoverer: Recoverer;
  readonly #recorder: StatsRecorder;
  readonly #series: SeriesRecorder;
  readonly #storeMetrics: StoreMetrics;
  readonly #ring = new AttemptRing(wallNow());
  readonly #rows: FailureRows;
  readonly #health: HealthChecker;
  /** null: without deliveries */
  readonly #watch: TopicWatch | null;
  readonly #incidents: Incidents;
  readonly #deadJobsMailer: Mailer<AlertEntry>;
  readonly #incidentMailer: Mailer<Incident & Alert>;
  /** in the order of their start */
  readonly #agents: readonly Service[];
  /** started when no other dq-upkeep works */
  readonly #soleAgents: readonly Service[];
  readonly #living = new LivingProcesses();
  /** null: without a journal */
  readonly #journal: JournalAgents | null;
  /** null: Redis is not in force */
  readonly #mover: Mover | null;
  #isSole = false;
  #gaveUp: Promise<void> | null = null;

  constructor(ctx: RoleContext, seams: UpkeepTimes & Partial<UpkeepSeams>) {
    const { clock, config, link, log, metrics, registry, shards, store, topics } = ctx;
    const { statFiles = new StatFiles(config.dataDir, config['mysql.url'] !== '') } = seams;
    const calls = !config.noDeliveries;
    this.#ctx = ctx;
    this.#recoverer = new Recoverer(ctx);
    this.#recorder = new StatsRecorder(registry, log, statFiles);
    this.#series = new SeriesRecorder(ctx);
    this.#storeMetrics = new StoreMetrics(topics, metrics);
    this.#incidents = new Incidents(seams.incidentFiles ?? new IncidentFiles(config.dataDir), log);
    [this.#deadJobsMailer, this.#incidentMailer] = mailersOf(ctx, seams, this.#incidents);
    this.#health = new HealthChecker({
      admin: store.admin,
      topics,
      incidents: this.#incidents,
      log,
      partitions: () => store.jobs.partitions().length,
      metrics: this.#storeMetrics,
      series: this.#series,
      // Without deliveries every due job is late on purpose.
      times: calls ? seams.health : { ...seams.health, lateMs: Number.POSITIVE_INFINITY },
      pullLateMs: (calls && config['alerts.pullLate']) || Number.POSITIVE_INFINITY,
    });
    this.#rows = new FailureRows({
      file: seams.failureFile ?? new FailureFile(config.dataDir),
      living: this.#living,
      topics,
      clock,
      log,
    });
    const questions = new MasterQuestions(link);
    const watchOptions = {
      ...ctx,
      questions,
      rows: this.#rows,
      incidents: this.#incidents,
      times: seams.watch,
    };
    this.#watch = calls ? new TopicWatch(watchOptions) : null;
    this.#journal =
      ctx.journal === undefined
        ? null
        : journalAgents(ctx, ctx.journal, this.#living, this.#incidents, seams.health.everyMs);
    const isJournalBehind = () => {
      const recorder = this.#journal?.recorder.state;
      return recorder !== undefined && isBehind(recorder, config['journal.spoolBytes']);
    };
    this.#mover = ctx.leaving === undefined ? null : new Mover(ctx, ctx.leaving, isJournalBehind);
    this.#agents = [
      this.#recoverer,
      this.#recorder,
      this.#series,
      new Janitor(ctx, seams.logFiles),
      ...(calls ? [new Ticker(ctx), this.#deadJobsMailer] : []),
      new RemovalWatch({ registry, topics, log }),
    ];
    this.#soleAgents = [
      ...(this.#journal?.all ?? []),
      this.#health,
      this.#rows,
      new Operations(ctx, () => (this.#journal?.looker.notes.length ?? 0) > 0),
      ...(this.#mover === null ? [] : [this.#mover]),
      ...(this.#watch === null ? [] : [this.#incidentMailer, this.#watch]),
      ...(shards === undefined ? [] : [shardClearer({ registry, ...shards }, log)]),
    ];
    answerQuestions(link, log, {
      attempts: (asked) => this.#ring.list(asked),
      past_failures: (asked) => this.#rows.parts(asked),
      move_problem: () => this.#mover?.problem ?? null,
      journal_lag: () => this.#journal?.recorder.state.lagMs ?? null,
      journal_fsck: ({ starts }) => {
        if (starts) this.#journal?.fsck.start();
        return this.#journal?.fsck.state ?? null;
      },
    });
    link.onMessage((message) => this.#receive(message));
  }

  inFlight(): number {
    return 0;
  }

  async start(): Promise<void> {
    await this.#rows.load();
    for (const agent of this.#agents) await agent.start();
    if (!this.#ctx.takesOver) await this.takeOver();
  }

  async takeOver(): Promise<void> {
    await this.#incidents
      .load()
      .catch((error: unknown) => this.#ctx.log.error('incidents: cannot read earlier incidents', error));
    this.#isSole = true;
    for (const agent of this.#soleAgents) await agent.start();
  }

  async drain(deadlineMs: number, isLast = false): Promise<void> {
    const end = monotonicNow() + deadlineMs;
    if (this.#gaveUp !== null) await this.#mailGivenUp(this.#gaveUp, deadlineMs / 2);
    await Promise.all([...this.#agents, ...this.#soleAgents].map((agent) => agent.drain(deadlineMs)));
    if (isLast && this.#isSole)
      await this.#journal?.recorder.sayEnded(this.#ctx.owner.incarnation, end - monotonicNow());
    // From here on the next dq-upkeep reads the incidents; the master reports a crash loop again at the next
    // death.
    this.#isSole = false;
    await this.#incidents.flush();
  }

  #receive(message: ToWorker): void {
    switch (message.kind) {
      case 'owner_dead':
        this.#recoverer.ownerDied(message.incarnation);
        break;
      case 'living':
        this.#recoverer.onlyTheseLive(message.incarnations);
        this.#living.receive(message);
        break;
      case 'attempts':
        this.#ring.add(message.attempts);
        break;
      case 'counters':
        this.#recorder.add(message.deltas);
        this.#series.counted(message.deltas);
        this.#storeMetrics.counted(message.deltas);
        this.#watch?.counted(message.deltas);
        if (message.deltas.some(({ name }) => name === 'dead')) this.#deadJobsMailer.wake();
        break;
      case 'failing':
        this.#rows.receive(message.news);
        break;
      case 'observed':
        this.#series.observed(message.topics);
        break;
      // Sent again at every further death.
      case 'crash_loop':
        if (this.#isSole) this.#health.crashed(message.role, message.how ?? 'died too often', message.reason);
        break;
      // If this process is not the sole one, the master records it.
      case 'gave_up':
        if (this.#isSole) this.#gaveUp ??= this.#health.gaveUp(message.reason);
        break;
      default:
    }
  }

  /** Waits at most deadlineMs for the mail about the end of the daemon: a next start that would mail it may
   *  never come. */
  async #mailGivenUp(recorded: Promise<void>, deadlineMs: number): Promise<void> {
    const end = monotonicNow() + deadlineMs;
    await recorded;
    if (this.#ctx.config.noDeliveries) return;
    this.#incidentMailer.wake();
    while (this.#incidents.isOwed(givenUp) && monotonicNow() < end) await sleep(20);
  }
}

/** Of dead jobs, and of incidents. */
function mailersOf(
  { config, log, metrics, store, topics, version }: RoleContext,
  times: UpkeepTimes & Pick<Partial<UpkeepSeams>, 'mails'>,
  incidents: Incidents,
): readonly [Mailer<AlertEntry>, Mailer<Incident & Alert>] {
  const { mails = openMailSender(config), mailBackoff, alertClaimMs } = times;
  const daemon = { host: hostname(), version, publicUrl: config['console.publicUrl'] };
  const breaker = new MailCircuitBreaker(mails, log, mailBackoff);
  const common = {
    config,
    log,
    metrics,
    channels: new AlertChannels(breaker, new HookSender(config, mailBackoff)),
    claimMs: alertClaimMs,
    perMail: upkeepLimits.alertsPerMail,
  };
  const ofDeadJobs = new Mailer<AlertEntry>({
    ...common,
    name: 'dead jobs',
    outbox: store.alerts,
    // A topic that is removed has none.
    addressesOf: async (name) => {
      const topic = await topics.lookUp(name);
      return topic === undefined ? [] : [...topic.alertEmails, ...topic.alertHooks];
    },
    mailAbout: async (topic, entries) =>
      deadJobsMail(topic, entries, daemon, await waitingOf(store.admin, topic)),
    subjectOf: (topic, entries) => deadJobsMail(topic, entries, daemon, null).subject,
    pollMs: times.deathPollMs,
    perHour: upkeepLimits.mailsPerHourMax,
  });
  const ofIncidents = new Mailer<Incident & Alert>({
    ...common,
    name: 'incidents',
    outbox: incidents,
    // Only the recipients of all: the addresses of a topic are for its dead letters.
    addressesOf: async () => [],
    mailAbout: (_, some) => incidentsMail(some, daemon),
    subjectOf: (_, some) => incidentsMail(some, daemon).subject,
    pollMs: times.alertPollMs,
    perHour: null,
  });
  return [ofDeadJobs, ofIncidents];
}

/** The delayed and ready jobs of a topic; null: the store does not answer. */
async function waitingOf(admin: StoreAdmin, topic: string): Promise<number | null> {
  const counts = await admin.countsOf([topic]).catch(() => null);
  return counts === null ? null : waitingIn(counts.topics, topic);
}

/** Marks a shard as cleared in the registry when it holds no job that an earlier shard list placed there.
 *  From then on ids with another home are not looked up there, and if it is unavailable only its own ids are
 *  affected. A check stops at the first job of an earlier list, so that a shard whose jobs are delayed for
 *  weeks costs little. */
function shardClearer(shards: Shards, log: Log): Agent {
  return new Agent({
    log,
    failure: 'shard-clearer: cannot check the shards for jobs of earlier lists',
    end: 'shard-clearer: checks the shards again',
    work: async () => {
      for (const id of await recordCleared(shards))
        log.notice('shard-clearer: a shard holds no job of an earlier list', { shard: id });
    },
    everyMs: upkeepLimits.clearEveryMs,
  });
}
