// Watches the journal of this instance for people: opens and ends its incidents, and publishes its metrics.
// Changes nothing in the store and in the spool.

import { formatDuration } from '../core/duration.ts';
import type { Version } from '../core/job.ts';
import type { Looker } from '../journal/heal/looker.ts';
import type { HealingWatch } from '../journal/heal/restorer.ts';
import { journalLimits } from '../journal/limits.ts';
import type { RecorderState } from '../journal/ship/recorder.ts';
import type { JournalInstance, RestoreCounts } from '../ports/journal.ts';
import type { SpooledStreams } from '../ports/spool.ts';
import { Agent } from '../runtime/loop.ts';
import type { Log } from '../telemetry/log.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { Incidents } from './alerts/incidents.ts';

interface JournalWatchOptions {
  /** of the recorder */
  readonly recorder: () => RecorderState;
  readonly looker: Pick<Looker, 'notes' | 'hasSeenAll'>;
  readonly spool: Pick<SpooledStreams, 'setAsideCounts'>;
  /** of the spool's writer in this process: why it rejects pushes */
  readonly rejectReason: () => string | null;
  readonly incidents: Pick<Incidents, 'begin' | 'end' | 'open'>;
  readonly metrics: Metrics;
  readonly log: Log;
  /** limit of the spool */
  readonly spoolBytes: number;
  /** the server of a shard as operators know it */
  readonly nameOf: (shard: string) => string;
  readonly everyMs: number;
}

/** Parts of the journal that have an incident of their own. */
type Part = 'shipping' | 'spool' | 'pushes' | 'damaged' | 'late' | 'peers';

const journal = (about: Part) => ({ kind: 'journal', about }) as const;
const wentBack = (server: string) => ({ kind: 'went_back', about: server }) as const;

export class JournalWatch extends Agent implements HealingWatch {
  readonly #options: JournalWatchOptions;
  #isWaiting = false;

  constructor(options: JournalWatchOptions) {
    const { log, everyMs } = options;
    super({
      log,
      failure: 'journal-watch: cannot check the journal',
      end: 'journal-watch: checks the journal again',
      work: () => this.#check(),
      everyMs,
      first: 'later',
      failureWaitMs: everyMs,
    });
    this.#options = options;
  }

  async lost(shard: string, from: Version, isRepeat: boolean): Promise<void> {
    const { incidents, metrics, nameOf } = this.#options;
    const server = nameOf(shard);
    if (!isRepeat) metrics.count('dq_store_went_back_total', 1, server);
    const how = from === 0 ? 'lost all its jobs' : 'went back to an older state';
    await incidents.begin(
      wentBack(server),
      `Redis at ${server} ${how}; dq restores the jobs from the journal`,
    );
  }

  async waits(silent: readonly JournalInstance[]): Promise<void> {
    this.#isWaiting = true;
    await this.#options.incidents.begin(
      journal('peers'),
      `the healing of Redis waits for ${namesOf(silent)}, which may have changes that MySQL lacks: start it; or dq restore --now goes on without it, and jobs that it cancelled can be called`,
    );
  }

  interrupted(): void {
    this.#isWaiting = false;
  }

  async goesOn(behind: readonly JournalInstance[]): Promise<void> {
    this.#isWaiting = false;
    await this.#options.incidents.end(
      journal('peers'),
      behind.length === 0
        ? 'the healing of Redis has the changes of all instances'
        : `the healing of Redis goes on without the latest changes of ${namesOf(behind)}: jobs that it cancelled can be called`,
    );
  }

  compared({ put, removed, kept }: RestoreCounts): void {
    const { metrics } = this.#options;
    for (const [outcome, n] of [
      ['put', put],
      ['removed', removed],
      ['kept', kept],
    ] as const)
      if (n > 0) metrics.count('dq_restored_jobs_total', n, outcome);
  }

  /** Called when a healing has ended. */
  async healed(shard: string, { done, put, removed }: RestoreCounts): Promise<void> {
    const { incidents, nameOf } = this.#options;
    const server = nameOf(shard);
    const counts = `${put} jobs put back, ${removed} removed that had ended, of ${done} compared`;
    await incidents.end(wentBack(server), `Redis at ${server} has its jobs again: ${counts}`);
  }

  async #check(): Promise<void> {
    const { recorder, looker, spool, metrics, rejectReason, spoolBytes: bytesMax } = this.#options;
    const { lagMs, spoolBytes } = recorder();
    metrics.set('dq_spool_bytes', [[spoolBytes]]);
    metrics.set('dq_journal_lag_seconds', [[lagMs / 1_000]]);
    metrics.set('dq_restoring', [[looker.notes.length]]);
    await this.#judge(
      'shipping',
      lagMs >= journalLimits.journalLagMs &&
        'the journal does not get into MySQL; the spool keeps it, and pushes stop when the spool is full',
      lagMs < journalLimits.journalLagMs / 2 && 'the journal gets into MySQL again',
    );
    const why = rejectReason();
    const rejects = why !== null && `pushes are rejected: the spool ${why}`;
    await this.#judge('pushes', rejects, 'the spool takes pushes again');
    await this.#judge(
      'spool',
      spoolBytes >= bytesMax / 2 &&
        'the spool is more than half full; when it is full, dq rejects pushes: see dq help troubleshooting',
      spoolBytes < bytesMax * 0.4 && 'the spool is less than half full again',
    );
    const { late, damaged } = await spool.setAsideCounts();
    await this.#judgeFiles('damaged', damaged, 'have unreadable changes');
    await this.#judgeFiles('late', late, 'are too old to be shipped');
    await this.#endHealedElsewhere();
    // Another worker, or an operator, may have ended a wait that began here.
    await this.#judge('peers', false, !this.#isWaiting && 'no healing of Redis waits here any more');
  }

  /** Begins or ends the incident of this part with a sentence; two times false: it stays as it is. */
  async #judge(part: Part, begun: string | false, over: string | false): Promise<void> {
    const { incidents } = this.#options;
    if (begun !== false) await incidents.begin(journal(part), begun);
    else if (over !== false) await incidents.end(journal(part), over);
  }

  /** Segments stay in the directory of their part until a person removes them. */
  async #judgeFiles(part: 'damaged' | 'late', count: number, how: string): Promise<void> {
    const segments = count === 1 ? '1 segment' : `${count} segments`;
    await this.#judge(
      part,
      count > 0 && `${segments} of the spool ${how}; see spool/${part} in the data directory`,
      `no segments are left in spool/${part}`,
    );
  }

  /** Another instance may heal a shard whose healing began here. */
  async #endHealedElsewhere(): Promise<void> {
    const { incidents, looker, nameOf } = this.#options;
    if (!looker.hasSeenAll) return;
    const lost = new Set(looker.notes.map(({ place }) => nameOf(place.split(':')[0] ?? '')));
    for (const { kind, about } of incidents.open())
      if (kind === 'went_back' && !lost.has(about))
        await incidents.end(wentBack(about), `Redis at ${about} has its jobs again`);
  }
}

/** The text begins an incident once: the age of the first look. */
const namesOf = (instances: readonly JournalInstance[]): string =>
  instances
    .map(({ host, instance, ageMs }) => {
      const ago = formatDuration(Math.max(0, Math.round(ageMs / 1_000)) * 1_000);
      return `instance ${instance.toString(16).padStart(8, '0')} on ${host} (last sign ${ago} ago)`;
    })
    .join(', ');
