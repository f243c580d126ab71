// Removes log files older than log.days, history entries older than history.retention (those of schedules
// need limits.tickHistoryMs), dead letters older
// than dead.retention, audit entries older than audit.days, changes and ended rows older than
// journal.retention. Each kind has its own agent, so that none waits for another; a failure is logged once
// and retried. Invariant: the store decides by its own clock what is too old, and keeps every dead letter
// whose alert is owed.

import { standardOutput } from '../config/options.ts';
import { firstAuditId } from '../core/audit.ts';
import { limits } from '../core/limits.ts';
import { journalLimits } from '../journal/limits.ts';
import type { JournalParts, RoleContext } from '../process/role.ts';
import { Agent, isDue, turnAfter } from '../runtime/loop.ts';
import type { Service } from '../runtime/service.ts';
import { monotonicNow, wallNow } from '../runtime/time.ts';
import { removeOldLogs, trimOutput } from '../telemetry/log-file.ts';
import { upkeepLimits } from './limits.ts';

/** Removes log files of a directory. */
export interface LogFiles {
  readonly removeOldLogs: typeof removeOldLogs;
  readonly trimOutput: typeof trimOutput;
}

export class Janitor implements Service {
  readonly #ctx: RoleContext;
  readonly #logFiles: LogFiles;
  readonly #agents: readonly Agent[];

  constructor(ctx: RoleContext, logFiles: LogFiles = { removeOldLogs, trimOutput }) {
    this.#ctx = ctx;
    this.#logFiles = logFiles;
    const { journal } = ctx;
    this.#agents = [
      this.#agent('log files', () => this.#removeLogs()),
      this.#agent('history entries', () => this.#forgetHistory()),
      this.#agent('dead letters', () => this.#expireDead()),
      this.#agent('audit entries', () => this.#trimAudit()),
      ...(journal === undefined
        ? []
        : [this.#agent('rows of the journal', () => this.#trimJournal(journal))]),
    ];
  }

  async start(): Promise<void> {
    for (const agent of this.#agents) await agent.start();
  }

  async drain(deadlineMs: number): Promise<void> {
    await Promise.all(this.#agents.map((agent) => agent.drain(deadlineMs)));
  }

  /** `round` returns the ms until the next one; the agent turns at least once a second and skips the turns
   *  between. */
  #agent(what: string, round: () => Promise<number>): Agent {
    let nextAt = 0;
    let waitMs = 0;
    return new Agent({
      log: this.#ctx.log,
      failure: `janitor: cannot remove ${what}`,
      end: `janitor: removes ${what} again`,
      step: async () => {
        if (!isDue(nextAt, waitMs)) return nextAt - monotonicNow();
        waitMs = await round();
        nextAt = turnAfter(waitMs);
        return waitMs;
      },
    });
  }

  async #removeLogs(): Promise<number> {
    const { config, log, clock, store } = this.#ctx;
    if (config.logDir === standardOutput) return upkeepLimits.janitorEveryMs;
    // After a jump of the storage clock the store removes nothing for a while. Log files wait, too, as while
    // it is unknown.
    const health = await store.admin.health().catch(() => null);
    if (health === null || health.isClockHeld === true) {
      // By size only.
      await this.#logFiles.trimOutput(config.logDir, Number.POSITIVE_INFINITY, 0);
      return upkeepLimits.retentionManyMs;
    }
    const now = await clock.read();
    const files = this.#logFiles;
    const removed = await files.removeOldLogs(config.logDir, config['log.days'], now, config['audit.days']);
    await files.trimOutput(config.logDir, config['log.days'], now);
    if (removed.length > 0) log.notice('janitor: removed old log files', { files: removed });
    return upkeepLimits.janitorEveryMs;
  }

  async #forgetHistory(): Promise<number> {
    const { config, store } = this.#ctx;
    // Also with retention 0: entries of an earlier configuration may exist.
    const retentionMs = Math.max(config['history.retention'], limits.tickHistoryMs);
    const { more } = await store.history.forget(retentionMs, limits.forgetMax);
    return this.#waitMs(more);
  }

  async #expireDead(): Promise<number> {
    const { config, store, log } = this.#ctx;
    const { expired, more } = await store.dead.expire(config['dead.retention'], limits.expireMax);
    if (expired > 0) log.notice('janitor: removed dead letters older than dead.retention', { expired });
    return this.#waitMs(more);
  }

  async #trimAudit(): Promise<number> {
    const { config, clock, registry } = this.#ctx;
    const since = (await clock.read()) - config['audit.days'] * 86_400_000;
    const { more } = await registry.trimAudit(firstAuditId(since));
    return more ? upkeepLimits.retentionPauseMs : upkeepLimits.auditTrimMs;
  }

  /** Pauses as long as it took: MySQL has other work. By the earlier one of two clocks: an end that is
   *  removed too early outranks no lost row. */
  async #trimJournal({ db }: JournalParts): Promise<number> {
    const { config, clock } = this.#ctx;
    const began = monotonicNow();
    const now = Math.min(await clock.read(), wallNow());
    const more = await db.trim(now - config['journal.retention'], journalLimits.journalTrimMax);
    return more ? monotonicNow() - began : journalLimits.journalTrimMs;
  }

  #waitMs(more: boolean): number {
    if (more) return upkeepLimits.retentionPauseMs;
    const isMany = this.#ctx.store.jobs.partitions().length > upkeepLimits.fewPartitions;
    return isMany ? upkeepLimits.retentionManyMs : upkeepLimits.retentionEveryMs;
  }
}
